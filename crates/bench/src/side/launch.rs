//! How a broker is started.

use std::net::TcpListener;
use std::path::PathBuf;

use logway_client::BrokerAddress;

/// Everything to start a broker, and to start it again on the same data.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// What stands in its file of settings.
    pub(crate) settings: Vec<String>,
    /// Where it will listen.
    pub(crate) address: BrokerAddress,
    /// Where its output goes.
    pub(crate) log_path: PathBuf,
    /// What runs.
    pub(crate) version: String,
}

/// A loopback address that nobody listens on now.
pub(crate) fn free_address() -> anyhow::Result<BrokerAddress> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    Ok(BrokerAddress::new("127.0.0.1", listener.local_addr()?.port()))
}
