//! What an expression is for a record.

use std::borrow::Cow;
use std::cmp::Ordering;

use logway_record::Record;
use serde_json::Value as Json;

use super::{Comparison, Literal, Name, Node, TextTest};

/// Comparisons that one evaluation may make, a text of 64 bytes being one.
const STEPS_MAX: usize = 100_000;

const STEP_BYTES: usize = 64;

/// There is no result: something is missing, of another kind, or takes too long.
struct NoResult;

enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Cow<'a, str>),
    /// A list or an object of the record's value.
    Json(&'a Json),
    Headers,
    List(&'a [Node]),
}

/// What an expression is for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evaluated {
    /// `None` where there is no result, or none that is true or false.
    pub result: Option<bool>,
    /// What that took.
    pub steps: usize,
}

/// Evaluates an expression for a record and its value.
pub(super) fn evaluate(root: &Node, record: &Record, json: Option<&Json>) -> Evaluated {
    let mut evaluation = Evaluation { record, json, steps_left: STEPS_MAX };
    let result = evaluation.truth(root).ok();
    Evaluated { result, steps: STEPS_MAX - evaluation.steps_left }
}

/// Evaluates an expression for a record and its value, as a text.
pub(super) fn text(root: &Node, record: &Record, json: Option<&Json>) -> Option<String> {
    let mut evaluation = Evaluation { record, json, steps_left: STEPS_MAX };
    Some(match evaluation.value(root).ok()? {
        Value::Null | Value::Headers | Value::List(_) => return None,
        Value::Bool(it) => it.to_string(),
        Value::Int(it) => it.to_string(),
        Value::Double(it) => it.to_string(),
        Value::Text(it) => it.into_owned(),
        Value::Json(it) => it.to_string(),
    })
}

/// Whether it is something within the value.
fn is_of_value(node: &Node) -> bool {
    match node {
        Node::Name(name) => *name == Name::Value,
        Node::Field(of, _) | Node::Index(of, _) => is_of_value(of),
        _ => false,
    }
}

struct Evaluation<'a> {
    record: &'a Record,
    json: Option<&'a Json>,
    steps_left: usize,
}

impl<'a> Evaluation<'a> {
    fn step(&mut self, bytes: usize) -> Result<(), NoResult> {
        let steps = 1 + bytes / STEP_BYTES;
        let left = self.steps_left.checked_sub(steps);
        self.steps_left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(NoResult)
    }

    fn value(&mut self, node: &'a Node) -> Result<Value<'a>, NoResult> {
        self.step(0)?;
        Ok(match node {
            Node::Literal(literal) => match literal {
                Literal::Null => Value::Null,
                Literal::Bool(it) => Value::Bool(*it),
                Literal::Int(it) => Value::Int(*it),
                Literal::Double(it) => Value::Double(*it),
                Literal::Text(it) => Value::Text(Cow::Borrowed(it)),
            },
            Node::Name(name) => self.named(*name)?,
            Node::List(items) => Value::List(items),
            Node::Field(of, name) => {
                let of = self.value(of)?;
                self.field(&of, name)?
            }
            Node::Index(of, index) => {
                let (of, index) = (self.value(of)?, self.value(index)?);
                self.element(&of, &index)?
            }
            Node::Not(inner) => Value::Bool(!self.truth(inner)?),
            Node::And(left, right) => Value::Bool(self.both(left, right, false)?),
            Node::Or(left, right) => Value::Bool(self.both(left, right, true)?),
            Node::Compare(Comparison::In, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                Value::Bool(self.is_in(&left, &right)?)
            }
            Node::Compare(comparison, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                Value::Bool(self.compare(*comparison, &left, &right)?)
            }
            // Nobody knows what a value has that cannot be read.
            Node::Has(field) if is_of_value(field) && self.is_unreadable() => return Err(NoResult),
            Node::Has(field) => Value::Bool(self.value(field).is_ok()),
            Node::Size(of) => {
                let size = match self.value(of)? {
                    Value::Text(text) => {
                        self.step(text.len())?;
                        text.chars().count()
                    }
                    Value::Json(Json::Array(items)) => items.len(),
                    Value::Json(Json::Object(fields)) => fields.len(),
                    Value::List(items) => items.len(),
                    _ => return Err(NoResult),
                };
                Value::Int(i64::try_from(size).unwrap_or(i64::MAX))
            }
            Node::Text(test, of, with) => {
                let (Value::Text(of), Value::Text(with)) = (self.value(of)?, self.value(with)?)
                else {
                    return Err(NoResult);
                };
                self.step(of.len())?;
                Value::Bool(match test {
                    TextTest::StartsWith => of.starts_with(&*with),
                    TextTest::EndsWith => of.ends_with(&*with),
                    TextTest::Contains => of.contains(&*with),
                })
            }
        })
    }

    fn is_unreadable(&self) -> bool {
        self.json.is_none() && self.record.value.is_some()
    }

    fn truth(&mut self, node: &'a Node) -> Result<bool, NoResult> {
        match self.value(node)? {
            Value::Bool(it) => Ok(it),
            _ => Err(NoResult),
        }
    }

    /// `&&` and `||`: one side decides if it is `deciding`, whatever the other is.
    fn both(&mut self, left: &'a Node, right: &'a Node, deciding: bool) -> Result<bool, NoResult> {
        let left = self.truth(left);
        if matches!(left, Ok(it) if it == deciding) {
            return Ok(deciding);
        }
        match self.truth(right) {
            Ok(right) if right == deciding => Ok(deciding),
            right => left.and(right),
        }
    }

    fn named(&mut self, name: Name) -> Result<Value<'a>, NoResult> {
        Ok(match name {
            Name::Value => self.json.map(of_json).ok_or(NoResult)?,
            Name::Key => {
                let key = self.record.key.as_deref().ok_or(NoResult)?;
                self.step(key.len())?;
                Value::Text(text_of(key)?)
            }
            Name::Headers => Value::Headers,
            Name::Offset => Value::Int(self.record.offset.0),
            Name::Timestamp => Value::Int(self.record.timestamp.0),
        })
    }

    fn field(&mut self, of: &Value<'a>, name: &str) -> Result<Value<'a>, NoResult> {
        match of {
            Value::Json(Json::Object(fields)) => fields.get(name).map(of_json).ok_or(NoResult),
            Value::Headers => {
                self.step(self.record.headers.len() * STEP_BYTES)?;
                let mut headers = self.record.headers.iter().rev();
                let header = headers.find(|header| header.key == name.as_bytes());
                let value = header.and_then(|header| header.value.as_deref()).ok_or(NoResult)?;
                self.step(value.len())?;
                Ok(Value::Text(text_of(value)?))
            }
            _ => Err(NoResult),
        }
    }

    fn element(&mut self, of: &Value<'a>, index: &Value<'a>) -> Result<Value<'a>, NoResult> {
        match (of, index) {
            (Value::Json(Json::Array(items)), Value::Int(index)) => {
                let item = usize::try_from(*index).ok().and_then(|index| items.get(index));
                item.map(of_json).ok_or(NoResult)
            }
            (_, Value::Text(name)) => self.field(of, name),
            _ => Err(NoResult),
        }
    }

    fn is_in(&mut self, left: &Value<'a>, right: &Value<'a>) -> Result<bool, NoResult> {
        match right {
            Value::List(items) => {
                for item in *items {
                    let item = self.value(item)?;
                    if self.is_equal(left, &item)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Json(Json::Array(items)) => {
                for item in items {
                    if self.is_equal(left, &of_json(item))? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Json(_) | Value::Headers => match left {
                Value::Text(name) => Ok(self.field(right, name).is_ok()),
                _ => Err(NoResult),
            },
            _ => Err(NoResult),
        }
    }

    fn compare(
        &mut self,
        comparison: Comparison,
        left: &Value<'a>,
        right: &Value<'a>,
    ) -> Result<bool, NoResult> {
        let order = match comparison {
            Comparison::Equal => return self.is_equal(left, right),
            Comparison::NotEqual => return Ok(!self.is_equal(left, right)?),
            _ => self.order(left, right)?,
        };
        Ok(match comparison {
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order == Some(Ordering::Greater),
            _ => order.is_some_and(Ordering::is_ge),
        })
    }

    /// Values of different kinds are not equal. Lists and objects cannot be compared.
    fn is_equal(&mut self, left: &Value<'a>, right: &Value<'a>) -> Result<bool, NoResult> {
        match (left, right) {
            (Value::Json(_) | Value::Headers | Value::List(_), _)
            | (_, Value::Json(_) | Value::Headers | Value::List(_)) => {
                self.step(0)?;
                Ok(false)
            }
            (Value::Null, Value::Null) => Ok(true),
            (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
            _ => match self.order(left, right) {
                Ok(order) => Ok(order == Some(Ordering::Equal)),
                Err(NoResult) if self.steps_left == 0 => Err(NoResult),
                Err(NoResult) => {
                    self.step(0)?;
                    Ok(false)
                }
            },
        }
    }

    /// `None` where a number is none.
    fn order(&mut self, left: &Value<'a>, right: &Value<'a>) -> Result<Option<Ordering>, NoResult> {
        self.step(0)?;
        Ok(match (left, right) {
            (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
            (Value::Int(left), Value::Double(right)) => (*left as f64).partial_cmp(right),
            (Value::Double(left), Value::Int(right)) => left.partial_cmp(&(*right as f64)),
            (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
            (Value::Text(left), Value::Text(right)) => {
                self.step(left.len().min(right.len()))?;
                Some(left.cmp(right))
            }
            _ => return Err(NoResult),
        })
    }
}

fn of_json(json: &Json) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(it) => Value::Bool(*it),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Int(number),
            (None, number) => Value::Double(number.unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(Cow::Borrowed(text)),
        Json::Array(_) | Json::Object(_) => Value::Json(json),
    }
}

fn text_of(bytes: &[u8]) -> Result<Cow<'_, str>, NoResult> {
    std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| NoResult)
}
