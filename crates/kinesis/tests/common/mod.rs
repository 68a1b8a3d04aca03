//! A node with its front door open, and requests as they travel.

// Not every file of tests needs all of it.
#![allow(dead_code, unreachable_pub)]

use std::path::Path;
use std::sync::Arc;

use logway_kinesis::{BoundListener, KinesisServer};
use logway_metadata::settings::BrokerSettings;
use logway_node::Node;
use logway_node::log_levels::LogLevels;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const JSON: &str = "application/x-amz-json-1.1";
pub const CBOR: &str = "application/x-amz-cbor-1.1";
pub const SIGNED: &str = "authorization: AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b, Signature=c\r\nx-amz-date: d\r\n";

/// A node with its front door open.
pub struct Door {
    pub node: Arc<Node>,
    pub server: KinesisServer,
}

impl Door {
    pub async fn open(dir: &Path) -> Door {
        let dir = dir.to_str().expect("a temporary directory's name is text");
        let settings = [("log.dirs", dir), ("kinesis.listen", "127.0.0.1:0")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = BrokerSettings::new(settings).expect("the settings are valid");
        let bound = BoundListener::bind(&settings).await.expect("any port will do");
        let bound = bound.expect("was asked for");
        let mut registry = Registry::default();
        let node = Node::start(settings, None, LogLevels::default(), &mut registry).await;
        let node = node.expect("starts");
        let server = KinesisServer::start(Arc::clone(&node), bound, &mut registry);
        Door { node, server }
    }

    pub async fn close(self) {
        self.node.begin_stop();
        self.server.stop().await;
        self.node.stop().await.expect("stops cleanly");
    }

    /// Sends what is given, and returns the head and the body of what comes.
    pub async fn exchange(&self, request: &[u8]) -> (String, Vec<u8>) {
        let mut socket = TcpStream::connect(self.server.address()).await.expect("connects");
        socket.write_all(request).await.expect("is taken");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.expect("is answered");
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("has a head");
        (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end + 4..].to_vec())
    }

    /// Sends what is given, and returns the status and the body of what comes.
    pub async fn raw(&self, request: &[u8]) -> (u16, Vec<u8>) {
        let (head, body) = self.exchange(request).await;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("has a status"), body)
    }

    pub async fn ask(&self, method: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let length = body.len();
        let head = format!(
            "{method} / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        self.raw(&[head.as_bytes(), body].concat()).await
    }

    /// A request that is signed in form.
    pub async fn call(&self, operation: &str, content_type: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let headers = format!(
            "content-type: {content_type}\r\nx-amz-target: Kinesis_20131202.{operation}\r\n{SIGNED}"
        );
        self.ask("POST", &headers, body).await
    }

    pub async fn json(&self, operation: &str, body: &str) -> (u16, String) {
        let (status, body) = self.call(operation, JSON, body.as_bytes()).await;
        (status, String::from_utf8(body).expect("is text"))
    }
}
