//! Requests over HTTP/1.1, each on a connection of its own.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How much of a response to a POST is read: its status is all that counts.
const RESPONSE_BYTES_MAX: u64 = 64 << 10;

/// `http://HOST[:PORT]/PATH`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    host: String,
    port: u16,
    path: String,
}

impl Endpoint {
    pub(crate) fn parse(text: &str) -> Result<Endpoint, String> {
        let rest = text.strip_prefix("http://");
        let rest = rest.ok_or_else(|| {
            format!("'{text}' does not begin with http://, which alone is served")
        })?;
        let (address, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) => {
                (host, port.parse().map_err(|_| format!("'{text}' has no sound port"))?)
            }
            None => (address, 80),
        };
        let is_sound =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_sound(host) || !is_sound(path) {
            return Err(format!("'{text}' is no address"));
        }
        Ok(Endpoint { host: host.to_owned(), port, path: path.to_owned() })
    }
}

/// The times that a request has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) connect: Duration,
    pub(crate) request: Duration,
}

/// Sends a body; the status that is answered.
pub(crate) async fn post(
    to: &Endpoint,
    content_type: &str,
    accept: &str,
    body: &[u8],
    times: Times,
) -> io::Result<u16> {
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: {content_type}\r\nAccept: {accept}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        to.path,
        to.host,
        to.port,
        body.len()
    );
    status_of(&exchange(to, &head, body, times, RESPONSE_BYTES_MAX).await?)
}

/// Asks for a page, at most so many bytes with its head; what it says, if that is a success.
pub(crate) async fn get(to: &Endpoint, times: Times, bytes_max: u64) -> io::Result<String> {
    let head = format!(
        "GET {} HTTP/1.1\r\nHost: {}:{}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
        to.path, to.host, to.port
    );
    let response = exchange(to, &head, b"", times, bytes_max).await?;
    match status_of(&response)? {
        200..=299 => {}
        status => return Err(io::Error::other(format!("{} answers with {status}", to.path))),
    }
    let text = String::from_utf8_lossy(&response);
    Ok(text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// Sends a request and reads until the other side closes, or as much as is wanted.
async fn exchange(
    to: &Endpoint,
    head: &str,
    body: &[u8],
    times: Times,
    bytes_max: u64,
) -> io::Result<Vec<u8>> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    let connected = timeout(times.connect, TcpStream::connect((to.host.as_str(), to.port)));
    let mut socket = connected.await.map_err(late)??;
    let exchange = async {
        socket.write_all(head.as_bytes()).await?;
        socket.write_all(body).await?;
        let mut response = Vec::new();
        (&mut socket).take(bytes_max).read_to_end(&mut response).await?;
        Ok(response)
    };
    timeout(times.request, exchange).await.map_err(late)?
}

/// The status of the last head: those with 100 to 199 come before it.
fn status_of(response: &[u8]) -> io::Result<u16> {
    let text = String::from_utf8_lossy(response);
    let mut heads = text.split("\r\n\r\n");
    loop {
        let line = heads.next().and_then(|head| head.lines().next()).unwrap_or_default();
        let status = line
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.get(2..5))
            .and_then(|status| status.parse().ok());
        match status {
            Some(100..=199) => {}
            Some(status) => return Ok(status),
            None => {
                return Err(io::Error::other(format!(
                    "the answer is no HTTP: '{}'",
                    line.escape_debug()
                )));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_answers_are_read() {
        let endpoint = Endpoint::parse("http://a:80/b?c").expect("is one");
        assert_eq!(endpoint, Endpoint { host: "a".to_owned(), port: 80, path: "/b?c".to_owned() });
        assert_eq!(Endpoint::parse("http://a").expect("is one").path, "/");
        for text in ["https://a", "http://", "http://a:x/", "http://a b/"] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
        assert_eq!(
            status_of(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\n\r\n").expect("is one"),
            503
        );
        assert!(status_of(b"SSH-2.0").is_err());
    }
}
