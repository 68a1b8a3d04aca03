//! Connections within one machine.

use std::net::SocketAddr;

use rustix::net::sockopt::set_tcp_congestion;
use tokio::net::TcpStream;

/// The congestion control that every Linux has and everybody may choose.
const UNPACED: &str = "reno";

/// Lets a socket send as fast as it can if its peer is on this machine.
///
/// BBR, the default of many machines, sends by a timetable that it makes from what it takes for the
/// bandwidth of the path. Within one machine there is no path that could be overfilled, but a timer
/// for every few packets, and an estimate that the scheduler upsets.
pub(super) fn unpace_within_machine(socket: &TcpStream, peer: SocketAddr, local: SocketAddr) {
    let (peer_ip, local_ip) = (peer.ip().to_canonical(), local.ip().to_canonical());
    if !peer_ip.is_loopback() && peer_ip != local_ip {
        return;
    }
    if let Err(error) = set_tcp_congestion(socket, UNPACED) {
        tracing::debug!(%peer, %error, "the congestion control stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::tcp_congestion;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn only_who_is_on_this_machine_is_sent_to_without_a_timetable() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let local = listener.local_addr().expect("it is bound");
        let (_client, accepted) = tokio::join!(TcpStream::connect(local), listener.accept());
        let (socket, peer) = accepted.expect("a client");
        let default = tcp_congestion(&socket).expect("it is a TCP socket");
        let far = SocketAddr::from(([192, 0, 2, 1], 1));
        let same_as_far = "[::ffff:192.0.2.1]:2".parse().expect("it is an address");

        unpace_within_machine(&socket, far, local);
        assert_eq!(tcp_congestion(&socket).expect("it is a TCP socket"), default);
        for (peer, local) in [(peer, local), (far, same_as_far)] {
            set_tcp_congestion(&socket, &default).expect("it was so before");
            unpace_within_machine(&socket, peer, local);
            assert_eq!(tcp_congestion(&socket).expect("it is a TCP socket"), UNPACED);
        }
    }
}
