//! How users and supervisors say that it is enough.

use std::fmt;
use std::process;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::error::CliError;

/// A signal that asks a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Interrupt,
    Terminate,
}

impl End {
    /// The exit code by which shells know that a signal ended a process.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            End::Interrupt => 128 + 2,
            End::Terminate => 128 + 15,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Interrupt => "Ctrl-C",
            End::Terminate => "SIGTERM",
        })
    }
}

/// What to do about a second signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Second {
    /// End the process at once. For commands that may be stuck where they notice nothing, as in a
    /// write to a pipe that nobody reads.
    Exits,
    /// Tell of it, as of the first.
    Told,
}

/// Tells a command that it is to end. From its making on, signals no longer end the process by
/// themselves.
#[derive(Debug)]
pub(super) struct Ends {
    seen: watch::Receiver<Option<End>>,
}

impl Ends {
    /// Listens from now on.
    pub(super) fn listen(second: Second) -> Result<Ends, CliError> {
        let listen = |kind| {
            signal(kind)
                .map_err(|source| CliError::Io { what: "listen for signals".to_owned(), source })
        };
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let (sender, seen) = watch::channel(None);
        // A task of its own: the command may be busy.
        tokio::spawn(async move {
            loop {
                let end = tokio::select! {
                    _ = interrupt.recv() => End::Interrupt,
                    _ = terminate.recv() => End::Terminate,
                };
                let is_second = sender.send_replace(Some(end)).is_some();
                if is_second && second == Second::Exits {
                    process::exit(i32::from(end.exit_code()));
                }
            }
        });
        Ok(Ends { seen })
    }

    /// Completes with the next signal, or at once with one that nobody was told of.
    pub(super) async fn any(&mut self) -> End {
        // The task ends with the runtime only, and then so does this one.
        match self.seen.changed().await {
            Ok(()) => self.seen.borrow_and_update().unwrap_or(End::Terminate),
            Err(_) => std::future::pending().await,
        }
    }
}
