//! Which brokers to talk to.

use clap::Args;
use logway_client::{BrokerAddress, Client, ClientOptions};

use super::GLOBAL_OPTIONS;
use super::delay;
use super::error::CliError;

/// The brokers to begin with; the rest of the cluster is learnt from them.
#[derive(Debug, Args)]
pub(super) struct BrokerArgs {
    /// Brokers to connect to, as HOST:PORT[,HOST:PORT...]
    #[arg(
        short,
        long,
        visible_alias = "bootstrap-server",
        global = true,
        env = "LOGWAY_BROKERS",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9092",
        help_heading = GLOBAL_OPTIONS
    )]
    brokers: String,
}

impl BrokerArgs {
    /// The brokers as they were given.
    pub(super) fn addresses(&self) -> Result<Vec<BrokerAddress>, CliError> {
        BrokerAddress::parse_list(&self.brokers).map_err(|error| CliError::Usage(error.to_string()))
    }

    /// A client of the cluster; connects when it is first used.
    pub(super) fn client(&self) -> Result<Client, CliError> {
        let options = ClientOptions { on_delay: delay::observer(), ..ClientOptions::default() };
        Ok(Client::new(self.addresses()?, options))
    }
}
