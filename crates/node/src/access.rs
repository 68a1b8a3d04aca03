//! Who may do what: the one question that every front door asks before it does anything for a client.
//!
//! Nobody is refused anything until a [`Policy`] is set. An open node pays a load and a branch for each
//! question.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;

use crate::Node;

/// Somebody who makes requests, as it was authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    kind: Cow<'static, str>,
    name: Cow<'static, str>,
}

impl Principal {
    /// The kind of principals that are people or programs, which is all there are.
    pub const USER: &'static str = "User";

    /// A client that has not said who it is, under Kafka's name for it.
    pub fn anonymous() -> &'static Principal {
        static ANONYMOUS: Principal =
            Principal { kind: Cow::Borrowed(Principal::USER), name: Cow::Borrowed("ANONYMOUS") };
        &ANONYMOUS
    }

    /// The user of a name.
    pub fn user(name: impl Into<Cow<'static, str>>) -> Principal {
        Principal { kind: Cow::Borrowed(Principal::USER), name: name.into() }
    }

    /// What it is, e.g. `User`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What it is called, e.g. `ANONYMOUS`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// As ACLs name it.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

/// What can be done with a resource, by the numbers of Kafka's `AclOperation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Read records; be a member of a group.
    Read = 3,
    /// Append records.
    Write = 4,
    /// Make it.
    Create = 5,
    /// Delete it, or part of it.
    Delete = 6,
    /// Change what it is.
    Alter = 7,
    /// Learn that it exists, and what it is.
    Describe = 8,
    /// Act as a node of the cluster.
    ClusterAction = 9,
    /// Learn its settings.
    DescribeConfigs = 10,
    /// Change its settings.
    AlterConfigs = 11,
    /// Append as an idempotent producer.
    IdempotentWrite = 12,
}

impl Operation {
    /// Its place in a field of operations (KIP-430).
    pub const fn bit(self) -> i32 {
        1 << self as u8
    }
}

/// What something is done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource<'a> {
    /// The topic of a name, whether it exists or not.
    Topic(&'a str),
    /// One topic at least, whichever: asked where a request is about no topic yet (KIP-679).
    SomeTopic,
    /// The group of an id.
    Group(&'a str),
    /// The cluster.
    Cluster,
    /// The transactional id of a producer.
    TransactionalId(&'a str),
}

impl Resource<'_> {
    /// What makes sense with such a resource, as in Kafka's `AclEntry`.
    pub const fn operations(&self) -> &'static [Operation] {
        use Operation::*;
        match self {
            Resource::Topic(_) | Resource::SomeTopic => {
                &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs]
            }
            Resource::Group(_) => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
            Resource::Cluster => &[
                Create,
                Alter,
                Describe,
                ClusterAction,
                DescribeConfigs,
                AlterConfigs,
                IdempotentWrite,
            ],
            Resource::TransactionalId(_) => &[Write, Describe],
        }
    }
}

/// Who asks, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester<'a> {
    /// Who.
    pub principal: &'a Principal,
    /// The address that it connects from.
    pub host: IpAddr,
}

/// Says whether somebody may do something. It is asked on the network threads, and must not wait.
pub type Policy = dyn Fn(&Requester<'_>, Operation, Resource<'_>) -> bool + Send + Sync;

/// The policy in force. Until one is set everything is allowed.
#[derive(Default)]
pub struct Access {
    /// Whether there is a policy: what an open node looks at.
    is_restricted: AtomicBool,
    policy: ArcSwapOption<Box<Policy>>,
}

impl Access {
    /// From now on a policy decides. Requests that are in work may be judged by what held before.
    pub fn restrict(
        &self,
        policy: impl Fn(&Requester<'_>, Operation, Resource<'_>) -> bool + Send + Sync + 'static,
    ) {
        let policy: Box<Policy> = Box::new(policy);
        self.policy.store(Some(Arc::new(policy)));
        // Whoever sees this sees the policy.
        self.is_restricted.store(true, Ordering::Release);
    }

    /// Whether everybody may do everything. Then nothing has to be asked.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.is_restricted.load(Ordering::Acquire)
    }

    #[inline]
    fn allows(&self, who: &Requester<'_>, operation: Operation, resource: Resource<'_>) -> bool {
        self.is_open() || self.decide(who, operation, resource)
    }

    fn decide(&self, who: &Requester<'_>, operation: Operation, resource: Resource<'_>) -> bool {
        self.policy.load().as_ref().is_some_and(|policy| policy(who, operation, resource))
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_restricted = self.is_restricted.load(Ordering::Relaxed);
        f.debug_struct("Access").field("is_restricted", &is_restricted).finish_non_exhaustive()
    }
}

impl Node {
    /// Whether somebody may do something with a resource.
    #[inline]
    pub fn allows(
        &self,
        who: &Requester<'_>,
        operation: Operation,
        resource: Resource<'_>,
    ) -> bool {
        self.access.allows(who, operation, resource)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn everything_is_allowed_until_a_policy_says_otherwise() {
        let (access, alice) = (Access::default(), Principal::user("alice"));
        let ask = |principal, operation, resource| {
            access.allows(&Requester { principal, host: HOST }, operation, resource)
        };
        assert!(access.is_open());
        assert!(ask(Principal::anonymous(), Operation::Write, Resource::Topic("t")));
        access.restrict(|who, operation, resource| {
            who.principal.name() == "alice"
                && who.host == HOST
                && operation == Operation::Read
                && resource == Resource::Topic("t")
        });
        assert!(!access.is_open());
        assert!(ask(&alice, Operation::Read, Resource::Topic("t")));
        assert!(!ask(&alice, Operation::Write, Resource::Topic("t")));
        assert!(!ask(&alice, Operation::Read, Resource::Group("t")));
        assert!(!ask(Principal::anonymous(), Operation::Read, Resource::Topic("t")));
        access.restrict(|_, _, _| true);
        assert!(ask(Principal::anonymous(), Operation::Read, Resource::Topic("t")));
    }

    #[test]
    fn operations_have_kafkas_bits() {
        let all = |resource: Resource<'_>| {
            resource.operations().iter().fold(0, |bits, operation| bits | operation.bit())
        };
        // What Kafka sends where it has no authorizer.
        assert_eq!(all(Resource::Topic("t")), 3_576);
        assert_eq!(all(Resource::Group("g")), 3_400);
        assert_eq!(all(Resource::Cluster), 8_096);
    }

    #[test]
    fn principals_are_written_as_acls_have_them() {
        assert_eq!(Principal::anonymous().to_string(), "User:ANONYMOUS");
        assert_eq!(Principal::user("alice").to_string(), "User:alice");
        assert_eq!(Principal::anonymous().kind(), Principal::USER);
    }
}
