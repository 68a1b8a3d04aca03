//! Which brokers to talk to.

use std::env;

use clap::Args;
use logway_client::{BrokerAddress, Client, ClientOptions};

use super::GLOBAL_OPTIONS;
use super::delay;
use super::error::CliError;

/// Stands in for `--brokers`.
const BROKERS_VARIABLE: &str = "LOGWAY_BROKERS";

/// The brokers to begin with; the rest of the cluster is learnt from them.
#[derive(Debug, Args)]
pub(super) struct BrokerArgs {
    /// Brokers to connect to, as HOST:PORT[,HOST:PORT...]
    #[arg(
        short,
        long,
        visible_alias = "bootstrap-server",
        global = true,
        env = BROKERS_VARIABLE,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9092",
        help_heading = GLOBAL_OPTIONS
    )]
    brokers: String,
}

impl BrokerArgs {
    /// The brokers as they were given.
    pub(super) fn addresses(&self) -> Result<Vec<BrokerAddress>, CliError> {
        BrokerAddress::parse_list(&self.brokers).map_err(|error| {
            let is_from_environment = env::var(BROKERS_VARIABLE).is_ok_and(|v| v == self.brokers);
            let origin = if is_from_environment { " (from LOGWAY_BROKERS)" } else { "" };
            CliError::Usage(format!("{error}{origin}"))
        })
    }

    /// A client of the cluster; connects when it is first used.
    pub(super) fn client(&self) -> Result<Client, CliError> {
        let options = ClientOptions { on_delay: delay::observer(), ..ClientOptions::default() };
        Ok(Client::new(self.addresses()?, options))
    }
}
