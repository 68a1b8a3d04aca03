//! `logway agent top`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use logway_agent::overview::{Counters, Overview};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::ends::{Ends, Second};
use crate::cli::error::CliError;
use crate::cli::live::{self, Live};
use crate::cli::output::{self, Format, Table};

/// Show what an agent does, live: events in, in the channels, out, errors, and the oldest event's age
///
/// The agent has to serve its counters (`agent run --metrics`). On a terminal the numbers change in place; elsewhere one look
/// follows the other. With --format json each is a line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway agent top localhost:9651
  logway agent top localhost:9651 --once --format json | jq '.channels[].oldest_seconds'")]
pub(in crate::cli) struct TopArgs {
    /// Where the agent serves its counters
    #[arg(value_name = "HOST:PORT")]
    address: String,
    /// How often to look, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = live::parse_interval)]
    interval: Duration,
    /// Look once; numbers per second need two looks and are missing then
    #[arg(long)]
    once: bool,
}

/// What counts as an error of a source, and of a sink.
const SOURCE_ERRORS: &[&str] = &["ChannelWriteFail", "OptionalChannelWriteFail", "EventReadFail"];
const SINK_ERRORS: &[&str] = &["EventWriteFail", "ConnectionFailedCount", "ChannelReadFail"];

/// A look at an agent. All but the names counts from when the component was started.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct View {
    sources: Vec<SourceView>,
    channels: Vec<ChannelView>,
    sinks: Vec<SinkView>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SourceView {
    name: String,
    events_in: u64,
    /// Since the look before; `null` in the first
    events_in_per_second: Option<f64>,
    /// Events that are in their channels
    accepted: u64,
    /// Puts that a channel refused, and what was malformed
    errors: u64,
    /// Events that no channel took and that cannot be read again
    dropped: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChannelView {
    name: String,
    /// What is in it now
    events: u64,
    /// `null` if it has no bound in events
    capacity: Option<u64>,
    /// Since the look before; `null` in the first
    events_in_per_second: Option<f64>,
    /// Since the look before; `null` in the first
    events_out_per_second: Option<f64>,
    /// The age of the oldest event; 0 if there is none
    oldest_seconds: f64,
    /// Events that were in memory when it was closed, or that its topic has deleted
    lost: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SinkView {
    name: String,
    events_out: u64,
    /// Since the look before; `null` in the first
    events_out_per_second: Option<f64>,
    /// Batches that were not sent, and connections that were not made
    errors: u64,
    /// Events that went to the dead-letter channel
    dead_letters: u64,
    /// Events that could not be delivered and were not to be kept
    dropped: u64,
}

pub(super) async fn run(args: TopArgs, format: Format) -> Result<(), CliError> {
    if args.once {
        let view = view(&look(&args.address).await?, None);
        return output::print(&rendered(&view, format)?);
    }
    let mut ends = Ends::listen(Second::Exits)?;
    let mut live = Live::start()?;
    let showing = async {
        let mut before = None;
        loop {
            let now = look(&args.address).await?;
            live.show(&rendered(&view(&now, before.as_ref()), format)?)?;
            before = Some(now);
            tokio::time::sleep(args.interval).await;
        }
    };
    let outcome: Result<(), CliError> = tokio::select! {
        outcome = showing => outcome,
        _ = ends.any() => Ok(()),
    };
    live.finish()?;
    outcome
}

async fn look(address: &str) -> Result<Overview, CliError> {
    Overview::of(address).await.map_err(|source| {
        let what = format!("read the counters of the agent at {address}");
        CliError::Io { what, source }
            .with_hint("an agent serves its counters where 'agent run --metrics HOST:PORT' says")
    })
}

/// The components of one role.
type Part = BTreeMap<String, Counters>;

fn view(now: &Overview, before: Option<&Overview>) -> View {
    let time = before.map(|before| now.at - before.at);
    let earlier = |part: fn(&Overview) -> &Part, name: &str| {
        before.and_then(|before| part(before).get(name)).zip(time)
    };
    let source = |(name, counters): (&String, &Counters)| SourceView {
        name: name.clone(),
        events_in: counters.sum(&["EventReceivedCount"]),
        events_in_per_second: counters.rate("EventReceivedCount", earlier(|o| &o.sources, name)),
        accepted: counters.sum(&["EventAcceptedCount"]),
        errors: counters.sum(SOURCE_ERRORS),
        dropped: counters.sum(&["EventDroppedCount"]),
    };
    let channel = |(name, counters): (&String, &Counters)| ChannelView {
        name: name.clone(),
        events: counters.sum(&["ChannelSize"]),
        capacity: counters.get("ChannelCapacity"),
        events_in_per_second: counters.rate("EventPutSuccessCount", earlier(|o| &o.channels, name)),
        events_out_per_second: counters
            .rate("EventTakeSuccessCount", earlier(|o| &o.channels, name)),
        oldest_seconds: counters.sum(&["OldestEventAgeMs"]) as f64 / 1000.0,
        lost: counters.sum(&["EventLostCount"]),
    };
    let sink = |(name, counters): (&String, &Counters)| SinkView {
        name: name.clone(),
        events_out: counters.sum(&["EventDrainSuccessCount"]),
        events_out_per_second: counters.rate("EventDrainSuccessCount", earlier(|o| &o.sinks, name)),
        errors: counters.sum(SINK_ERRORS),
        dead_letters: counters.sum(&["EventDeadLetterCount"]),
        dropped: counters.sum(&["EventDroppedCount"]),
    };
    View {
        sources: now.sources.iter().map(source).collect(),
        channels: now.channels.iter().map(channel).collect(),
        sinks: now.sinks.iter().map(sink).collect(),
    }
}

fn rendered(view: &View, format: Format) -> Result<String, CliError> {
    match format {
        Format::Text => Ok(text(view)),
        Format::Json => output::json_line(view),
    }
}

fn text(view: &View) -> String {
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
    let number = |number: u64| number.to_string();
    let mut sources = Table::new(&["SOURCE", "IN", "IN/S", "ACCEPTED", "ERRORS", "DROPPED"]);
    for source in &view.sources {
        sources.row([
            source.name.clone(),
            number(source.events_in),
            rate(source.events_in_per_second),
            number(source.accepted),
            number(source.errors),
            number(source.dropped),
        ]);
    }
    let mut channels =
        Table::new(&["CHANNEL", "EVENTS", "FULL", "IN/S", "OUT/S", "OLDEST", "LOST"]);
    for channel in &view.channels {
        let share = |capacity: u64| channel.events as f64 * 100.0 / capacity.max(1) as f64;
        let full = channel.capacity.map_or("-".to_owned(), |c| format!("{:.0}%", share(c)));
        let oldest = match channel.events {
            0 => "-".to_owned(),
            _ => format!("{:.1}s", channel.oldest_seconds),
        };
        channels.row([
            channel.name.clone(),
            number(channel.events),
            full,
            rate(channel.events_in_per_second),
            rate(channel.events_out_per_second),
            oldest,
            number(channel.lost),
        ]);
    }
    let mut sinks = Table::new(&["SINK", "OUT", "OUT/S", "ERRORS", "DEAD LETTERS", "DROPPED"]);
    for sink in &view.sinks {
        sinks.row([
            sink.name.clone(),
            number(sink.events_out),
            rate(sink.events_out_per_second),
            number(sink.errors),
            number(sink.dead_letters),
            number(sink.dropped),
        ]);
    }
    format!("{}\n{}\n{}", sources.render(), channels.render(), sinks.render())
}
