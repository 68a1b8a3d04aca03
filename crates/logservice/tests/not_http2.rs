//! What the client of command lines makes of servers that speak no HTTP/2, and of those that go.

use std::net::SocketAddr;
use std::time::Duration;

use logway_client::{BrokerAddress, ConnectionOptions};
use logway_logservice::{LogClient, LogClientError, NoHttp2};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// What a server may read before it says something: within the client's preface, all of it, and the head of its settings.
const READ_FIRST: [usize; 4] = [0, 1, 24, 33];

/// An empty frame of settings.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";

/// Far below what a client waits for a server that says nothing.
const AT_ONCE: Duration = Duration::from_secs(5);

/// How often each is tried: what goes wrong may depend on which thread is faster.
const ROUNDS: usize = 30;

/// What a server does with a connection before it closes it.
#[derive(Debug, Clone, Copy)]
struct Server {
    /// So much is read first.
    reads: usize,
    says: &'static [u8],
    /// So much is read then.
    reads_more: usize,
    /// Whether it closes with bytes unread, which resets the connection; else it waits for the client's end.
    resets: bool,
}

impl Server {
    async fn serve(self, mut socket: TcpStream) {
        let mut read = vec![0; self.reads.max(self.reads_more)];
        // The client may have gone.
        _ = socket.read_exact(&mut read[..self.reads]).await;
        _ = socket.write_all(self.says).await;
        _ = socket.read_exact(&mut read[..self.reads_more]).await;
        if !self.resets {
            _ = socket.shutdown().await;
            _ = socket.read_to_end(&mut read).await;
        }
    }

    /// How a client's first call ends.
    async fn tell(self, listener: &TcpListener) -> LogClientError {
        let address = listener.local_addr().expect("is bound");
        let serving = async {
            let (socket, _) = listener.accept().await.expect("accepts");
            tokio::spawn(self.serve(socket));
        };
        // On a thread of its own, as a program is.
        let asking = tokio::spawn(first_call(address, ConnectionOptions::default()));
        let (_, told) = tokio::join!(serving, timeout(AT_ONCE, asking));
        let told = told.unwrap_or_else(|_| panic!("{self:?}: the client hangs"));
        let error = told.expect("does not panic").expect_err("is no log service");
        let said = error.to_string();
        assert!(said.contains(&address.to_string()), "{self:?}: {said}");
        error
    }
}

async fn first_call(address: SocketAddr, options: ConnectionOptions) -> Result<(), LogClientError> {
    let address = BrokerAddress::new(address.ip().to_string(), address.port());
    LogClient::connect(&address, options).await?.info("any").await.map(drop)
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("any port will do")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_answers_in_http1_is_told_of_at_once() {
    let listener = listener().await;
    for _ in 0..ROUNDS {
        for says in [&ANSWER[..1], &ANSWER[..4], &ANSWER[..9], ANSWER] {
            for reads in READ_FIRST {
                for resets in [false, true] {
                    let server = Server { reads, says, reads_more: 0, resets };
                    let error = server.tell(&listener).await;
                    let LogClientError::NoHttp2 { instead, .. } = &error else {
                        panic!("{server:?}: {error:?}")
                    };
                    match instead {
                        NoHttp2::Answered(beginning) => {
                            assert!("HTTP/1.1 400 Bad Request".starts_with(beginning), "{error}");
                            assert!(!error.may_pass());
                        }
                        // A reset can overtake the answer.
                        instead => assert!(*instead == NoHttp2::Closed && resets, "{error:?}"),
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_closes_before_or_after_its_first_frame_is_told_of_at_once() {
    let listener = listener().await;
    for _ in 0..ROUNDS {
        for (says, reads_more) in [
            (&[][..], 0),
            (&SETTINGS[..5], 0),
            (SETTINGS, 0),
            (SETTINGS, 1),
            (SETTINGS, 30),
            // Here are the settings, their acknowledgement, and a part of the call.
            (SETTINGS, 100),
        ] {
            for reads in READ_FIRST {
                for resets in [false, true] {
                    let server = Server { reads, says, reads_more, resets };
                    let error = server.tell(&listener).await;
                    assert!(error.may_pass(), "{server:?}: {error:?}");
                    if says.len() < SETTINGS.len() {
                        let is_closed = matches!(
                            error,
                            LogClientError::NoHttp2 { instead: NoHttp2::Closed, .. }
                        );
                        assert!(is_closed, "{server:?}: {error:?}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn who_says_nothing_is_told_of_after_the_time_to_connect() {
    let listener = listener().await;
    let patience = Duration::from_millis(50);
    let options = ConnectionOptions { connect_timeout: patience, ..ConnectionOptions::default() };
    let address = listener.local_addr().expect("is bound");
    let error = timeout(AT_ONCE, first_call(address, options)).await.expect("in time");
    let error = error.expect_err("there is no word");
    let expected = format!("{address} speaks no HTTP/2: no answer within 50 ms");
    assert!(error.to_string() == expected && error.may_pass(), "{error}");
}
