//! The sources `seq` and `stress`: events out of nothing, to try things with.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Running, SourceContext, Starting};
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::event::Event;

pub(crate) const SEQ: Declaration = Declaration {
    role: Role::Source,
    name: "seq",
    aliases: &["org.apache.flume.source.SequenceGeneratorSource"],
    doc: "Counts from 0. An event that channels did not take comes again, so that each number is there once.",
    keys: &[
        key(
            "batchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("1"),
            "How many events go into channels at once.",
        ),
        key(
            "totalEvents",
            Kind::Number(0, i64::MAX, "events"),
            Fallback::Is("9223372036854775807"),
            "How many numbers there are.",
        ),
    ],
    shared: &[],
};

pub(crate) const STRESS: Declaration = Declaration {
    role: Role::Source,
    name: "stress",
    aliases: &["org.apache.flume.source.StressSource"],
    doc: "Makes events of one size, as fast as channels take them or at a rate.",
    keys: &[
        key("size", Kind::Number(0, 1 << 26, "bytes"), Fallback::Is("500"), "The size of a body."),
        key(
            "maxTotalEvents",
            Kind::Number(-1, i64::MAX, "events"),
            Fallback::Is("-1"),
            "How many events are tried; -1 for all.",
        ),
        key(
            "maxSuccessfulEvents",
            Kind::Number(-1, i64::MAX, "events"),
            Fallback::Is("-1"),
            "How many events have to arrive; -1 for all.",
        ),
        key(
            "batchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("1"),
            "How many events go into channels at once.",
        ),
        key(
            "maxEventsPerSecond",
            Kind::Number(0, i64::MAX, "events/s"),
            Fallback::Is("0"),
            "The rate; 0 for none.",
        ),
    ],
    shared: &[],
};

pub(crate) fn start_seq(context: SourceContext) -> Starting {
    Box::pin(async move { Ok(Box::pin(count(context)) as Running) })
}

async fn count(context: SourceContext) {
    let (batch, total) =
        (context.settings.number("batchSize"), context.settings.number("totalEvents"));
    let mut next = 0;
    while next < total && !context.stop.is_set() {
        let end = total.min(next + batch);
        let events = (next..end).map(|number| Event::new(number.to_string())).collect();
        if !context.delivery.insist(events, &context.stop).await {
            return;
        }
        next = end;
    }
    context.stop.wait().await;
}

pub(crate) fn start_stress(context: SourceContext) -> Starting {
    Box::pin(async move { Ok(Box::pin(stress(context)) as Running) })
}

async fn stress(context: SourceContext) {
    let settings = &context.settings;
    // Byte.MAX_VALUE, as Flume's.
    let body = Bytes::from(vec![127; settings.size("size")]);
    let (batch, rate) = (settings.number("batchSize"), settings.number("maxEventsPerSecond"));
    let tried_max = settings.limit("maxTotalEvents").unwrap_or(u64::MAX);
    let arrived_max = settings.limit("maxSuccessfulEvents").unwrap_or(u64::MAX);
    let (mut tried, mut arrived) = (0, 0);
    let begun = Instant::now();
    while tried < tried_max && arrived < arrived_max && !context.stop.is_set() {
        let count = batch.min(tried_max - tried).min(arrived_max - arrived);
        let events = (0..count).map(|_| Event::new(body.clone())).collect();
        tried += count;
        match context.delivery.deliver(events).await {
            Ok(()) => arrived += count,
            Err(error) => context.delivery.drop_events(count as usize, &error),
        }
        if rate > 0 {
            let due = begun + Duration::from_secs_f64(tried as f64 / rate as f64);
            tokio::select! {
                () = context.stop.wait() => return,
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }
    context.stop.wait().await;
}
