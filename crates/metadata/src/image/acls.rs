//! The access control lists within the image.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::acl::{Acl, AclOperation, EVERY_USER, PatternType, Permission, ResourceType, WILDCARD};
use crate::record::{AclRecord, MetadataRecord};

/// All entries. Copies share what does not differ, and one that shares all is known to do so.
///
/// Invariants: no level of the maps is empty; no entry is there twice; `prefix_lengths` counts the names in
/// `prefixed`.
#[derive(Debug, Clone, Default)]
pub struct Acls(Arc<Lists>);

#[derive(Debug, Clone, Default)]
struct Lists {
    literal: ByType,
    prefixed: ByType,
    /// How many names of prefixes have each length, in bytes: only those are looked up.
    prefix_lengths: BTreeMap<(ResourceType, usize), usize>,
    count: usize,
}

type ByType = BTreeMap<ResourceType, RedBlackTreeMapSync<Arc<str>, ByPrincipal>>;
type ByPrincipal = RedBlackTreeMapSync<Arc<str>, Arc<Vec<Entry>>>;

/// What an entry says beside whom and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    host: String,
    operation: AclOperation,
    permission: Permission,
}

/// What the entries say of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclVerdict {
    /// This entry denies it.
    Denied(Acl),
    /// No entry denies it, and this one allows it.
    Allowed(Acl),
    /// Entries are about the resource, and none allows it.
    NotAllowed,
    /// No entry is about the resource.
    NoEntries,
}

/// Two are equal that hold the same entries, in whatever order these came.
impl PartialEq for Acls {
    fn eq(&self, other: &Acls) -> bool {
        self.is_same(other) || self.count() == other.count() && self.iter().eq(other.iter())
    }
}

impl Eq for Acls {}

impl Acls {
    /// Whether both are one: nothing has changed between them.
    pub fn is_same(&self, other: &Acls) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Whether an entry is there.
    pub fn has(&self, acl: &Acl) -> bool {
        let lists = self.0.of(acl.pattern).get(&acl.resource_type);
        let entries = lists.and_then(|it| it.get(&*acl.name)?.get(&*acl.principal));
        entries.is_some_and(|entries| entries.contains(&Entry::of(acl)))
    }

    /// Every entry, in order.
    pub fn iter(&self) -> impl Iterator<Item = Acl> + '_ {
        let literal = self.0.literal.iter().map(|it| (PatternType::Literal, it));
        let prefixed = self.0.prefixed.iter().map(|it| (PatternType::Prefixed, it));
        literal.chain(prefixed).flat_map(|(pattern, (&resource_type, names))| {
            names.iter().flat_map(move |(name, principals)| {
                principals.iter().flat_map(move |(principal, entries)| {
                    let acl =
                        move |entry: &Entry| entry.acl(resource_type, pattern, name, principal);
                    let mut acls: Vec<Acl> = entries.iter().map(acl).collect();
                    acls.sort();
                    acls
                })
            })
        })
    }

    /// Judges whether a principal at an address may do something with a resource.
    ///
    /// It looks up the name, `*`, and each length that a prefix has, and in each of these the principal and everybody:
    /// entries about other resources and principals cost nothing.
    pub fn judge(
        &self,
        principal: &str,
        host: IpAddr,
        operation: AclOperation,
        resource_type: ResourceType,
        name: &str,
    ) -> AclVerdict {
        let (mut allowed, mut is_empty) = (None, true);
        let mut host_text = None;
        for (pattern, pattern_name, principals) in self.0.about(resource_type, name) {
            is_empty = false;
            for who in [principal, EVERY_USER] {
                for entry in principals.get(who).map_or(&[][..], |entries| entries) {
                    let fits_host = entry.host == WILDCARD
                        || entry.host == *host_text.get_or_insert_with(|| host.to_string());
                    if !fits_host {
                        continue;
                    }
                    let acl = || entry.acl(resource_type, pattern, pattern_name, who);
                    match entry.permission {
                        Permission::Deny if entry.operation.covers(operation) => {
                            return AclVerdict::Denied(acl());
                        }
                        Permission::Allow if entry.operation.implies(operation) => {
                            allowed.get_or_insert_with(acl);
                        }
                        _ => {}
                    }
                }
            }
        }
        match allowed {
            Some(acl) => AclVerdict::Allowed(acl),
            None if is_empty => AclVerdict::NoEntries,
            None => AclVerdict::NotAllowed,
        }
    }

    /// Whether a principal at an address may do something with any resource of a kind, whichever (KIP-679).
    ///
    /// An entry that allows it counts unless a denial covers all that it allows: of the same name, of a prefix of it,
    /// or of everything.
    pub fn judge_any(
        &self,
        principal: &str,
        host: IpAddr,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> bool {
        let host = host.to_string();
        let has = |principals: &ByPrincipal, permission: Permission| {
            [principal, EVERY_USER].into_iter().any(|who| {
                let mut entries = principals.get(who).into_iter().flat_map(|list| list.iter());
                entries.any(|entry| {
                    entry.permission == permission
                        && (entry.host == WILDCARD || entry.host == host)
                        && match permission {
                            Permission::Deny => entry.operation.covers(operation),
                            Permission::Allow => entry.operation.implies(operation),
                        }
                })
            })
        };
        let denies = |principals: &ByPrincipal| has(principals, Permission::Deny);
        let lists = &*self.0;
        let literal = lists.literal.get(&resource_type);
        if literal.and_then(|names| names.get(WILDCARD)).is_some_and(denies) {
            return false;
        }
        let is_denied = |name: &str, pattern: PatternType| {
            let by_prefix = lists.prefixes_of(resource_type, name).any(|(_, it)| denies(it));
            let by_name = pattern == PatternType::Literal
                && literal.and_then(|names| names.get(name)).is_some_and(denies);
            by_prefix || by_name
        };
        let allows = |by_type: &ByType, pattern: PatternType| {
            let names = by_type.get(&resource_type).into_iter().flat_map(|names| names.iter());
            let mut allowing = names.filter(|(_, it)| has(it, Permission::Allow));
            allowing.any(|(name, _)| &**name == WILDCARD || !is_denied(name, pattern))
        };
        allows(&lists.literal, PatternType::Literal)
            || allows(&lists.prefixed, PatternType::Prefixed)
    }

    pub(super) fn set(&mut self, record: &AclRecord) {
        let AclRecord { acl, is_removed } = record;
        if self.has(acl) == *is_removed {
            Arc::make_mut(&mut self.0).set(acl, *is_removed);
        }
    }

    pub(super) fn push_records(&self, records: &mut Vec<MetadataRecord>) {
        let record = |acl| MetadataRecord::Acl(AclRecord { acl, is_removed: false });
        records.extend(self.iter().map(record));
    }
}

impl Lists {
    fn of(&self, pattern: PatternType) -> &ByType {
        match pattern {
            PatternType::Literal => &self.literal,
            PatternType::Prefixed => &self.prefixed,
        }
    }

    /// The lists that are about a resource.
    fn about<'a>(
        &'a self,
        resource_type: ResourceType,
        name: &'a str,
    ) -> impl Iterator<Item = (PatternType, &'a str, &'a ByPrincipal)> {
        let literal = self.literal.get(&resource_type);
        let names = if name == WILDCARD { &[WILDCARD][..] } else { &[WILDCARD, ""][..] };
        let names = names.iter().map(move |known| if known.is_empty() { name } else { known });
        let literal = names
            .filter_map(move |known| Some((PatternType::Literal, known, literal?.get(known)?)));
        let prefixed = self.prefixes_of(resource_type, name);
        literal.chain(prefixed.map(|(name, it)| (PatternType::Prefixed, name, it)))
    }

    /// The lists of the prefixes of a name.
    fn prefixes_of<'a>(
        &'a self,
        resource_type: ResourceType,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a ByPrincipal)> {
        let names = self.prefixed.get(&resource_type);
        let lengths = (resource_type, 0)..=(resource_type, name.len());
        self.prefix_lengths.range(lengths).filter_map(move |((_, length), _)| {
            let prefix = name.get(..*length)?;
            Some((prefix, names?.get(prefix)?))
        })
    }

    /// Adds an entry that is not there, or removes one that is.
    fn set(&mut self, acl: &Acl, is_removed: bool) {
        let by_type = match acl.pattern {
            PatternType::Literal => &mut self.literal,
            PatternType::Prefixed => &mut self.prefixed,
        };
        let names = by_type.entry(acl.resource_type).or_default();
        let known = names.get(&*acl.name).cloned();
        let was_known = known.is_some();
        let mut principals = known.unwrap_or_default();
        let mut entries = principals.get(&*acl.principal).cloned().unwrap_or_default();
        let list = Arc::make_mut(&mut entries);
        match is_removed {
            true => list.retain(|entry| *entry != Entry::of(acl)),
            false => list.push(Entry::of(acl)),
        }
        match list.is_empty() {
            true => drop(principals.remove_mut(&*acl.principal)),
            false => principals.insert_mut(acl.principal.as_str().into(), entries),
        }
        let is_known = !principals.is_empty();
        match is_known {
            true => names.insert_mut(acl.name.as_str().into(), principals),
            false => drop(names.remove_mut(&*acl.name)),
        }
        if names.is_empty() {
            by_type.remove(&acl.resource_type);
        }
        self.count = if is_removed { self.count - 1 } else { self.count + 1 };
        if acl.pattern == PatternType::Prefixed {
            let key = (acl.resource_type, acl.name.len());
            let count = self.prefix_lengths.entry(key).or_default();
            *count = *count + usize::from(is_known) - usize::from(was_known);
            if *count == 0 {
                self.prefix_lengths.remove(&key);
            }
        }
    }
}

impl Entry {
    fn of(acl: &Acl) -> Entry {
        let Acl { host, operation, permission, .. } = acl;
        Entry { host: host.clone(), operation: *operation, permission: *permission }
    }

    fn acl(
        &self,
        resource_type: ResourceType,
        pattern: PatternType,
        name: &str,
        principal: &str,
    ) -> Acl {
        Acl {
            resource_type,
            pattern,
            name: name.to_owned(),
            principal: principal.to_owned(),
            host: self.host.clone(),
            operation: self.operation,
            permission: self.permission,
        }
    }
}

#[cfg(test)]
mod tests;
