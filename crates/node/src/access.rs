//! Who may do what: the one question that every front door asks before it does anything for a client.
//!
//! Nobody is refused anything unless ACLs are in force, or a [`Policy`] is set. An open node pays a load and a branch
//! for each question.

mod memory;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;

use logway_metadata::Acls;
pub use logway_metadata::acl::AclOperation as Operation;
use logway_metadata::acl::{CLUSTER_NAME, ResourceType};
use logway_metadata::image::AclVerdict;
use logway_metadata::settings::{AuthorizerSettings, BrokerSettings};
pub use memory::AccessMemory;

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
    /// The delegation token of an id.
    DelegationToken(&'a str),
    /// The user of a name as ACLs have it, `User:alice`: as the owner of tokens.
    User(&'a str),
}

impl Resource<'_> {
    /// What makes sense with such a resource, as in Kafka.
    pub const fn operations(&self) -> &'static [Operation] {
        self.kind().operations()
    }

    /// The kind of resource.
    pub const fn kind(&self) -> ResourceType {
        match self {
            Resource::Topic(_) | Resource::SomeTopic => ResourceType::Topic,
            Resource::Group(_) => ResourceType::Group,
            Resource::Cluster => ResourceType::Cluster,
            Resource::TransactionalId(_) => ResourceType::TransactionalId,
            Resource::DelegationToken(_) => ResourceType::DelegationToken,
            Resource::User(_) => ResourceType::User,
        }
    }

    /// Its name; `None` where any will do.
    pub const fn name(&self) -> Option<&str> {
        match self {
            Resource::Topic(name)
            | Resource::Group(name)
            | Resource::TransactionalId(name)
            | Resource::DelegationToken(name)
            | Resource::User(name) => Some(name),
            Resource::Cluster => Some(CLUSTER_NAME),
            Resource::SomeTopic => None,
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

/// What is in force. Where neither ACLs nor a policy are, everything is allowed.
pub struct Access {
    /// Whether anything is in force: what an open node looks at.
    is_restricted: AtomicBool,
    /// Beats the ACLs.
    policy: ArcSwapOption<Box<Policy>>,
    /// `authorizer.class.name`, if ACLs are in force.
    authorizer: Option<AuthorizerSettings>,
}

impl Access {
    /// What the settings say.
    pub fn new(settings: &BrokerSettings) -> Access {
        let authorizer = settings.authorizer.clone();
        let is_restricted = AtomicBool::new(authorizer.is_some());
        Access { is_restricted, policy: ArcSwapOption::empty(), authorizer }
    }

    /// From now on a policy decides. Requests that are in work may be judged by what held before.
    pub fn restrict(
        &self,
        policy: impl Fn(&Requester<'_>, Operation, Resource<'_>) -> bool + Send + Sync + 'static,
    ) {
        let policy: Box<Policy> = Box::new(policy);
        self.policy.store(Some(Arc::new(policy)));
        // Who sees this sees the policy.
        self.is_restricted.store(true, Ordering::Release);
    }

    /// Whether everybody may do everything. Then nothing has to be asked.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.is_restricted.load(Ordering::Acquire)
    }

    /// Whether ACLs are in force.
    pub fn has_acls(&self) -> bool {
        self.authorizer.is_some()
    }

    fn decide(
        &self,
        acls: &Acls,
        who: &Requester<'_>,
        operation: Operation,
        resource: Resource<'_>,
    ) -> bool {
        if let Some(policy) = &*self.policy.load() {
            return policy(who, operation, resource);
        }
        let Some(authorizer) = &self.authorizer else { return true };
        let principal = who.principal.to_string();
        if authorizer.super_users.contains(&principal) {
            return true;
        }
        let Some(name) = resource.name() else {
            let is_any_allowed = acls.judge_any(&principal, who.host, operation, resource.kind());
            return is_any_allowed || authorizer.allows_where_no_acl && acls.count() == 0;
        };
        match acls.judge(&principal, who.host, operation, resource.kind(), name) {
            AclVerdict::Allowed(_) => true,
            AclVerdict::NoEntries => authorizer.allows_where_no_acl,
            AclVerdict::Denied(_) | AclVerdict::NotAllowed => false,
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_restricted = self.is_restricted.load(Ordering::Relaxed);
        f.debug_struct("Access").field("is_restricted", &is_restricted).finish_non_exhaustive()
    }
}

impl Node {
    /// Whether somebody may do something with a resource. What was decided for the same requester before is in its
    /// memory.
    #[inline]
    pub fn allows(
        &self,
        who: &Requester<'_>,
        operation: Operation,
        resource: Resource<'_>,
        memory: &AccessMemory,
    ) -> bool {
        self.access.is_open() || self.decide(who, operation, resource, memory)
    }

    fn decide(
        &self,
        who: &Requester<'_>,
        operation: Operation,
        resource: Resource<'_>,
        memory: &AccessMemory,
    ) -> bool {
        let image = self.image();
        let decide = || self.access.decide(image.acls(), who, operation, resource);
        match self.access.policy.load().is_some() {
            true => decide(),
            false => memory.recall(image.acls(), operation, resource, decide),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn everything_is_allowed_until_a_policy_says_otherwise() {
        let (access, alice) = (Access::new(&BrokerSettings::default()), Principal::user("alice"));
        let acls = Acls::default();
        let ask = |principal, operation, resource| {
            let who = Requester { principal, host: HOST };
            access.is_open() || access.decide(&acls, &who, operation, resource)
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
    fn super_users_may_do_everything_and_others_what_acls_say() {
        let settings = [
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("super.users", "User:admin; User:CN=root,O=x"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let access = Access::new(&BrokerSettings::new(settings).expect("are valid"));
        let acls = Acls::default();
        let ask = |name: &'static str, resource| {
            let principal = Principal::user(name);
            let who = Requester { principal: &principal, host: HOST };
            access.decide(&acls, &who, Operation::Write, resource)
        };
        assert!(!access.is_open() && access.has_acls());
        for resource in [Resource::Topic("t"), Resource::SomeTopic, Resource::Cluster] {
            assert!(ask("admin", resource) && ask("CN=root,O=x", resource));
            assert!(!ask("alice", resource));
        }
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
