//! What is said before and after a run, one frame at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, ensure};
use logway_client::BrokerAddress;

use crate::generator::{Framing, connect};

/// How long a peer may take to say something.
const PATIENCE: Duration = Duration::from_secs(60);

/// No peer says more at once before or after a run.
const FRAME_BYTES_MAX: usize = 1 << 20;

const READ_BYTES: usize = 16 << 10;

/// A blocking connection.
#[derive(Debug)]
pub(crate) struct Conversation {
    stream: TcpStream,
    /// Our own port, which no other connection to the peer has.
    port: u16,
    framing: Framing,
    /// Read, but not yet taken.
    pending: Vec<u8>,
}

impl Conversation {
    pub(super) fn open(address: &BrokerAddress, framing: Framing) -> anyhow::Result<Conversation> {
        Conversation::of(connect(address)?, framing)
    }

    /// The same over a connection that the generator has used.
    pub(crate) fn of(stream: TcpStream, framing: Framing) -> anyhow::Result<Conversation> {
        let port = stream.local_addr()?.port();
        Ok(Conversation { stream, port, framing, pending: Vec::new() })
    }

    /// What tells this connection from others to the same peer.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(PATIENCE))?;
        self.stream.write_all(bytes).context("cannot write to the peer")
    }

    /// Waits for the next frame.
    pub(crate) fn next(&mut self) -> anyhow::Result<Vec<u8>> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_read_timeout(Some(PATIENCE))?;
        loop {
            if let Some(frame_bytes) = self.framing.frame_bytes(&self.pending)?
                && self.pending.len() >= frame_bytes
            {
                return Ok(self.pending.drain(..frame_bytes).collect());
            }
            ensure!(self.pending.len() < FRAME_BYTES_MAX, "a frame without an end");
            let mut part = [0; READ_BYTES];
            let read = self.stream.read(&mut part).context("cannot read from the peer")?;
            ensure!(read > 0, "the peer closed the connection");
            self.pending.extend_from_slice(&part[..read]);
        }
    }

    /// Waits for a frame that is wanted, passing over others.
    pub(super) fn await_frame(
        &mut self,
        is_wanted: impl Fn(&[u8]) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Vec<u8>> {
        loop {
            let frame = self.next()?;
            if is_wanted(&frame)? {
                return Ok(frame);
            }
        }
    }

    /// The connection, for the generator.
    ///
    /// # Errors
    ///
    /// The peer has said something that nobody has heard.
    pub(crate) fn into_stream(self) -> anyhow::Result<TcpStream> {
        // STOMP may have line ends between its frames, which say nothing.
        let is_heard = self.pending.trim_ascii().is_empty();
        ensure!(is_heard, "the peer said more than it was asked");
        Ok(self.stream)
    }
}
