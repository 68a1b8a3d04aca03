//! How a broker is started.

use std::net::TcpListener;

use logway_client::BrokerAddress;

use super::own_rates::OwnCounts;
use crate::peer::Peer;

/// Everything to start a broker, and to start it again on the same data.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// The same for a broker that syncs, where that is decided for the whole broker.
    pub(crate) synced_command: Option<Vec<String>>,
    /// The same for a broker that was killed and would wait until it takes itself for dead, where there is a setting for
    /// that.
    pub(crate) command_at_once: Option<Vec<String>>,
    /// What has to run beside it.
    pub(crate) companion: Option<Vec<String>>,
    /// What stands in its file of settings.
    pub(crate) settings: Vec<String>,
    /// Where it will listen.
    pub(crate) address: BrokerAddress,
    /// Where its log service will listen, if it has one.
    pub(crate) log_service: Option<BrokerAddress>,
    /// What runs.
    pub(crate) version: String,
    /// What it speaks, if not Kafka's protocol.
    pub(crate) peer: Option<&'static dyn Peer>,
    /// Where it shows what it has counted itself.
    pub(crate) own_counts: OwnCounts,
    /// Its code is compiled while it runs, so that each work has to be done for a while before it counts.
    pub(crate) is_compiled_as_it_runs: bool,
}

impl Default for Launch {
    fn default() -> Launch {
        Launch {
            command: Vec::new(),
            synced_command: None,
            command_at_once: None,
            companion: None,
            settings: Vec::new(),
            address: BrokerAddress::new("127.0.0.1", 0),
            log_service: None,
            version: String::new(),
            peer: None,
            own_counts: OwnCounts::Nowhere,
            is_compiled_as_it_runs: false,
        }
    }
}

/// A loopback address that nobody listens on now.
pub(crate) fn free_address() -> anyhow::Result<BrokerAddress> {
    Ok(free_addresses(1)?.swap_remove(0))
}

/// The same, so many that differ.
pub(crate) fn free_addresses(count: usize) -> anyhow::Result<Vec<BrokerAddress>> {
    let listen = || TcpListener::bind(("127.0.0.1", 0));
    // Each is kept until all are there: the system would give it out again.
    let listeners: Vec<TcpListener> =
        std::iter::repeat_with(listen).take(count).collect::<std::io::Result<_>>()?;
    let address =
        |listener: &TcpListener| Ok(BrokerAddress::new("127.0.0.1", listener.local_addr()?.port()));
    listeners.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn addresses_differ() {
        let addresses = free_addresses(9).expect("there are some");
        assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), 9);
    }
}
