use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// `allow|deny principal operation [prefix:]name [host]`, of a topic.
fn acl(text: &str) -> Acl {
    let words: Vec<&str> = text.split(' ').collect();
    let (pattern, name) = match words[3].strip_prefix("prefix:") {
        Some(name) => (PatternType::Prefixed, name),
        None => (PatternType::Literal, words[3]),
    };
    Acl {
        resource_type: ResourceType::Topic,
        pattern,
        name: name.to_owned(),
        principal: format!("User:{}", words[1]),
        host: words.get(4).copied().unwrap_or(WILDCARD).to_owned(),
        operation: AclOperation::from_name(words[2]).expect("an operation"),
        permission: Permission::from_name(words[0]).expect("a permission"),
    }
}

fn acls(texts: &[&str]) -> Acls {
    let mut acls = Acls::default();
    texts.iter().for_each(|text| acls.set(&AclRecord { acl: acl(text), is_removed: false }));
    acls
}

fn may(acls: &Acls, user: &str, operation: AclOperation, name: &str) -> bool {
    let principal = format!("User:{user}");
    let verdict = acls.judge(&principal, HOST, operation, ResourceType::Topic, name);
    matches!(verdict, AclVerdict::Allowed(_))
}

#[test]
fn names_prefixes_and_everything_count_together() {
    use AclOperation::{Read, Write};
    let acls = acls(&["allow a read x", "allow a write prefix:x", "allow b read *"]);
    assert!(
        may(&acls, "a", Read, "x") && may(&acls, "a", Write, "x") && may(&acls, "a", Write, "xy")
    );
    assert!(!may(&acls, "a", Read, "xy") && !may(&acls, "a", Write, "y"));
    assert!(may(&acls, "b", Read, "anything") && !may(&acls, "c", Read, "x"));
}

#[test]
fn a_denial_wins_wherever_it_comes_from() {
    use AclOperation::{Describe, Read, Write};
    for denial in ["deny a read x", "deny a read prefix:x", "deny a all *", "deny * read *"] {
        let acls = acls(&["allow a all x", "allow a all *", denial]);
        assert!(!may(&acls, "a", Read, "x"), "{denial}");
    }
    let acls = acls(&["allow a all x", "deny a read x"]);
    // Who may not read may still describe by what else is allowed.
    assert!(may(&acls, "a", Write, "x") && may(&acls, "a", Describe, "x"));
}

#[test]
fn who_may_do_more_may_describe() {
    use AclOperation::{AlterConfigs, Create, Describe, DescribeConfigs};
    for implying in ["read", "write", "delete", "alter", "describe", "all"] {
        let acls = acls(&[&format!("allow a {implying} x")]);
        assert!(may(&acls, "a", Describe, "x"), "{implying}");
    }
    for other in ["create", "alter_configs", "describe_configs"] {
        let acls = acls(&[&format!("allow a {other} x")]);
        assert!(!may(&acls, "a", Describe, "x"), "{other}");
    }
    let acls = acls(&["allow a alter_configs x"]);
    assert!(may(&acls, "a", DescribeConfigs, "x") && may(&acls, "a", AlterConfigs, "x"));
    assert!(!may(&acls, "a", Create, "x"));
}

#[test]
fn hosts_are_compared_as_addresses_are_written() {
    let acls = acls(&["allow a read x 10.0.0.1", "allow b read x 10.0.0.2"]);
    assert!(may(&acls, "a", AclOperation::Read, "x") && !may(&acls, "b", AclOperation::Read, "x"));
}

#[test]
fn no_entry_at_all_is_another_answer_than_none_that_allows() {
    let acls = acls(&["allow a read x", "allow a read prefix:pre"]);
    let judge = |name| acls.judge("User:b", HOST, AclOperation::Read, ResourceType::Topic, name);
    assert_eq!(judge("y"), AclVerdict::NoEntries);
    assert_eq!(judge("x"), AclVerdict::NotAllowed);
    assert_eq!(judge("prefix"), AclVerdict::NotAllowed);
    let group = acls.judge("User:a", HOST, AclOperation::Read, ResourceType::Group, "x");
    assert_eq!(group, AclVerdict::NoEntries);
}

#[test]
fn any_resource_will_do_unless_denials_cover_all_that_is_allowed() {
    let may_any = |texts: &[&str]| {
        acls(texts).judge_any("User:a", HOST, AclOperation::Write, ResourceType::Topic)
    };
    assert!(!may_any(&[]));
    assert!(may_any(&["allow a write x"]));
    assert!(may_any(&["allow * all prefix:x"]));
    assert!(!may_any(&["allow b write x"]));
    assert!(!may_any(&["allow a write x", "deny a write *"]));
    assert!(!may_any(&["allow a write x", "deny * all x"]));
    assert!(!may_any(&["allow a write xyz", "deny a write prefix:x"]));
    assert!(!may_any(&["allow a write prefix:xy", "deny a write prefix:x"]));
    assert!(may_any(&["allow a write prefix:x", "deny a write x"]));
    assert!(may_any(&["allow a write prefix:x", "deny a write prefix:xy"]));
    assert!(may_any(&["allow a write *", "deny a write x"]));
}

#[test]
fn what_was_removed_is_gone_and_nothing_else() {
    let texts = [
        "allow a read prefix:x",
        "allow a write prefix:x",
        "allow b read prefix:x",
        "allow a read x",
    ];
    let mut changing = acls(&texts);
    for text in texts {
        assert!(changing.has(&acl(text)));
        changing.set(&AclRecord { acl: acl(text), is_removed: true });
        assert!(!changing.has(&acl(text)));
    }
    assert_eq!(changing, Acls::default());
    assert!(changing.0.prefix_lengths.is_empty() && changing.0.literal.is_empty());
}

#[test]
fn what_changes_nothing_is_the_same() {
    let before = acls(&["allow a read x"]);
    let mut after = before.clone();
    after.set(&AclRecord { acl: acl("allow a read x"), is_removed: false });
    after.set(&AclRecord { acl: acl("allow a read y"), is_removed: true });
    assert!(after.is_same(&before));
    after.set(&AclRecord { acl: acl("allow a read y"), is_removed: false });
    assert!(!after.is_same(&before));
}

/// What the rules say, by a look at every entry.
fn judged_one_by_one(
    all: &[Acl],
    principal: &str,
    operation: AclOperation,
    name: &str,
) -> AclVerdict {
    let about = |acl: &&Acl| match acl.pattern {
        PatternType::Literal => acl.name == name || acl.name == WILDCARD,
        PatternType::Prefixed => name.starts_with(&acl.name),
    };
    let about: Vec<&Acl> = all.iter().filter(about).collect();
    if about.is_empty() {
        return AclVerdict::NoEntries;
    }
    let is_his = |acl: &&&Acl| {
        (acl.principal == principal || acl.principal == EVERY_USER)
            && (acl.host == WILDCARD || acl.host == HOST.to_string())
    };
    let his: Vec<&&Acl> = about.iter().filter(is_his).collect();
    let denied = his
        .iter()
        .find(|acl| acl.permission == Permission::Deny && acl.operation.covers(operation));
    let allowed = his
        .iter()
        .find(|acl| acl.permission == Permission::Allow && acl.operation.implies(operation));
    match (denied, allowed) {
        (Some(acl), _) => AclVerdict::Denied((**acl).clone()),
        (None, Some(acl)) => AclVerdict::Allowed((**acl).clone()),
        (None, None) => AclVerdict::NotAllowed,
    }
}

fn any_acl() -> impl Strategy<Value = Acl> {
    let one_of = |words: &'static [&'static str]| prop::sample::select(words);
    let parts = (
        one_of(&["allow", "deny"]),
        one_of(&["a", "b", "*"]),
        one_of(&["read", "write", "describe", "all"]),
        one_of(&["*", "x", "xy", "xyz", "prefix:x", "prefix:xy", "prefix:é", "é"]),
        one_of(&["*", "10.0.0.1", "10.0.0.2"]),
    );
    parts.prop_map(|(permission, who, operation, name, host)| {
        acl(&format!("{permission} {who} {operation} {name} {host}"))
    })
}

proptest! {
    /// The maps say what a look at each entry says, and a copy by records is equal.
    #[test]
    fn maps_judge_as_entries_do(
        changes in prop::collection::vec((any_acl(), prop::bool::weighted(0.2)), 0..30),
        name in "[xyzé*]{1,4}",
        operation in prop::sample::select(AclOperation::ALL),
    ) {
        let (mut acls, mut all) = (Acls::default(), Vec::new());
        for (acl, is_removed) in changes {
            all.retain(|known| *known != acl);
            if !is_removed {
                all.push(acl.clone());
            }
            acls.set(&AclRecord { acl, is_removed });
        }
        prop_assert_eq!(acls.count(), all.len());
        let kind = |verdict: &AclVerdict| std::mem::discriminant(verdict);
        let verdict = acls.judge("User:a", HOST, operation, ResourceType::Topic, &name);
        let expected = judged_one_by_one(&all, "User:a", operation, &name);
        prop_assert_eq!(kind(&verdict), kind(&expected), "{:?} {:?}", verdict, expected);

        let mut records = Vec::new();
        acls.push_records(&mut records);
        let mut copy = Acls::default();
        for record in &records {
            let MetadataRecord::Acl(record) = record else { panic!("{record:?}") };
            copy.set(record);
        }
        prop_assert_eq!(copy, acls);
    }
}
