//! Which brokers to talk to.

use logway_client::{Client, ClientOptions};

use super::GlobalArgs;
use super::delay;
use super::error::CliError;

impl GlobalArgs {
    /// A client of the cluster; connects when it is first used.
    pub(super) fn client(&self) -> Result<Client, CliError> {
        let addresses = self.brokers.addresses().map_err(CliError::Usage)?;
        let options = ClientOptions { on_delay: delay::observer(), ..ClientOptions::default() };
        Ok(Client::new(addresses, options))
    }
}
