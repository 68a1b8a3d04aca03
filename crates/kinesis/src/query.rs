//! AWS's query protocol: requests as forms of a web page, responses in XML.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::error::ApiError;
use crate::json::entries_max;
use crate::shape::{Kind, Shape};
use crate::signature::percent_decoded;
use crate::value::{List, Structure, Value};

/// How such a request is encoded.
pub(crate) const CONTENT_TYPE: &str = "application/x-www-form-urlencoded";

/// Parameters that a request has at most.
const PARAMETERS_MAX: usize = 50_000;

/// The parameters of a form, by their names, which dots take apart.
#[derive(Debug, Default)]
pub(crate) struct Form(BTreeMap<String, String>);

impl Form {
    /// Reads `Action=PutMetricData&MetricData.member.1.Value=5`.
    pub(crate) fn parse(body: &[u8]) -> Result<Form, ApiError> {
        let text = String::from_utf8_lossy(body);
        let mut parameters = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.insert(decoded(name), decoded(value));
            if parameters.len() > PARAMETERS_MAX {
                let message = format!("A request has at most {PARAMETERS_MAX} parameters");
                return Err(ApiError::new("MalformedQueryString", message));
            }
        }
        Ok(Form(parameters))
    }

    /// A parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// What it has of a structure. Errors: a parameter has another type.
    pub(crate) fn structure(&self, shape: &'static Shape) -> Result<Structure, ApiError> {
        self.structure_at("", shape)
    }

    fn structure_at(&self, path: &str, shape: &'static Shape) -> Result<Structure, ApiError> {
        let Kind::Structure(members) = shape.kind else { return Ok(Structure::new()) };
        let mut structure = Structure::new();
        for member in members {
            let path = format!("{path}{}", member.name);
            structure = structure.with_some(member.name, self.value_at(&path, member.shape)?);
        }
        Ok(structure)
    }

    /// The parameters that begin so, without that.
    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.0.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.map_while(move |(name, _)| name.strip_prefix(prefix))
    }

    fn value_at(&self, path: &str, shape: &'static Shape) -> Result<Option<Value>, ApiError> {
        let malformed = |text: &str| {
            let text: String = text.chars().take(128).collect();
            ApiError::new("MalformedInput", format!("{path} cannot be {text}"))
        };
        match shape.kind {
            Kind::Structure(_) => {
                let path = format!("{path}.");
                let is_there = self.below(&path).next().is_some();
                return is_there
                    .then(|| self.structure_at(&path, shape).map(Value::from))
                    .transpose();
            }
            Kind::List(of) => {
                let path = format!("{path}.member.");
                let mut numbers = BTreeSet::new();
                for name in self.below(&path) {
                    let number = name.split('.').next().unwrap_or_default();
                    numbers.insert(number.parse::<u32>().map_err(|_| malformed(number))?);
                }
                // As in JSON: of one that is too long, the first ones are kept and all are counted.
                let kept = numbers.iter().take(entries_max(shape));
                let values = kept.map(|number| self.value_at(&format!("{path}{number}"), of));
                let entries: Vec<Value> =
                    values.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
                let list = List { entries, count: numbers.len() };
                return Ok(Some(list).filter(|list| !list.entries.is_empty()).map(Value::List));
            }
            _ => {}
        }
        let Some(text) = self.text(path) else { return Ok(None) };
        Ok(Some(match shape.kind {
            Kind::Integer | Kind::Long => {
                text.parse().map(Value::Number).map_err(|_| malformed(text))?
            }
            Kind::Double => text.parse().map(Value::Double).map_err(|_| malformed(text))?,
            Kind::Boolean => Value::Boolean(text == "true"),
            _ => text.into(),
        }))
    }
}

fn decoded(text: &str) -> String {
    let bytes = percent_decoded(&text.replace('+', " "));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An error as these services tell it.
pub(crate) fn error_xml(space: &str, error: &ApiError, request_id: &str) -> String {
    let (name, message) = (error.name, escaped(error.message.as_deref().unwrap_or_default()));
    let kind = if error.status >= 500 { "Receiver" } else { "Sender" };
    format!(
        "<ErrorResponse xmlns=\"{space}\"><Error><Type>{kind}</Type><Code>{name}</Code><Message>{message}</Message>\
         </Error><RequestId>{request_id}</RequestId></ErrorResponse>\n"
    )
}

/// A text as XML has it.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no other characters below the blank.
            letter if letter < ' ' && !matches!(letter, '\t' | '\n' | '\r') => {
                escaped.push('\u{fffd}')
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitoring::OPERATIONS;

    #[test]
    fn a_form_is_read_by_its_shape() {
        let form = "Action=PutMetricData&Namespace=a%2Fb+c&MetricData.member.2.MetricName=second&MetricData.member.2.Value=1.5\
                    &MetricData.member.1.MetricName=first&MetricData.member.1.Dimensions.member.1.Name=d&unknown=x";
        let form = Form::parse(form.as_bytes()).expect("is a form");
        assert_eq!(form.text("Action"), Some("PutMetricData"));
        let input = form.structure(OPERATIONS[0].input).expect("has the types");
        assert_eq!(input.text("Namespace"), Some("a/b c"));
        let names = input.list("MetricData").iter().map(|datum| match datum {
            Value::Structure(datum) => datum.text("MetricName"),
            _ => None,
        });
        assert_eq!(names.collect::<Vec<_>>(), [Some("first"), Some("second")]);
    }

    #[test]
    fn what_is_no_form_of_the_shape_is_refused() {
        for form in ["MetricData.member.x.Value=1", "MetricData.member.1.Value=much"] {
            let form = Form::parse(form.as_bytes()).expect("is a form");
            form.structure(OPERATIONS[0].input).expect_err("has another type");
        }
        let many = (0..=PARAMETERS_MAX).map(|number| format!("{number}&")).collect::<String>();
        Form::parse(many.as_bytes()).expect_err("has too many parameters");
    }
}
