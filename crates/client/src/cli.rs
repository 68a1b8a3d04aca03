//! What the command lines of `logway` and `logway-bench` share. With the feature `cli`, for only programs
//! need the parser of arguments.

use std::env;
use std::fmt::Display;

use clap::{Args, ValueEnum};

use crate::BrokerAddress;

/// Where the help of each command lists what all of them take.
pub const GLOBAL_OPTIONS: &str = "Global options";

/// A broker on this machine.
const DEFAULT_BROKERS: &str = "127.0.0.1:9092";

/// Stands in for `--brokers`.
const BROKERS_VARIABLE: &str = "LOGWAY_BROKERS";

/// The brokers to begin with; the rest of the cluster is learnt from them.
#[derive(Debug, Args)]
pub struct BrokerArgs {
    /// Brokers to connect to, as HOST:PORT[,HOST:PORT...]
    #[arg(
        short,
        long,
        visible_alias = "bootstrap-server",
        global = true,
        env = BROKERS_VARIABLE,
        value_name = "HOST:PORT",
        default_value = DEFAULT_BROKERS,
        help_heading = GLOBAL_OPTIONS
    )]
    brokers: String,
}

/// How to print data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

impl BrokerArgs {
    /// Whether they are other ones than the default.
    pub fn are_given(&self) -> bool {
        self.brokers != DEFAULT_BROKERS
    }

    /// The brokers as they were given.
    ///
    /// # Errors
    ///
    /// What is wrong with them, for the user.
    pub fn addresses(&self) -> Result<Vec<BrokerAddress>, String> {
        BrokerAddress::parse_list(&self.brokers).map_err(|error| {
            let is_from_environment = env::var(BROKERS_VARIABLE).is_ok_and(|v| v == self.brokers);
            let origin = if is_from_environment { " (from LOGWAY_BROKERS)" } else { "" };
            format!("{error}{origin}")
        })
    }
}

/// The causes of an error, outermost first, joined without those that the text before says already.
pub fn joined_causes(causes: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for cause in causes {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_repeat_itself() {
        let causes = ["produce", "cannot write: no disk", "no disk"];
        assert_eq!(joined_causes(causes), "produce: cannot write: no disk");
    }
}
