//! What can go wrong in an agent.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The configuration cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The configuration makes no sense.
    #[error("{}", joined(.0))]
    Config(Vec<Problem>),
    /// A component cannot be started.
    #[error("{component} cannot start: {reason}")]
    Start {
        /// Which, as `source r1`.
        component: String,
        /// Why.
        reason: String,
    },
    /// The address for metrics cannot be had.
    #[error("cannot listen for HTTP at {address}: {source}")]
    Metrics {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Something that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line in it, from 1; 0 if none is to blame.
    pub line: usize,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.text),
            line => write!(f, "{}:{line}: {}", self.file, self.text),
        }
    }
}

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// Why a channel did not take or give events.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ChannelError {
    /// There was no room within the time that a put waits.
    #[error("channel {channel} is full: {held} of {bound} {unit}")]
    Full { channel: String, held: u64, bound: u64, unit: &'static str },
    /// A transaction is larger than the channel takes.
    #[error(
        "a transaction of {found} {unit} is above the {bound} {unit} that channel {channel} takes"
    )]
    TooLarge { channel: String, found: u64, bound: u64, unit: &'static str },
    /// An event cannot be in this channel.
    #[error("channel {channel}: {reason}")]
    Unfit { channel: String, reason: String },
    /// The disk is nearly full.
    #[error(
        "channel {channel} takes nothing: {free_bytes} bytes are free at {path}, and minimumRequiredSpace is {bound_bytes}"
    )]
    NoSpace { channel: String, path: String, free_bytes: u64, bound_bytes: u64 },
    /// The source is to end, and the channel has no room yet.
    #[error("channel {channel} had no room when the source was told to end")]
    Ended { channel: String },
    /// Its storage failed.
    #[error("channel {channel}: {reason}")]
    Storage { channel: String, reason: String },
}

impl ChannelError {
    /// Whether the same events will never be taken.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, ChannelError::TooLarge { .. } | ChannelError::Unfit { .. })
    }
}

/// Why a sink did not pass events on.
#[derive(Debug)]
pub(crate) enum SinkError {
    /// It may pass later: the events go back into the channel.
    Later(String),
    /// This event, by its place in the batch, will never pass, and its configuration says that it is not to be tried again.
    Unwanted { index: usize, reason: String },
    /// The next hop has some of the batch, will never take others, and may take the rest later.
    Partly(Partly),
}

/// What became of a batch, by the places of its events in it. Those that are nowhere here were not sent.
#[derive(Debug, Default)]
pub(crate) struct Partly {
    /// At the next hop.
    pub(crate) arrived: Vec<usize>,
    /// These will never pass, and why.
    pub(crate) refused: Vec<(usize, String)>,
    /// Why the rest did not pass, if there is one.
    pub(crate) later: Option<String>,
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkError::Later(reason) | SinkError::Unwanted { reason, .. } => f.write_str(reason),
            SinkError::Partly(Partly { refused, later, .. }) => {
                let first = refused.first().map(|(_, reason)| reason);
                f.write_str(later.as_ref().or(first).map_or("", String::as_str))
            }
        }
    }
}

impl SinkError {
    /// Something that may pass.
    pub(crate) fn later(reason: impl fmt::Display) -> SinkError {
        SinkError::Later(reason.to_string())
    }
}

/// Why a component did not start.
pub(crate) type StartError = String;

/// For `map_err` of things that a start does.
pub(crate) fn because<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> StartError {
    move |error| format!("{what}: {error}")
}
