//! What a service tells systemd of itself (`sd_notify(3)`): a datagram to the socket that
//! `NOTIFY_SOCKET` names. Nothing where there is none.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Requests are accepted.
pub(crate) const READY: &str = "READY=1";

/// The service is about to end.
pub(crate) const STOPPING: &str = "STOPPING=1";

/// Says how the service is. Who cannot be told does not keep a broker from working.
pub(crate) fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(?socket, %error, "systemd could not be told {state}");
    }
}

/// A name that begins with `@` is one in the abstract namespace (`unix(7)`).
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).expect("something was sent");
        String::from_utf8(bytes[..length].to_vec()).expect("is text")
    }

    #[test]
    fn the_state_goes_to_sockets_of_both_kinds() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let named = UnixDatagram::bind(&path).expect("binds");
        send(path.as_os_str(), READY).expect("is sent");
        assert_eq!(received(&named), "READY=1");

        let name = format!("logway-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("is a name");
        let unnamed = UnixDatagram::bind_addr(&address).expect("binds");
        send(OsStr::new(&format!("@{name}")), STOPPING).expect("is sent");
        assert_eq!(received(&unnamed), "STOPPING=1");
    }

    #[test]
    fn a_socket_that_nobody_reads_is_an_error() {
        assert!(send(OsStr::new("/nowhere/notify"), READY).is_err());
        assert!(send(OsStr::new(&"x".repeat(200)), READY).is_err());
    }
}
