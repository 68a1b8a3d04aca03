//! The broker's log: lines on stderr that nobody but the broker has written.
//!
//! What clients send appears in it: names, and errors that repeat them. Here, and only here, it is made
//! harmless: control characters are escaped, long texts are cut, and lines that clients can cause at
//! will are limited in number.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::Field;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, format};
use tracing_subscriber::registry::LookupSpan;

/// The longest text that one field of a line may have.
const TEXT_BYTES_MAX: usize = 2_048;

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

/// Writes the fields of an event, made harmless.
pub fn write_fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    format::debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        if field.name() != "message" {
            write!(writer, "{}=", field.name())?;
        }
        let mut text = Harmless { to: writer, left_bytes: TEXT_BYTES_MAX, cut_bytes: 0 };
        write!(text, "{value:?}")?;
        match text.cut_bytes {
            0 => Ok(()),
            cut_bytes => write!(writer, "… (and {cut_bytes} bytes more)"),
        }
    })
    .delimited(" ")
}

/// Takes text, and passes on what harms no terminal and fits.
struct Harmless<'a, W: Write> {
    to: &'a mut W,
    left_bytes: usize,
    cut_bytes: usize,
}

impl<W: Write> Write for Harmless<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if self.cut_bytes > 0 || self.left_bytes < letter.len_utf8() {
                self.cut_bytes += letter.len_utf8();
                continue;
            }
            self.left_bytes -= letter.len_utf8();
            match is_harmless(letter) {
                true => self.to.write_char(letter)?,
                false => write!(self.to, "{}", letter.escape_unicode())?,
            }
        }
        Ok(())
    }
}

/// Neither a control character nor one that breaks lines or turns the direction of what follows.
fn is_harmless(letter: char) -> bool {
    let is_layout = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !is_layout
}

/// Formats events, and leaves out those of which there were too many lately.
#[derive(Debug, Default)]
pub struct LimitedLines {
    line: format::Format,
    recent: Mutex<HashMap<Identifier, Recent>>,
}

#[derive(Debug)]
struct Recent {
    window_start: Instant,
    lines: u64,
    left_out: u64,
}

impl LimitedLines {
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
        match self.admit(event.metadata(), Instant::now()) {
            None => Ok(()),
            Some(0) => self.line.format_event(context, writer, event),
            Some(left_out) => {
                self.line.format_event(context, writer.by_ref(), event)?;
                writeln!(writer, "({left_out} lines like this one were left out)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

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
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .fmt_fields(write_fields())
            .event_format(LimitedLines::default())
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
            let lines = LimitedLines::default();
            let start = Instant::now();
            let admitted =
                [0, 0, 0, 10, 10].map(|s| lines.admit(kind, start + Duration::from_secs(s)));
            assert_eq!(admitted, [Some(0), None, None, Some(2), None]);
        });
    }
}
