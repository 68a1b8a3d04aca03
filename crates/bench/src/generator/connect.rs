//! Connections to brokers.

use std::net::TcpStream;

use anyhow::Context;
use logway_client::BrokerAddress;
use rustix::net::sockopt::set_tcp_congestion;

/// A connection over which small requests leave at once. Blocks until it is there.
///
/// # Errors
///
/// Nobody listens at the address.
pub(crate) fn connect(address: &BrokerAddress) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect((address.host.as_str(), address.port));
    let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
    send_at_once(&stream)?;
    Ok(stream)
}

/// Has small packets leave at once and, within one machine, large ones as fast as the other side takes
/// them.
///
/// Where BBR is the machine's default, the kernel would send by a timetable of its own, and that would
/// be measured. It is the same towards all brokers; with what they answer, each does what it does.
pub(crate) fn send_at_once(stream: &TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    if stream.peer_addr()?.ip().is_loopback() {
        // Every Linux has it, and everybody may choose it.
        set_tcp_congestion(stream, "reno").context("cannot choose the congestion control")?;
    }
    Ok(())
}
