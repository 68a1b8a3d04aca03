//! Text that is shown anew from time to time.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use rustix::termios::tcgetwinsize;

use super::error::CliError;
use super::output;

/// A screen of its own, which leaves what was on the terminal as it was, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// What to assume where the terminal does not tell its size.
const ROWS_DEFAULT: usize = 24;
const COLUMNS_DEFAULT: usize = 80;

/// How often to show the next text, as users say it: a number of seconds.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let seconds: f64 = seconds.ok_or("expected a number of seconds from 0.1 to 3600")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Shows one text after another: in the same place on a terminal, one below the other elsewhere.
#[derive(Debug)]
pub(super) struct Live {
    is_terminal: bool,
    last: Option<String>,
}

impl Live {
    /// Takes the terminal's screen, if stdout is a terminal.
    pub(super) fn start() -> Result<Live, CliError> {
        let is_terminal = io::stdout().is_terminal();
        if is_terminal {
            output::print(ENTER)?;
        }
        Ok(Live { is_terminal, last: None })
    }

    /// Shows a text; on a terminal as much of it as fits.
    pub(super) fn show(&mut self, text: &str) -> Result<(), CliError> {
        if !self.is_terminal {
            return output::print(text);
        }
        let (rows, columns) = size();
        output::print(&frame(text, rows, columns))?;
        self.last = Some(text.to_owned());
        Ok(())
    }

    /// Gives the terminal back, and leaves the last text on it.
    pub(super) fn finish(mut self) -> Result<(), CliError> {
        let last = self.last.take();
        drop(self);
        output::print(&last.unwrap_or_default())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.is_terminal {
            // Who cannot be written to has no screen to be given back.
            let mut stdout = io::stdout().lock();
            let _ = stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush());
        }
    }
}

/// Overwrites line by line from the top left, so that nothing flickers, and clears the rest.
fn frame(text: &str, rows: usize, columns: usize) -> String {
    let mut frame = "\x1b[H".to_owned();
    for (index, line) in text.lines().take(rows).enumerate() {
        if index > 0 {
            frame.push_str("\r\n");
        }
        frame.extend(line.chars().take(columns));
        frame.push_str("\x1b[K");
    }
    frame.push_str("\x1b[J");
    frame
}

fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        }
        _ => (ROWS_DEFAULT, COLUMNS_DEFAULT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_stays_within_the_screen() {
        let expected = "\x1b[Hab\x1b[K\r\nü\x1b[K\x1b[J";
        assert_eq!(frame("abc\nü\nthird\n", 2, 2), expected);
    }
}
