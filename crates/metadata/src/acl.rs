//! Access control lists: who may do what with which resource, as records have it (KIP-11, KIP-290).

use std::fmt;

use serde::{Deserialize, Serialize};

/// One entry of an access control list, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acl {
    /// The kind of resource.
    pub resource_type: ResourceType,
    /// Whether the name is a whole name or the beginning of names.
    pub pattern: PatternType,
    /// The name; `*` as a whole name stands for all.
    pub name: String,
    /// Whom it is about, as `User:alice`; `User:*` for everybody.
    pub principal: String,
    /// From which address; `*` for all.
    pub host: String,
    /// What is done.
    pub operation: AclOperation,
    /// Whether it may be done.
    pub permission: Permission,
}

/// Every user.
pub const EVERY_USER: &str = "User:*";

/// Every address, or, as a whole name, every resource.
pub const WILDCARD: &str = "*";

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(i8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $number,)+
        }

        impl $name {
            /// Every one.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Kafka's number for it.
            pub const fn number(self) -> i8 {
                self as i8
            }

            /// The one of a number.
            pub fn from_number(number: i8) -> Option<$name> {
                $name::ALL.iter().copied().find(|one| one.number() == number)
            }

            /// Kafka's name for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }

            /// The one of a name, in any case of letters, with or without underscores.
            pub fn from_name(name: &str) -> Option<$name> {
                let flat = |text: &str| text.replace(['_', '-'], "").to_ascii_lowercase();
                $name::ALL.iter().copied().find(|one| flat(one.name()) == flat(name))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

numbered! {
    /// A kind of resource.
    ResourceType {
        /// A topic.
        Topic = 2 "TOPIC",
        /// A group.
        Group = 3 "GROUP",
        /// The cluster, whose name is `kafka-cluster`.
        Cluster = 4 "CLUSTER",
        /// The transactional id of a producer.
        TransactionalId = 5 "TRANSACTIONAL_ID",
        /// A delegation token.
        DelegationToken = 6 "DELEGATION_TOKEN",
        /// A user, as the owner of tokens.
        User = 7 "USER",
    }
}

numbered! {
    /// What the name of an entry means.
    PatternType {
        /// That name alone, or all where it is `*`.
        Literal = 3 "LITERAL",
        /// Every name that begins so.
        Prefixed = 4 "PREFIXED",
    }
}

numbered! {
    /// What is done with a resource.
    AclOperation {
        /// Everything.
        All = 2 "ALL",
        /// Read records; be a member of a group.
        Read = 3 "READ",
        /// Append records.
        Write = 4 "WRITE",
        /// Make it.
        Create = 5 "CREATE",
        /// Delete it, or part of it.
        Delete = 6 "DELETE",
        /// Change what it is.
        Alter = 7 "ALTER",
        /// Learn that it exists, and what it is.
        Describe = 8 "DESCRIBE",
        /// Act as a node of the cluster.
        ClusterAction = 9 "CLUSTER_ACTION",
        /// Learn its settings.
        DescribeConfigs = 10 "DESCRIBE_CONFIGS",
        /// Change its settings.
        AlterConfigs = 11 "ALTER_CONFIGS",
        /// Append as an idempotent producer.
        IdempotentWrite = 12 "IDEMPOTENT_WRITE",
        /// Make tokens for another user.
        CreateTokens = 13 "CREATE_TOKENS",
        /// Learn of another user's tokens.
        DescribeTokens = 14 "DESCRIBE_TOKENS",
        /// Take part in two-phase commits.
        TwoPhaseCommit = 15 "TWO_PHASE_COMMIT",
    }
}

numbered! {
    /// What an entry says of an operation.
    Permission {
        /// It may not be done, whatever other entries allow.
        Deny = 2 "DENY",
        /// It may be done.
        Allow = 3 "ALLOW",
    }
}

/// The name of the one resource of the kind [`ResourceType::Cluster`].
pub const CLUSTER_NAME: &str = "kafka-cluster";

impl ResourceType {
    /// What can be done with such a resource, as in Kafka.
    pub const fn operations(self) -> &'static [AclOperation] {
        use AclOperation::*;
        match self {
            ResourceType::Topic => {
                &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs]
            }
            ResourceType::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
            ResourceType::Cluster => &[
                Create,
                Alter,
                Describe,
                ClusterAction,
                DescribeConfigs,
                AlterConfigs,
                IdempotentWrite,
            ],
            ResourceType::TransactionalId => &[Write, Describe, TwoPhaseCommit],
            ResourceType::DelegationToken => &[Describe],
            ResourceType::User => &[CreateTokens, DescribeTokens],
        }
    }
}

impl AclOperation {
    /// Whether an entry that allows `self` allows an operation, too: who may read, write, delete or alter may describe.
    pub const fn implies(self, operation: AclOperation) -> bool {
        use AclOperation::*;
        match operation {
            Describe => matches!(self, Describe | Read | Write | Delete | Alter | All),
            DescribeConfigs => matches!(self, DescribeConfigs | AlterConfigs | All),
            _ => matches!(self, All) || self as i8 == operation as i8,
        }
    }

    /// Whether it changes what others find: what an audit asks for.
    pub const fn is_administration(self) -> bool {
        use AclOperation::*;
        matches!(self, Create | Delete | Alter | AlterConfigs | CreateTokens)
    }

    /// Its place in a field of operations (KIP-430).
    pub const fn bit(self) -> i32 {
        1 << self as i8
    }

    /// Whether an entry that denies `self` denies an operation: nothing is implied.
    pub const fn covers(self, operation: AclOperation) -> bool {
        matches!(self, AclOperation::All) || self as i8 == operation as i8
    }
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Acl { resource_type, pattern, name, principal, host, operation, permission } = self;
        write!(
            f,
            "{permission} {principal} from {host}: {operation} of {resource_type} {pattern} '{}'",
            crate::error::excerpt(name)
        )
    }
}

/// Which entries a request is about. What is `None` can be anything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AclFilter {
    /// The kind of resource.
    pub resource_type: Option<ResourceType>,
    /// How the name is compared.
    pub pattern: PatternFilter,
    /// The name.
    pub name: Option<String>,
    /// Whom entries are about.
    pub principal: Option<String>,
    /// From which address.
    pub host: Option<String>,
    /// What is done.
    pub operation: Option<AclOperation>,
    /// Whether it may be done.
    pub permission: Option<Permission>,
}

/// How the name of a filter is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternFilter {
    /// With the names of entries of any pattern.
    #[default]
    Any,
    /// With all entries that are about the resource of that name, by themselves, by a prefix or by `*`.
    Match,
    /// With the names of entries of this pattern.
    Only(PatternType),
}

impl AclFilter {
    /// Whether an entry is one of those.
    pub fn fits(&self, acl: &Acl) -> bool {
        fn is<T: PartialEq>(wanted: &Option<T>, value: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        }
        is(&self.resource_type, &acl.resource_type)
            && self.fits_name(acl)
            && is(&self.principal, &acl.principal)
            && is(&self.host, &acl.host)
            && is(&self.operation, &acl.operation)
            && is(&self.permission, &acl.permission)
    }

    fn fits_name(&self, acl: &Acl) -> bool {
        if matches!(self.pattern, PatternFilter::Only(pattern) if pattern != acl.pattern) {
            return false;
        }
        let Some(name) = &self.name else { return true };
        match (self.pattern, acl.pattern) {
            (PatternFilter::Match, PatternType::Literal) => {
                acl.name == *name || acl.name == WILDCARD
            }
            (PatternFilter::Match, PatternType::Prefixed) => name.starts_with(&acl.name),
            _ => acl.name == *name,
        }
    }
}
