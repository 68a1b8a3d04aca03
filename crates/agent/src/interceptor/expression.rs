//! The interceptor `expression`: what a body in JSON says decides about an event, and becomes headers of it.

use logway_expression::Expression;
use logway_model::{Offset, TimestampMs};
use logway_record::{Header, Record};

use super::now_ms;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::StartError;
use crate::event::Event;
use crate::settings::Settings;

pub(crate) const EXPRESSION: Declaration = Declaration {
    role: Role::Interceptor,
    name: "expression",
    aliases: &[],
    doc: "Sets headers and the body to what expressions are for an event, and lets only events pass for which one is true. Expressions are \
          those of the log service (docs/LOGSERVICE.md): `value` is the body, if it is JSON, `headers` are the event's, and `key`, \
          `offset` and `timestamp` are the headers of these names; without one, the time is now and the offset 0.",
    keys: &[
        key(
            "set.*",
            Kind::Expression,
            Fallback::Nothing,
            "`set.HEADER`: an expression, whose result becomes the header: texts as they are, numbers, lists and objects \
             as JSON. Without a result, or with `null`, the header stays as it is.",
        ),
        key(
            "body",
            Kind::Expression,
            Fallback::Nothing,
            "An expression, whose result becomes the body, in the same way. It sees the headers as they came.",
        ),
        key(
            "keep",
            Kind::Condition,
            Fallback::Nothing,
            "An expression. Events for which it is not true are taken out. It sees the headers as they came.",
        ),
    ],
    shared: &[],
};

/// Expressions that are set up.
#[derive(Debug)]
pub(crate) struct Expressions {
    set: Vec<(Box<str>, Expression)>,
    body: Option<Expression>,
    keep: Option<Expression>,
    /// Whether the body has to be read.
    uses_value: bool,
}

impl Expressions {
    pub(super) fn new(settings: &Settings) -> Result<Expressions, StartError> {
        let set = settings.below("set.").map(|(header, text)| {
            (Box::from(header), Expression::of_text(text.trim()).expect("it was checked"))
        });
        let set: Vec<(Box<str>, Expression)> = set.collect();
        let keep = settings.text("keep");
        let keep = keep.map(|text| Expression::new(text.trim()).expect("it was checked"));
        let body = settings.text("body");
        let body = body.map(|text| Expression::of_text(text.trim()).expect("it was checked"));
        if set.is_empty() && body.is_none() && keep.is_none() {
            return Err("it has neither keep nor set.HEADER nor body".to_owned());
        }
        let mut all = set.iter().map(|(_, expression)| expression).chain(&body).chain(&keep);
        let uses_value = all.any(Expression::uses_value);
        Ok(Expressions { set, body, keep, uses_value })
    }

    /// Sets the headers and the body, and says whether the event passes.
    pub(super) fn apply(&self, event: &mut Event) -> bool {
        let record = record_of(event);
        let value = match self.uses_value {
            true => serde_json::from_slice(&event.body).ok(),
            false => None,
        };
        let is_kept = |keep: &Expression| keep.evaluate(&record, value.as_ref()).result;
        if self.keep.as_ref().is_some_and(|keep| is_kept(keep) != Some(true)) {
            return false;
        }
        for (header, expression) in &self.set {
            if let Some(text) = expression.text(&record, value.as_ref()) {
                event.headers.set(header.clone(), text);
            }
        }
        let body = self.body.as_ref().and_then(|body| body.text(&record, value.as_ref()));
        if let Some(text) = body {
            event.body = text.into();
        }
        true
    }
}

/// An event as expressions see it.
fn record_of(event: &Event) -> Record {
    let number = |name| event.headers.get(name).and_then(|text| text.trim().parse().ok());
    let headers = event
        .headers
        .iter()
        .map(|(name, value)| Header::new(name.to_owned(), Some(value.to_owned().into())));
    Record {
        offset: Offset(number("offset").unwrap_or(0)),
        timestamp: TimestampMs(number("timestamp").unwrap_or_else(now_ms)),
        key: event.headers.get("key").map(|key| key.to_owned().into()),
        value: Some(event.body.clone()),
        headers: headers.collect(),
    }
}
