//! A progress bar, on a terminal only.

use std::cell::Cell;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::input::InputSize;

/// How often the bar is told: cheap enough to be called for each line.
const STEP_BYTES: u64 = 256 << 10;

/// How much of the input has been read. Drawn on stderr if that is a terminal, and not while
/// someone types into stdin.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    pending_bytes: Cell<u64>,
}

impl Progress {
    /// Draws an empty bar.
    pub(super) fn start(size: InputSize) -> Progress {
        let is_typed = size == InputSize::Unknown && io::stdin().is_terminal();
        let target = match is_typed {
            true => ProgressDrawTarget::hidden(),
            // It hides itself where stderr is no terminal.
            false => ProgressDrawTarget::stderr(),
        };
        let (length, template) = match size {
            InputSize::Bytes(bytes) => {
                (Some(bytes), "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left")
            }
            InputSize::Unknown => (None, "{spinner} {bytes}, {bytes_per_sec}, {elapsed}"),
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(length, target).with_style(style);
        Progress { bar, pending_bytes: Cell::new(0) }
    }

    /// Counts what has been read.
    pub(super) fn advance(&self, bytes: u64) {
        let pending_bytes = self.pending_bytes.get() + bytes;
        if pending_bytes < STEP_BYTES {
            return self.pending_bytes.set(pending_bytes);
        }
        self.bar.inc(pending_bytes);
        self.pending_bytes.set(0);
    }

    /// Says something above the bar.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
