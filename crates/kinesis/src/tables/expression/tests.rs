use super::condition::{Condition, Operand, Work};
use super::update::updated;
use super::*;
use crate::json;
use crate::tables::OPERATIONS;
use crate::tables::attribute::Item;
use crate::type_error::TypeErrors;
use crate::value::Structure;

/// A request of UpdateItem.
fn input(body: &str) -> Structure {
    let update = OPERATIONS.iter().find(|it| it.text == "UpdateItem").expect("is served");
    let errors = TypeErrors::default();
    json::decode(body.as_bytes(), update.input, &errors).expect("is JSON")
}

fn item(body: &str) -> Item {
    item_of(input(&format!(r#"{{"Key":{body}}}"#)).get("Key")).expect("is an item")
}

const VALUES: &str = r##""ExpressionAttributeNames":{"#k":"leaseKey","#o":"leaseOwner"},
    "ExpressionAttributeValues":{":w":{"S":"worker"},":n":{"N":"1"},":s":{"SS":["a"]},":l":{"L":[{"N":"1"}]}}"##;

fn condition(text: &str) -> Result<Condition, String> {
    let input = input(&format!(r#"{{"ConditionExpression":"{text}",{VALUES}}}"#));
    let placeholders = Placeholders::of(&input).expect("are right");
    let parsed = placeholders.condition(&input, "ConditionExpression");
    parsed
        .map(|condition| condition.expect("is there"))
        .map_err(|error| error.message.unwrap_or_default())
}

fn changed(before: &Item, text: &str) -> Result<Item, String> {
    let input = input(&format!(r#"{{"UpdateExpression":"{text}",{VALUES}}}"#));
    let placeholders = Placeholders::of(&input).expect("are right");
    let actions = placeholders.actions(&input);
    let actions = actions.map_err(|error| error.message.unwrap_or_default())?;
    updated(before, &actions.expect("are there"))
}

#[test]
fn conditions_hold_as_they_say() {
    let item = item(
        r#"{"leaseKey":{"S":"shard-1"},"leaseOwner":{"S":"worker"},"counter":{"N":"1.0"},
            "parents":{"SS":["a","b"]},"m":{"M":{"l":{"L":[{"N":"7"},{"BOOL":true}]}}}}"#,
    );
    for (text, holds) in [
        ("attribute_exists(#k) AND #o = :w", true),
        ("attribute_not_exists(#k) or #o = :w and counter = :n", true),
        ("NOT (attribute_exists(#k) AND #o = :w)", false),
        ("not not counter >= :n", true),
        ("counter < :n", false),
        ("counter <> :n", false),
        ("counter <> :w", true),
        ("absent <> :w", true),
        ("absent = :w", false),
        ("absent = missing", false),
        ("begins_with(#k, :w)", false),
        ("contains(parents, :w)", false),
        ("size(parents) > :n", true),
        ("counter BETWEEN :n AND :n AND #o IN (:n, :w)", true),
        ("m.l[0] > :n", true),
        ("attribute_exists(m.l[2])", false),
        ("attribute_exists(m.l[1]) AND attribute_type(#k, :w)", false),
        ("size = :n", false),
    ] {
        let condition = condition(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(condition.holds(&item, &Work::default()).expect("is cheap"), holds, "{text}");
    }
}

#[test]
fn what_is_no_condition_is_told_why() {
    for (text, told) in [
        ("", "The expression can not be empty;"),
        ("#k", r#"Syntax error; token: "<EOF>", near: "<EOF>""#),
        ("#k = :w )", r#"Syntax error; token: ")""#),
        ("#k == :w", r#"Syntax error; token: "=""#),
        ("#x = :w", "attribute name: #x"),
        ("#k = :x", "attribute value: :x"),
        ("exists(#k)", "Invalid function name; function: exists"),
        ("#k = :w ~", r#"Syntax error; token: "~""#),
        ("# = :w", r##"Syntax error; token: "#""##),
        ("#k = 99999999999999999999999", "Syntax error"),
    ] {
        let error = condition(text).expect_err(text);
        assert!(error.starts_with("Invalid ConditionExpression: "), "{error}");
        assert!(error.contains(told), "{text}: {error}");
    }
    let deep = format!("{}#k = :w{}", "(".repeat(2_000), ")".repeat(2_000));
    assert!(condition(&deep).expect_err("is deep").contains("nested too deeply"));
    assert!(condition(&"a".repeat(5_000)).expect_err("is long").contains("expression size: 5000"));
}

#[test]
fn updates_change_what_they_name() {
    let before = item(
        r#"{"k":{"S":"x"},"n":{"N":"1"},"s":{"SS":["a","b"]},"m":{"M":{"a":{"N":"5"}}},"l":{"L":[{"N":"4"},{"N":"5"},{"N":"6"}]}}"#,
    );
    for (text, path, expected) in [
        ("SET n = n + :n", "n", Some(r#"{"N":"2"}"#)),
        ("SET n = n - :n", "n", Some(r#"{"N":"0"}"#)),
        ("SET x = if_not_exists(x, :w), n = if_not_exists(n, :w)", "x", Some(r#"{"S":"worker"}"#)),
        ("SET m.b = n REMOVE m.a", "m", Some(r#"{"M":{"b":{"N":"1"}}}"#)),
        ("REMOVE l[0], l[1]", "l", Some(r#"{"L":[{"N":"6"}]}"#)),
        (
            "SET l = list_append(l, :l), l2 = l",
            "l2",
            Some(r#"{"L":[{"N":"4"},{"N":"5"},{"N":"6"}]}"#),
        ),
        ("ADD n :n, c :n DELETE s :s", "c", Some(r#"{"N":"1"}"#)),
        ("DELETE s :s", "s", Some(r#"{"SS":["b"]}"#)),
        ("REMOVE n, absent", "n", None),
    ] {
        let after = changed(&before, text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let expected = expected
            .map(|value| item(&format!(r#"{{"a":{value}}}"#)).remove("a").expect("is there"));
        assert_eq!(after.get(path), expected.as_ref(), "{text}");
    }
}

#[test]
fn what_cannot_be_changed_so_is_told_why() {
    let before = item(r#"{"k":{"S":"x"},"n":{"N":"1"}}"#);
    for (text, told) in [
        ("SET n = k + :n", "incorrect data type"),
        ("SET x = absent", "does not exist in the item"),
        ("SET a.b = :n", "invalid for update"),
        ("ADD k :n", "incorrect data type"),
        ("SET n = :n, n = :w", "Two document paths overlap"),
        ("SET n = :n, m.a = :n, m.b = :n, m.a.c = :n", "path one: [m, a], path two: [m, a, c]"),
        ("SET n = :n SET k = :w", "can only be used once"),
        ("PUT n = :n", "Syntax error"),
        ("SET n = :n,", "Syntax error"),
    ] {
        let error = changed(&before, text).expect_err(text);
        assert!(error.contains(told), "{text}: {error}");
    }
}

#[test]
fn placeholders_that_nobody_uses_are_refused() {
    let input = input(&format!(r#"{{"ConditionExpression":"attribute_exists(#k)",{VALUES}}}"#));
    let placeholders = Placeholders::of(&input).expect("are right");
    placeholders.condition(&input, "ConditionExpression").expect("is right");
    let error = placeholders.check_used().expect_err("most are not used");
    let message = error.message.unwrap_or_default();
    assert!(
        message.contains("ExpressionAttributeNames unused in expressions: keys: {#o}"),
        "{message}"
    );
}

#[test]
fn of_a_value_and_a_name_that_come_often_there_is_one() {
    let conditions = vec!["#k = :w"; 100].join(" AND ");
    let input = input(&format!(r#"{{"ConditionExpression":"{conditions}",{VALUES}}}"#));
    let placeholders = Placeholders::of(&input).expect("are right");
    let condition = placeholders.condition(&input, "ConditionExpression").expect("is right");
    let (name, value) = (&placeholders.names["#k"], &placeholders.values[":w"]);
    assert_eq!((Arc::strong_count(name), Arc::strong_count(value)), (101, 101));
    drop(condition);
}

#[test]
fn what_is_put_is_copied_no_more_than_an_item_has_room_for() {
    let large = "x".repeat(300 << 10);
    let values = format!(
        r#""ExpressionAttributeValues":{{":v":{{"S":"{large}"}},":l":{{"L":[{{"S":"{large}"}}]}}}}"#
    );
    for update in ["SET a = :v, b = :v", "SET a = list_append(:l, list_append(:l, :l))"] {
        let input = input(&format!(r#"{{"UpdateExpression":"{update}",{values}}}"#));
        let placeholders = Placeholders::of(&input).expect("are right");
        let actions = placeholders.actions(&input).expect("is right").expect("is there");
        let error = updated(&Item::new(), &actions).expect_err("is too large");
        assert!(error.contains("maximum allowed size"), "{error}");
    }
}

#[test]
fn paths_that_overlap_are_refused() {
    for (paths, told) in [
        ("a,a,a", "path one: [a], path two: [a]"),
        ("b,a[0],c,a[0]", "path one: [a, [0]], path two: [a, [0]]"),
        ("a.b.c,x,a.b", "path one: [a, b, c], path two: [a, b]"),
    ] {
        let get = OPERATIONS.iter().find(|it| it.text == "GetItem").expect("is served");
        let body = format!(r#"{{"ProjectionExpression":"{paths}"}}"#);
        let input = json::decode(body.as_bytes(), get.input, &TypeErrors::default());
        let input = input.expect("is JSON");
        let error = Placeholders::of(&input).and_then(|them| them.paths(&input));
        let message = error.expect_err(paths).message.unwrap_or_default();
        assert!(
            message.starts_with("Invalid ProjectionExpression: Two document paths"),
            "{message}"
        );
        assert!(message.ends_with(told), "{message}");
    }
}

#[test]
fn a_search_takes_as_long_as_what_is_searched() {
    // A naive search compares 150 KiB at each of 150 thousand places: that takes many seconds.
    let value = vec![0_u8; 300 << 10];
    let mut part = vec![0_u8; 150 << 10];
    part.push(1);
    let item = Item::from([("a".to_owned(), Attribute::Binary(value.into()))]);
    let begun = std::time::Instant::now();
    let part = Operand::Value(Arc::new(Attribute::Binary(part.into())));
    let contains = Condition::Contains(Operand::Path(Path::of("a")), part);
    assert!(!contains.holds(&item, &Work::default()).expect("is cheap"));
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn conditions_look_at_so_much_and_no_more() {
    let item = Item::from([("a".to_owned(), Attribute::Text("x".repeat(300 << 10)))]);
    let absent = Operand::Value(Arc::new(Attribute::Text("y".to_owned())));
    let one = Condition::Contains(Operand::Path(Path::of("a")), absent);
    let work = Work::default();
    let looked = (0..1_000).take_while(|_| one.holds(&item, &work).is_ok()).count();
    assert!((100..500).contains(&looked), "{looked}");
    let error = ApiError::from(one.holds(&item, &work).expect_err("is too much"));
    assert_eq!(error.name, "ValidationException");
}
