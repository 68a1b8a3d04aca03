//! Whether a client is still there while nothing is read from it.

use std::io;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};

/// How often it is looked whether a client has closed whose requests are not read now.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Waits until the client has closed with nothing sent that was not read: nothing more will come, so its place is free
/// although the connection is not read now.
pub(super) async fn closed(socket: &TcpStream) {
    loop {
        match socket.peek(&mut [0]).await {
            Ok(0) | Err(_) => return,
            // Its next request waits until it may be read.
            Ok(_) => sleep(LOOK_INTERVAL).await,
        }
    }
}

/// Waits until no answer can reach the client any more, whatever it has sent, and says why.
///
/// A client that has only said that it will send no more is there: it may read its answers still, and cannot be told
/// from one that has closed, until something is sent to it.
pub(super) async fn lost(socket: &TcpStream) -> io::Error {
    // The reactor tells of an error unasked, so that waiting for it takes no system call.
    match socket.ready(Interest::ERROR).await {
        Ok(_) => match socket.take_error() {
            Ok(Some(error)) | Err(error) => error,
            Ok(None) => io::ErrorKind::ConnectionReset.into(),
        },
        Err(error) => error,
    }
}
