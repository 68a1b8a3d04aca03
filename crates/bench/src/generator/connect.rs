//! Connections to brokers.

use std::net::TcpStream;

use anyhow::Context;
use logway_client::BrokerAddress;

/// A connection over which small requests leave at once. Blocks until it is there.
///
/// # Errors
///
/// Nobody listens at the address.
pub(crate) fn connect(address: &BrokerAddress) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect((address.host.as_str(), address.port));
    let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
