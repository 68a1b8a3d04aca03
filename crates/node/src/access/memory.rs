//! What one requester was told.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use logway_metadata::Acls;

use super::{Operation, Resource};

/// How many topics and groups are remembered of one connection: a bound on its memory.
const NAMES_MAX: usize = 128;

/// Longer names are not remembered.
const NAME_MAX_BYTES: usize = 256;

/// What one requester was told, as long as the ACLs are the same. A connection has one, and so one principal and host.
#[derive(Debug, Default)]
pub struct AccessMemory(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// Those by which it was told. While it holds them, no others can be taken for them.
    acls: Acls,
    topics: HashMap<Box<str>, Told>,
    groups: HashMap<Box<str>, Told>,
    some_topic: Told,
    cluster: Told,
}

/// What it was told about one resource, in bits by operation.
#[derive(Debug, Default, Clone, Copy)]
struct Told {
    asked: i32,
    allowed: i32,
}

impl AccessMemory {
    /// The answer that was given before, or a new one.
    pub(super) fn recall(
        &self,
        acls: &Acls,
        operation: Operation,
        resource: Resource<'_>,
        decide: impl FnOnce() -> bool,
    ) -> bool {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !remembered.acls.is_same(acls) {
            *remembered = Remembered { acls: acls.clone(), ..Remembered::default() };
        }
        let Some(told) = remembered.told(resource) else { return decide() };
        let bit = operation.bit();
        if told.asked & bit == 0 {
            told.asked |= bit;
            // The lock is held: nothing that decides asks for it.
            told.allowed |= if decide() { bit } else { 0 };
        }
        told.allowed & bit != 0
    }
}

impl Remembered {
    /// What was told about a resource; `None` if it is not to be remembered.
    fn told(&mut self, resource: Resource<'_>) -> Option<&mut Told> {
        let (by_name, name) = match resource {
            Resource::Topic(name) => (&mut self.topics, name),
            Resource::Group(name) => (&mut self.groups, name),
            Resource::SomeTopic => return Some(&mut self.some_topic),
            Resource::Cluster => return Some(&mut self.cluster),
            Resource::TransactionalId(_) | Resource::DelegationToken(_) | Resource::User(_) => {
                return None;
            }
        };
        if name.len() > NAME_MAX_BYTES {
            return None;
        }
        if !by_name.contains_key(name) {
            if by_name.len() >= NAMES_MAX {
                by_name.clear();
            }
            by_name.insert(name.into(), Told::default());
        }
        by_name.get_mut(name)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use logway_metadata::acl::{Acl, AclOperation, PatternType, Permission, ResourceType};
    use logway_metadata::record::AclRecord;
    use logway_metadata::{MetadataImage, MetadataRecord};

    use super::*;

    #[test]
    fn a_question_is_decided_once_until_the_acls_change() {
        let (memory, decided) = (AccessMemory::default(), Cell::new(0));
        let ask = |acls: &Acls, operation, resource| {
            memory.recall(acls, operation, resource, || {
                decided.set(decided.get() + 1);
                operation == Operation::Read
            })
        };
        let image = MetadataImage::default();
        for _ in 0..3 {
            assert!(ask(image.acls(), Operation::Read, Resource::Topic("t")));
            assert!(!ask(image.acls(), Operation::Write, Resource::Topic("t")));
            assert!(ask(image.acls(), Operation::Read, Resource::Group("t")));
        }
        assert_eq!(decided.get(), 3);
        let acl = Acl {
            resource_type: ResourceType::Topic,
            pattern: PatternType::Literal,
            name: "other".to_owned(),
            principal: "User:x".to_owned(),
            host: "*".to_owned(),
            operation: AclOperation::Read,
            permission: Permission::Allow,
        };
        let record = MetadataRecord::Acl(AclRecord { acl, is_removed: false });
        let image = image.apply(&[record]).expect("fits");
        assert!(ask(image.acls(), Operation::Read, Resource::Topic("t")));
        assert_eq!(decided.get(), 4);
    }

    #[test]
    fn many_names_take_no_more_memory_than_some() {
        let memory = AccessMemory::default();
        let acls = Acls::default();
        for number in 0..10 * NAMES_MAX {
            let name = format!("topic-{number}");
            assert!(memory.recall(&acls, Operation::Read, Resource::Topic(&name), || true));
        }
        let remembered = memory.0.lock().expect("nobody panicked");
        assert!(remembered.topics.len() <= NAMES_MAX);
    }
}
