//! One client of the broker that does nothing.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use super::fetch_source::{FetchPosition, FetchSource};
use super::replies::{Replies, Reply};
use crate::generator::{Framing, Intake};

/// Enough for every request but one that produces, of which more is never looked at.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A socket, read and written in turn by one thread.
pub(super) struct Connection {
    stream: TcpStream,
    replies: Replies,
    source: Arc<FetchSource>,
    position: FetchPosition,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, replies: Replies, source: Arc<FetchSource>) -> Connection {
        Connection { stream, replies, source, position: FetchPosition::default() }
    }

    /// Until the client goes or says something that cannot be understood.
    pub(super) fn serve(mut self) {
        let mut intake = Intake::new(Framing::Kafka, HEAD_BYTES_MAX);
        let mut out = Vec::new();
        while self.serve_once(&mut intake, &mut out).is_ok() {}
    }

    /// Answers all that comes with one read with one write.
    fn serve_once(&mut self, intake: &mut Intake, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let Connection { stream, replies, source, position } = self;
        let mut reader = &*stream;
        out.clear();
        intake.read(&mut reader, |head, _| {
            match replies.reply(head)? {
                Reply::Nothing => {}
                Reply::Bytes(bytes) => out.extend_from_slice(bytes),
                Reply::Fetched { before, records_bytes, after } => {
                    out.extend_from_slice(&before);
                    (&*stream).write_all(out)?;
                    out.clear();
                    source.send(stream, position, records_bytes)?;
                    out.extend_from_slice(&after);
                }
            }
            Ok(())
        })?;
        Ok((&*stream).write_all(out)?)
    }
}
