//! How commands fail.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use logway_client::ClientError;
use logway_client::cli::joined_causes;
use logway_log::LogError;

use super::ends::End;
use super::hint::{self, Subject};

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The command makes no sense as given.
    #[error("{0}")]
    Usage(String),
    /// A broker could not do it, or could not be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The same for several things that were asked for at once.
    #[error("{} of the things asked for failed", .0.len())]
    Several(Vec<ClientError>),
    /// Files of a log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Files of a log are damaged; what is wrong has been said.
    #[error("{problems} in {}", listed(dirs))]
    Damaged {
        /// How many, as words.
        problems: String,
        /// The directories.
        dirs: Vec<PathBuf>,
    },
    /// The cluster is not as it should be; what is wrong has been printed.
    #[error("the cluster is not healthy")]
    Unhealthy,
    /// Somebody may not do what was asked about; why has been printed.
    #[error("{who} may not do that")]
    NotAllowed {
        /// Who, as a principal.
        who: String,
    },
    /// The local system refused.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// stdout does not take what is written to it.
    #[error("cannot write to stdout: {0}")]
    Output(io::Error),
    /// The user has had enough before everything was done.
    #[error("ended by {0}")]
    Ended(End),
    /// The input cannot be used.
    #[error("{0}")]
    Input(String),
    /// The same with a next step that only the command knows.
    #[error("{error}")]
    Hinted {
        /// What went wrong.
        error: Box<CliError>,
        /// What can be done about it.
        hint: String,
    },
    /// A broker could not run, or an experiment not be made.
    #[error("{}", joined_causes(.0.chain()))]
    Other(#[from] anyhow::Error),
}

impl CliError {
    /// Says what went wrong on stderr, and returns the process's exit code.
    pub(super) fn report(&self, subject: &Subject) -> ExitCode {
        match self {
            // Whoever read our output has seen enough.
            CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            CliError::Several(errors) => {
                errors.iter().for_each(|error| report_client_error(error, subject));
            }
            CliError::Client(error) => report_client_error(error, subject),
            CliError::Hinted { error, hint } => eprintln!("error: {error}\nhint: {hint}"),
            other => eprintln!("error: {other}"),
        }
        match self.innermost() {
            CliError::Usage(_) => ExitCode::from(2),
            CliError::Ended(end) => ExitCode::from(end.exit_code()),
            _ => ExitCode::FAILURE,
        }
    }

    /// The error without its hint.
    fn innermost(&self) -> &CliError {
        match self {
            CliError::Hinted { error, .. } => error.innermost(),
            other => other,
        }
    }

    /// Whether brokers are the reason, and not what they were to be asked.
    pub(super) fn is_of_cluster(&self) -> bool {
        matches!(self.innermost(), CliError::Client(_) | CliError::Several(_))
    }

    /// Says in the log what went wrong, and returns the process's exit code.
    pub(super) fn log(&self) -> ExitCode {
        match self {
            CliError::Hinted { error, hint } => tracing::error!(hint, "{error}"),
            other => tracing::error!("{other}"),
        }
        ExitCode::FAILURE
    }

    /// The same with a next step.
    pub(super) fn with_hint(self, hint: impl Into<String>) -> CliError {
        CliError::Hinted { error: Box::new(self), hint: hint.into() }
    }

    /// Fails with all the errors there are, if there are any.
    pub(super) fn collect(mut errors: Vec<ClientError>) -> Result<(), CliError> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(CliError::Client(errors.remove(0))),
            _ => Err(CliError::Several(errors)),
        }
    }
}

fn listed(dirs: &[PathBuf]) -> String {
    dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" ")
}

fn report_client_error(error: &ClientError, subject: &Subject) {
    eprintln!("error: {error}");
    if let Some(hint) = hint::hint(error, subject) {
        eprintln!("hint: {hint}");
    }
}
