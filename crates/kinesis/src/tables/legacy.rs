//! Conditions and changes as requests had them before there were expressions. The client library's leases use them still.

use std::sync::Arc;

use super::attribute::Attribute;
use super::expression::condition::{Comparison, Condition, Operand};
use super::expression::path::Path;
use super::expression::update::{Action, Sum, Term};
use crate::error::ApiError;
use crate::value::{Structure, Value};

/// The condition that `Expected` and `ConditionalOperator` are, if they are there.
pub(crate) fn expected(input: &Structure) -> Result<Option<Condition>, ApiError> {
    let Some(Value::Map(expected)) = input.get("Expected") else { return Ok(None) };
    if input.get("ConditionExpression").is_some() {
        return Err(mixed("Expected", "ConditionExpression"));
    }
    let mut conditions = Vec::with_capacity(expected.len());
    for (attribute, value) in expected {
        let Value::Structure(value) = value else { continue };
        conditions.push(expectation(attribute, value)?);
    }
    Ok(Some(match input.text("ConditionalOperator") {
        Some("OR") => Condition::Any(conditions),
        _ => Condition::All(conditions),
    }))
}

fn mixed(legacy: &str, expression: &str) -> ApiError {
    ApiError::validation(format!(
        "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: \
         {{{legacy}}} Expression parameters: {{{expression}}}"
    ))
}

fn invalid(message: impl std::fmt::Display) -> ApiError {
    ApiError::validation(format!("One or more parameter values were invalid: {message}"))
}

/// The order of checks is that of DynamoDB Local.
fn expectation(attribute: &str, expected: &Structure) -> Result<Condition, ApiError> {
    let refused = |what: &str| Err(invalid(format!("{what} for Attribute: {attribute}")));
    let value = expected.get("Value").map(Attribute::of).transpose()?;
    let has_list = expected.get("AttributeValueList").is_some();
    let exists = expected.get("Exists");
    let Some(comparison) = expected.text("ComparisonOperator") else {
        if has_list {
            return refused("AttributeValueList can only be used with a ComparisonOperator");
        }
        return match (exists, value) {
            (Some(Value::Boolean(false)), None) => {
                Ok(Condition::Not(Box::new(Condition::Exists(Path::of(attribute)))))
            }
            (Some(Value::Boolean(false)), Some(_)) => {
                refused("Value cannot be used when Exists is false")
            }
            (_, Some(value)) => Ok(Condition::equal(attribute, value)),
            (_, None) => refused("Value must be provided when Exists is true"),
        };
    };
    if exists.is_some() {
        return refused("Exists and ComparisonOperator cannot be used together");
    }
    if has_list && value.is_some() {
        return refused("Value and AttributeValueList cannot be used together");
    }
    let needs_value = !matches!(comparison, "NULL" | "NOT_NULL");
    if needs_value && !has_list && value.is_none() {
        return refused(&format!(
            "Value or AttributeValueList must be used with ComparisonOperator: {comparison}"
        ));
    }
    // Version 1 of the client library has one value beside its operator.
    let values = expected.list("AttributeValueList").iter().map(Attribute::of);
    comparison_of(
        attribute,
        comparison,
        value.map(Ok).into_iter().chain(values).collect::<Result<_, _>>()?,
    )
}

/// A condition by the name of its comparison.
pub(crate) fn comparison_of(
    attribute: &str,
    comparison: &str,
    values: Vec<Attribute>,
) -> Result<Condition, ApiError> {
    let path = || Operand::Path(Path::of(attribute));
    let exists = || Condition::Exists(Path::of(attribute));
    let wrong_count = || {
        invalid(format!("Invalid number of argument(s) for the {comparison} ComparisonOperator"))
    };
    let mut operands =
        values.into_iter().map(|value| Operand::Value(Arc::new(value))).collect::<Vec<_>>();
    let count = operands.len();
    let is_right = match comparison {
        "NULL" | "NOT_NULL" => count == 0,
        "BETWEEN" => count == 2,
        "IN" => count > 0,
        _ => count == 1,
    };
    if !is_right {
        return Err(wrong_count());
    }
    let mut take = || operands.remove(0);
    let compare = |comparison, value| Ok(Condition::Compare(path(), comparison, value));
    match comparison {
        "NULL" => Ok(Condition::Not(Box::new(exists()))),
        "NOT_NULL" => Ok(exists()),
        "EQ" => compare(Comparison::Equal, take()),
        "NE" => compare(Comparison::NotEqual, take()),
        "LT" => compare(Comparison::Less, take()),
        "LE" => compare(Comparison::LessOrEqual, take()),
        "GT" => compare(Comparison::Greater, take()),
        "GE" => compare(Comparison::GreaterOrEqual, take()),
        "BEGINS_WITH" => Ok(Condition::BeginsWith(path(), take())),
        "CONTAINS" => Ok(Condition::Contains(path(), take())),
        "NOT_CONTAINS" => Ok(Condition::All(vec![
            exists(),
            Condition::Not(Box::new(Condition::Contains(path(), take()))),
        ])),
        "BETWEEN" => {
            let low = take();
            Ok(Condition::Between(path(), low, take()))
        }
        _ => Ok(Condition::In(path(), operands)),
    }
}

/// The changes that `AttributeUpdates` are, if they are there.
pub(crate) fn attribute_updates(input: &Structure) -> Result<Option<Vec<Action>>, ApiError> {
    let Some(Value::Map(updates)) = input.get("AttributeUpdates") else { return Ok(None) };
    for expression in ["UpdateExpression", "ConditionExpression"] {
        if input.get(expression).is_some() {
            return Err(mixed("AttributeUpdates", expression));
        }
    }
    let mut actions = Vec::with_capacity(updates.len());
    for (attribute, update) in updates {
        let Value::Structure(update) = update else { continue };
        let value = update.get("Value").map(Attribute::of).transpose()?.map(Arc::new);
        let path = Path::of(attribute.as_str());
        let action = update.text("Action").unwrap_or("PUT");
        actions.push(match (action, value) {
            ("DELETE", None) => Action::Remove(path),
            ("DELETE", Some(value)) => Action::Subtract(path, value),
            ("ADD", Some(value)) => Action::Add(path, value),
            (_, Some(value)) => Action::Set(path, Sum::One(Term::Value(value))),
            (action, None) => {
                return Err(invalid(format!(
                    "Only DELETE action is allowed when no attribute value is specified, and it is {action} for \
                     Attribute: {attribute}"
                )));
            }
        });
    }
    Ok(Some(actions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::tables::OPERATIONS;
    use crate::tables::attribute::{Item, item_of};
    use crate::tables::expression::condition::Work;
    use crate::tables::expression::update::updated;
    use crate::type_error::TypeErrors;

    /// A request of UpdateItem.
    fn input(body: &str) -> Structure {
        let update = OPERATIONS.iter().find(|it| it.text == "UpdateItem").expect("is served");
        let errors = TypeErrors::default();
        json::decode(body.as_bytes(), update.input, &errors).expect("is JSON")
    }

    fn lease() -> Item {
        let body =
            r#"{"Key":{"leaseOwner":{"S":"one"},"leaseCounter":{"N":"7"},"parents":{"SS":["a"]}}}"#;
        item_of(input(body).get("Key")).expect("is an item")
    }

    #[test]
    fn what_is_expected_holds_or_not() {
        for (expected_attributes, operator, holds) in [
            (r#""leaseOwner":{"Value":{"S":"one"}}"#, "AND", true),
            (
                r#""leaseOwner":{"Value":{"S":"one"},"Exists":true},"checkpointOwner":{"Exists":false}"#,
                "AND",
                true,
            ),
            (
                r#""leaseOwner":{"Value":{"S":"two"}},"leaseCounter":{"Value":{"N":"7.0"}}"#,
                "AND",
                false,
            ),
            (
                r#""leaseOwner":{"Value":{"S":"two"}},"leaseCounter":{"Value":{"N":"7.0"}}"#,
                "OR",
                true,
            ),
            (r#""leaseOwner":{"Exists":false}"#, "AND", false),
            (
                r#""leaseCounter":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"N":"1"},{"N":"7"}]}"#,
                "AND",
                true,
            ),
            (r#""leaseOwner":{"ComparisonOperator":"NOT_NULL"}"#, "AND", true),
            (r#""checkpoint":{"Value":{"S":"SHARD_END"},"ComparisonOperator":"NE"}"#, "AND", true),
            (r#""leaseOwner":{"Value":{"S":"one"},"ComparisonOperator":"NE"}"#, "AND", false),
            (
                r#""parents":{"ComparisonOperator":"NOT_CONTAINS","AttributeValueList":[{"S":"a"}]}"#,
                "AND",
                false,
            ),
        ] {
            let body = format!(
                r#"{{"Expected":{{{expected_attributes}}},"ConditionalOperator":"{operator}"}}"#
            );
            let condition = expected(&input(&body)).expect("is right").expect("is there");
            assert_eq!(
                condition.holds(&lease(), &Work::default()).expect("is cheap"),
                holds,
                "{body}"
            );
        }
    }

    #[test]
    fn what_cannot_be_expected_is_told_why() {
        for (body, told) in [
            (
                r#""Expected":{"a":{}}"#,
                "Value must be provided when Exists is true for Attribute: a",
            ),
            (
                r#""Expected":{"a":{"Exists":false,"Value":{"S":"x"}}}"#,
                "Value cannot be used when Exists is false",
            ),
            (
                r#""Expected":{"a":{"ComparisonOperator":"EQ"}}"#,
                "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a",
            ),
            (
                r#""Expected":{"a":{"ComparisonOperator":"EQ","AttributeValueList":[]}}"#,
                "Invalid number of argument(s) for the EQ",
            ),
            (
                r#""Expected":{"a":{"ComparisonOperator":"NULL","Value":{"S":"x"}}}"#,
                "Invalid number of argument(s) for the NULL",
            ),
            (
                r#""Expected":{"a":{"ComparisonOperator":"NULL","Exists":false}}"#,
                "Exists and ComparisonOperator cannot be used together for Attribute: a",
            ),
            (
                r#""Expected":{"a":{"ComparisonOperator":"EQ","Value":{"S":"x"},"AttributeValueList":[{"S":"x"}]}}"#,
                "Value and AttributeValueList cannot be used together for Attribute: a",
            ),
            (
                r#""Expected":{"a":{"AttributeValueList":[{"S":"x"}]}}"#,
                "AttributeValueList can only be used with a ComparisonOperator for Attribute: a",
            ),
            (
                r#""Expected":{},"ConditionExpression":"a = :b""#,
                "Can not use both expression and non-expression",
            ),
        ] {
            let error = expected(&input(&format!("{{{body}}}"))).expect_err(body);
            let message = error.message.unwrap_or_default();
            assert!(message.contains(told), "{message}");
        }
    }

    #[test]
    fn attributes_are_put_added_and_deleted() {
        let body = r#"{"AttributeUpdates":{"leaseOwner":{"Action":"DELETE"},"leaseCounter":{"Action":"ADD","Value":{"N":"1"}},
            "parents":{"Action":"DELETE","Value":{"SS":["a"]}},"checkpoint":{"Value":{"S":"LATEST"}},
            "switches":{"Action":"ADD","Value":{"N":"2"}}}}"#;
        let actions = attribute_updates(&input(body)).expect("are right").expect("are there");
        let after = updated(&lease(), &actions).expect("can be");
        let expected = r#"{"Key":{"leaseCounter":{"N":"8"},"checkpoint":{"S":"LATEST"},"switches":{"N":"2"}}}"#;
        assert_eq!(after, item_of(input(expected).get("Key")).expect("is an item"));
        let nothing = attribute_updates(&input(r#"{"AttributeUpdates":{"a":{"Action":"ADD"}}}"#));
        assert!(nothing.is_err());
    }

    #[test]
    fn maps_that_are_too_long_are_refused_and_not_cut() {
        let update = OPERATIONS.iter().find(|it| it.text == "UpdateItem").expect("is served");
        for member in ["AttributeUpdates", "Expected"] {
            for (count, is_right) in [(1_000, true), (1_001, false)] {
                let entries = (0..count).map(|it| format!(r#""{it}":{{"Value":{{"N":"1"}}}}"#));
                let body =
                    format!(r#"{{"{member}":{{{}}}}}"#, entries.collect::<Vec<_>>().join(","));
                let errors = TypeErrors::default();
                json::decode(body.as_bytes(), update.input, &errors).expect("is JSON");
                assert_eq!(errors.into_first().is_none(), is_right, "{member}: {count}");
            }
        }
    }
}
