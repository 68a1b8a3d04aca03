//! The log of the process: lines on stderr that nobody but the program has written.
//!
//! What clients send appears in it: names, and errors that repeat them. Here, and only here, it is made
//! harmless: control characters are escaped, long texts are cut, and lines that clients can cause at
//! will are limited in number. Each event is one line in every format.

mod audit;
mod fields;
mod journal;
mod json_line;
mod lines;

use std::io::{self, IsTerminal, Write};
use std::panic;

use logway_metadata::settings::{BrokerSettings, LogFormat};
use logway_node::AUDIT;
use logway_node::log_levels::{Levels, LogLevels};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

pub(crate) use self::audit::{AuditError, AuditLog};
pub(crate) use self::fields::is_harmless;
use self::fields::write_fields;
use self::lines::LimitedLines;

/// Says what is logged, as the setting `logway.log.level` does.
pub(crate) const LEVEL_VARIABLE: &str = "LOGWAY_LOG";

/// The consensus library is chatty about things that are normal for a lone voter.
const QUIET: (&str, LevelFilter) = ("openraft", LevelFilter::OFF);

/// How lines are written, settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// For systemd's journal.
    Journal,
}

/// The logs of a broker.
#[derive(Debug)]
pub(crate) struct Logs {
    /// How lines on stderr are written.
    pub(crate) style: Style,
    /// Which there are.
    pub(crate) levels: LogLevels,
    /// The audit log, if there is one.
    pub(crate) audit: Option<AuditLog>,
}

/// Sets up the logs of a broker. What is logged before goes nowhere. Fails if there is to be an audit log and cannot be.
pub(crate) fn init_for_broker(settings: &BrokerSettings) -> Result<Logs, AuditError> {
    let style = match settings.log_format {
        LogFormat::Text => Style::Text,
        LogFormat::Json => Style::Json,
        LogFormat::Journal => Style::Journal,
        LogFormat::Auto if journal::is_stderr() => Style::Journal,
        LogFormat::Auto => Style::Text,
    };
    let audit = settings.audit.as_ref().map(AuditLog::open).transpose()?;
    let levels = levels(settings.log_levels.iter().map(String::as_str));
    let levels = init(style, levels, audit.clone());
    if style != Style::Text {
        log_panics();
    }
    Ok(Logs { style, levels, audit })
}

/// Sets up the log of a command that is no broker.
///
/// Fails with what is wrong with the variable [`LEVEL_VARIABLE`].
pub(crate) fn init_for_command() -> Result<(), String> {
    let named = std::env::var(LEVEL_VARIABLE).unwrap_or_default();
    let given = [("logway.log.level".to_owned(), named)];
    let settings =
        BrokerSettings::new(given).map_err(|error| format!("{LEVEL_VARIABLE}: {error}"))?;
    init(Style::Text, levels(settings.log_levels.iter().map(String::as_str)), None);
    Ok(())
}

/// The levels of checked texts, each `level` or `part=level`.
fn levels<'a>(texts: impl Iterator<Item = &'a str>) -> Levels {
    let (quiet, quiet_level) = QUIET;
    let mut levels = Levels::default();
    levels.of_parts.insert(quiet.to_owned(), quiet_level);
    for text in texts {
        let (part, level) = text.split_once('=').unwrap_or(("root", text));
        let level = level.parse().expect("the setting's words are tracing's");
        match part {
            "root" => levels.root = level,
            _ => _ = levels.of_parts.insert(part.to_owned(), level),
        }
    }
    levels
}

fn targets(levels: &Levels) -> Targets {
    let of_parts = levels.of_parts.iter().map(|(part, level)| (part.as_str(), *level));
    let targets = Targets::new().with_default(levels.root).with_targets(of_parts);
    targets.with_target(AUDIT, LevelFilter::OFF)
}

/// Begins to write lines to stderr, and to the audit log if there is one; the result changes which on stderr.
fn init(style: Style, levels: Levels, audit: Option<AuditLog>) -> LogLevels {
    let (subscriber, levels) = subscriber(style, levels, || Unfailing(io::stderr()), audit);
    tracing::subscriber::set_global_default(subscriber).expect("the log is set up once");
    levels
}

/// What writes lines, and what changes which lines.
fn subscriber(
    style: Style,
    levels: Levels,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
    audit: Option<AuditLog>,
) -> (impl Subscriber + Send + Sync, LogLevels) {
    let (filter, in_force) = reload::Layer::new(targets(&levels));
    let lines = fmt::layer()
        .with_writer(writer)
        // It would report a failed write to stderr, and panic over the failure of that.
        .log_internal_errors(false)
        .with_ansi(style == Style::Text && io::stderr().is_terminal())
        .fmt_fields(write_fields())
        .event_format(LimitedLines::new(style))
        .with_filter(filter);
    let audit = audit.map(|audit| {
        let only_audit = Targets::new().with_target(AUDIT, LevelFilter::INFO);
        fmt::layer()
            .with_writer(audit)
            .log_internal_errors(false)
            .fmt_fields(write_fields())
            .event_format(LimitedLines::new(Style::Json))
            .with_filter(only_audit)
    });
    let subscriber = Registry::default().with(lines).with(audit);
    let levels = LogLevels::new(levels, move |levels| {
        // It fails only when the subscriber is gone, and with it every line.
        let _ = in_force.reload(targets(levels));
    });
    (subscriber, levels)
}

/// Makes a panic a line like any other, where programs read the lines.
fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        let why = panic.payload_as_str().unwrap_or("for no stated reason");
        tracing::error!(at, "a thread panicked: {why}");
    }));
}

/// A writer that loses what it cannot write: a full disk or a closed pipe behind stderr must not
/// keep a broker from working.
struct Unfailing<W>(W);

impl<W: Write> Write for Unfailing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn parts_have_levels_of_their_own() {
        let told = levels(["warn", "logway_log=debug", "logway_log::writer=off"].into_iter());
        let of_parts = BTreeMap::from([
            ("openraft".to_owned(), LevelFilter::OFF),
            ("logway_log".to_owned(), LevelFilter::DEBUG),
            ("logway_log::writer".to_owned(), LevelFilter::OFF),
        ]);
        assert_eq!(told, Levels { root: LevelFilter::WARN, of_parts });
        let targets = targets(&told);
        let is_told = |target: &str, level| targets.would_enable(target, &level);
        assert!(is_told("logway_log::segment", tracing::Level::DEBUG));
        assert!(!is_told("logway_log::writer::append", tracing::Level::ERROR));
        assert!(!is_told("logway_kafka", tracing::Level::INFO));
        assert!(!is_told("openraft::raft", tracing::Level::ERROR));
    }

    #[test]
    fn a_change_of_levels_is_in_force_at_once() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let written = Arc::new(file.reopen().expect("opens again"));
        let (subscriber, levels) =
            subscriber(Style::Journal, levels(["info"].into_iter()), written, None);
        let log = |round: u8| {
            tracing::debug!(target: "logway_log::segment", round, "debug");
            tracing::info!(target: "logway_kafka", round, "info");
        };
        tracing::subscriber::with_default(subscriber, || {
            log(1);
            levels.change(|levels| {
                levels.root = LevelFilter::OFF;
                levels.of_parts.insert("logway_log".to_owned(), LevelFilter::DEBUG);
            });
            log(2);
            levels.change(|levels| *levels = Levels::default());
            log(3);
        });
        let expected = "<6>logway_kafka: info round=1\n\
                        <7>logway_log::segment: debug round=2\n\
                        <6>logway_kafka: info round=3\n";
        assert_eq!(std::fs::read_to_string(file.path()).expect("is text"), expected);
    }

    #[test]
    fn the_root_can_be_named_and_a_quiet_part_made_loud() {
        let told = levels(["root=error", "openraft=trace"].into_iter());
        assert_eq!(told.root, LevelFilter::ERROR);
        assert_eq!(told.of_parts["openraft"], LevelFilter::TRACE);
    }
}
