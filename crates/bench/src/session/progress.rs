//! One line on a terminal that says what is going on.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the spinner and the time move. Rarely: the generator needs the processor.
const TICK: Duration = Duration::from_millis(500);

/// The line; it hides itself where stderr is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn start() -> Progress {
        let style = ProgressStyle::with_template("{spinner} {elapsed}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let target = ProgressDrawTarget::stderr();
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        bar.enable_steady_tick(TICK);
        Progress { bar }
    }

    pub(crate) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Takes the line away while something else is printed.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
