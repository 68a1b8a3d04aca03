//! One line for each event, but for those of which there were too many lately.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, format};
use tracing_subscriber::registry::LookupSpan;

use super::Style;
use super::journal::priority;
use super::json_line::write_json;

/// The end of the targets whose lines are limited.
const LIMITED: &str = "::clients";

const WINDOW: Duration = Duration::from_secs(10);

/// How many lines of one kind there are in a window at most.
fn lines_max(level: &Level) -> u64 {
    match *level {
        Level::ERROR | Level::WARN => 1,
        _ => 20,
    }
}

/// Formats events, and leaves out those of which there were too many lately.
#[derive(Debug)]
pub(super) struct LimitedLines {
    style: Style,
    now: fn() -> Instant,
    recent: Mutex<HashMap<Identifier, Recent>>,
}

#[derive(Debug)]
struct Recent {
    window_start: Instant,
    lines: u64,
    left_out: u64,
}

impl LimitedLines {
    /// Lines of a style, none of them left out yet.
    pub(super) fn new(style: Style) -> LimitedLines {
        LimitedLines { style, now: Instant::now, recent: Mutex::default() }
    }

    /// Whether a line may be written, and then how many like it were left out before.
    fn admit(&self, kind: &Metadata<'_>, now: Instant) -> Option<u64> {
        if !kind.target().ends_with(LIMITED) {
            return Some(0);
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = recent.entry(kind.callsite());
        let recent = recent.or_insert(Recent { window_start: now, lines: 0, left_out: 0 });
        if now.duration_since(recent.window_start) >= WINDOW {
            (recent.window_start, recent.lines) = (now, 0);
        }
        if recent.lines >= lines_max(kind.level()) {
            recent.left_out += 1;
            return None;
        }
        recent.lines += 1;
        Some(std::mem::take(&mut recent.left_out))
    }
}

impl<S, N> FormatEvent<S, N> for LimitedLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(left_out) = self.admit(event.metadata(), (self.now)()) else { return Ok(()) };
        let before = match self.style {
            Style::Json => return write_json(&mut writer, event, left_out),
            Style::Text => {
                format::Format::default().format_event(context, writer.by_ref(), event)?;
                ""
            }
            Style::Journal => {
                let before = priority(event.metadata().level());
                writer.write_str(before)?;
                let line = format::Format::default().without_time().with_level(false);
                line.format_event(context, writer.by_ref(), event)?;
                before
            }
        };
        match left_out {
            0 => Ok(()),
            _ => writeln!(writer, "{before}({left_out} lines like this one were left out)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::fields::{TEXT_BYTES_MAX, write_fields};
    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panicked").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(work: impl FnOnce()) -> String {
        logged_as(Style::Text, work)
    }

    fn logged_as(style: Style, work: impl FnOnce()) -> String {
        logged_by(LimitedLines::new(style), work)
    }

    fn logged_by(lines: LimitedLines, work: impl FnOnce()) -> String {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .fmt_fields(write_fields())
            .event_format(lines)
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        let bytes = written.0.lock().expect("nobody panicked").clone();
        String::from_utf8(bytes).expect("is text")
    }

    #[test]
    fn what_a_client_sends_stays_on_its_line_and_short() {
        let name = format!("a\nERROR forged \x1b[31m\u{202e}{}", "x".repeat(30_000));
        let lines = logged(|| tracing::info!(number = 7, %name, "no topic {name}"));
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains("a\\u{a}ERROR forged \\u{1b}[31m\\u{202e}xxx"), "{lines}");
        assert!(lines.contains("number=7 name=a") && lines.contains("bytes more)"), "{lines}");
        assert!(lines.len() < 3 * TEXT_BYTES_MAX && !lines.contains('\x1b'));
    }

    #[test]
    fn lines_that_clients_cause_are_limited_and_what_is_left_out_is_counted() {
        let lines = logged(|| {
            for number in 0..100 {
                tracing::info!(target: "test::clients", number, "closed");
                tracing::warn!(target: "test::clients", number, "refused");
                tracing::warn!(number, "about the broker itself");
            }
        });
        let count = |text| lines.lines().filter(|line| line.contains(text)).count();
        assert_eq!((count("closed"), count("refused"), count("itself")), (20, 1, 100));
    }

    #[test]
    fn the_next_window_says_what_the_last_one_left_out() {
        logged(|| {
            let span = tracing::warn_span!(target: "test::clients", "any");
            let kind = span.metadata().expect("is enabled");
            let lines = LimitedLines::new(Style::Text);
            let start = Instant::now();
            let admitted =
                [0, 0, 0, 10, 10].map(|s| lines.admit(kind, start + Duration::from_secs(s)));
            assert_eq!(admitted, [Some(0), None, None, Some(2), None]);
        });
    }

    #[test]
    fn the_journal_gets_priorities_and_no_time() {
        let lines = logged_as(Style::Journal, || {
            tracing::error!(target: "test", number = 7, "broken\n<0>forged");
            tracing::warn!(target: "test", "odd");
            tracing::info!(target: "test", "usual");
        });
        let expected = "<3>test: broken\\u{a}<0>forged number=7\n<4>test: odd\n<6>test: usual\n";
        assert_eq!(lines, expected);
    }

    #[test]
    fn json_has_an_object_a_line_with_numbers_as_numbers() {
        let lines = logged_as(Style::Json, || {
            let name = format!("a\n\"{}", "x".repeat(30_000));
            tracing::warn!(target: "test", number = 7, is_new = true, %name, text = "t\"", "no {}", 1);
            tracing::info!(target: "test", "usual");
        });
        let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).expect(l)).collect();
        let [first, second] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&first["level"], &first["target"]), (&json!("WARN"), &json!("test")));
        assert_eq!((&first["message"], &first["left_out"]), (&json!("no 1"), &Value::Null));
        let fields = &first["fields"];
        assert_eq!((&fields["number"], &fields["is_new"]), (&json!(7), &json!(true)));
        assert_eq!(fields["text"], "t\"");
        let name = fields["name"].as_str().expect("is text");
        assert!(name.starts_with("a\\u{a}\"xxx") && name.ends_with("bytes more)"), "{name}");
        assert!(name.len() < 2 * TEXT_BYTES_MAX);
        assert!(first["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{first}");
        assert_eq!((&second["message"], &second["fields"]), (&json!("usual"), &Value::Null));
    }

    #[test]
    fn each_format_says_what_was_left_out() {
        thread_local! {
            /// Five seconds pass whenever somebody looks.
            static CLOCK: Cell<Instant> = Cell::new(Instant::now());
        }
        let written = |style| {
            let lines = LimitedLines {
                now: || CLOCK.replace(CLOCK.get() + WINDOW / 2),
                ..LimitedLines::new(style)
            };
            logged_by(lines, || {
                for _ in 0..3 {
                    tracing::warn!(target: "test::clients", "refused");
                }
            })
        };
        let json = written(Style::Json);
        assert!(json.lines().last().is_some_and(|line| line.contains(r#""left_out":1"#)), "{json}");
        let journal = written(Style::Journal);
        let expected = "<4>test::clients: refused\n<4>test::clients: refused\n\
                        <4>(1 lines like this one were left out)\n";
        assert_eq!(journal, expected);
        assert!(written(Style::Text).ends_with("\n(1 lines like this one were left out)\n"));
    }
}
