//! A message among others, in bytes.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 4 | length | of what follows, big-endian |
//! | 8 | call | pairs a reply with its request, big-endian |
//! | 1 | kind | of a request: whom it is for; of a reply: 0 done, 1 nobody is here for that |
//! | N | payload | the message |

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use logway_quorum::PEER_MESSAGE_MAX_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Whom a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The metadata quorum.
    Quorum,
    /// The leader of partitions: a follower asks for what is behind its ends.
    Fetch,
    /// The active controller: a broker says that it lives.
    Heartbeat,
    /// The leader of a partition: another node has a client's records for it, or a client that reads it.
    Partition,
    /// Any node: one that has a join token asks to be admitted.
    Admission,
    /// Any node: by which key the cluster knows a node.
    NodeKey,
    /// The coordinator of a transaction, or the leader of partitions that it has written to.
    Transactions,
    /// A broker: what its replicas take, and how full its disks are.
    Holdings,
    /// Any node: the newest metadata level that it knows.
    Levels,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Quorum => 1,
            Kind::Fetch => 2,
            Kind::Heartbeat => 3,
            Kind::Partition => 4,
            Kind::Admission => 5,
            Kind::NodeKey => 6,
            Kind::Transactions => 7,
            Kind::Holdings => 8,
            Kind::Levels => 9,
        }
    }

    /// The kind of a number, if this version knows it.
    pub(crate) fn of(number: u8) -> Option<Kind> {
        let all = [
            Kind::Quorum,
            Kind::Fetch,
            Kind::Heartbeat,
            Kind::Partition,
            Kind::Admission,
            Kind::NodeKey,
            Kind::Transactions,
            Kind::Holdings,
            Kind::Levels,
        ];
        all.into_iter().find(|kind| kind.number() == number)
    }
}

/// The reply to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Done = 0,
    /// The node is starting or stopping, or is of a version that does not know the kind.
    NobodyHere = 1,
}

/// Call number and kind.
const HEADER_BYTES: usize = 9;

/// The first read of a frame; longer ones grow as their bytes come.
const READ_BYTES: usize = 64 << 10;

/// A message with its header.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) call: u64,
    pub(crate) kind: u8,
    pub(crate) payload: Bytes,
}

impl Frame {
    pub(crate) fn request(call: u64, kind: Kind, payload: Vec<u8>) -> Frame {
        Frame { call, kind: kind.number(), payload: payload.into() }
    }

    pub(crate) fn reply(call: u64, status: Status, payload: Vec<u8>) -> Frame {
        Frame { call, kind: status as u8, payload: payload.into() }
    }

    pub(crate) async fn send(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let length = u32::try_from(HEADER_BYTES + self.payload.len()).map_err(|_| too_long())?;
        if self.payload.len() > PEER_MESSAGE_MAX_BYTES {
            return Err(too_long());
        }
        let mut header = [0; 4 + HEADER_BYTES];
        header[..4].copy_from_slice(&length.to_be_bytes());
        header[4..12].copy_from_slice(&self.call.to_be_bytes());
        header[12] = self.kind;
        // One segment for what is small, no copy of what is large.
        if self.payload.len() <= READ_BYTES {
            let whole = [&header[..], &self.payload[..]].concat();
            to.write_all(&whole).await?;
        } else {
            to.write_all(&header).await?;
            to.write_all(&self.payload).await?;
        }
        // TLS keeps back what the socket did not take.
        to.flush().await
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub(crate) struct FrameReader {
    received: BytesMut,
    payload_max: usize,
}

impl Default for FrameReader {
    fn default() -> FrameReader {
        FrameReader::up_to(PEER_MESSAGE_MAX_BYTES)
    }
}

impl FrameReader {
    /// Takes no longer messages.
    pub(crate) fn up_to(payload_max: usize) -> FrameReader {
        FrameReader { received: BytesMut::new(), payload_max }
    }

    /// The next frame; `None` when the other side has closed between two frames.
    ///
    /// What is announced takes no memory before it comes. Cancel safe.
    pub(crate) async fn next(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(Some(frame));
            }
            self.received.reserve(READ_BYTES);
            if from.read_buf(&mut self.received).await? == 0 {
                return match self.received.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    fn take_frame(&mut self) -> io::Result<Option<Frame>> {
        let Some(length) = self.received.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if !(HEADER_BYTES..=HEADER_BYTES + self.payload_max).contains(&length) {
            return Err(too_long());
        }
        if self.received.len() < 4 + length {
            return Ok(None);
        }
        self.received.advance(4);
        let mut frame = self.received.split_to(length).freeze();
        let (call, kind) = (frame.get_u64(), frame.get_u8());
        Ok(Some(Frame { call, kind, payload: frame }))
    }
}

fn too_long() -> io::Error {
    let reason = "a message between nodes that is longer than may be, or shorter than its header";
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let mut bytes = Vec::new();
        let payloads = [vec![], vec![1], vec![2; READ_BYTES + 1], vec![3; 10]];
        for (call, payload) in (0..).zip(&payloads) {
            let frame = Frame::request(call, Kind::Quorum, payload.clone());
            frame.send(&mut bytes).await.expect("fits");
        }
        for piece_bytes in [1_000, 7, bytes.len()] {
            let (mut write, mut read) = tokio::io::duplex(piece_bytes);
            let bytes = bytes.clone();
            let writing = tokio::spawn(async move { write.write_all(&bytes).await });
            let mut frames = FrameReader::default();
            for (call, payload) in (0..).zip(&payloads) {
                let frame = frames.next(&mut read).await.expect("is whole").expect("there is one");
                assert_eq!((frame.call, Kind::of(frame.kind)), (call, Some(Kind::Quorum)));
                assert_eq!(frame.payload, payload);
            }
            writing.await.expect("no panic").expect("is read");
            assert!(frames.next(&mut read).await.expect("is closed").is_none());
        }
    }

    #[tokio::test]
    async fn what_is_announced_takes_no_memory_and_too_much_is_refused() {
        let mut frames = FrameReader::default();
        let announced = u32::try_from(PEER_MESSAGE_MAX_BYTES).expect("fits").to_be_bytes();
        let cut_off = frames.next(&mut &announced[..]).await;
        assert_eq!(cut_off.expect_err("is cut off").kind(), io::ErrorKind::UnexpectedEof);
        assert!(frames.received.capacity() <= 2 * READ_BYTES);
        for length in [u32::MAX, 8, 0] {
            let mut frames = FrameReader::default();
            let refused = frames.next(&mut &length.to_be_bytes()[..]).await;
            assert_eq!(refused.expect_err("no such frame").kind(), io::ErrorKind::InvalidData);
        }
    }
}
