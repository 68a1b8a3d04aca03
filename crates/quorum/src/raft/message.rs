//! What nodes of a quorum say to each other, as bytes.
//!
//! A request, numbers big-endian:
//!
//! | bytes | content                                                                       |
//! |-------|-------------------------------------------------------------------------------|
//! | 1     | 1, the version of this layout                                                 |
//! | 4     | the sender's number, -1 while it has none                                     |
//! | 16    | its data directory                                                            |
//! | 4     | the number of the node that it is for, -1 for whichever listens there         |
//! | 16    | its data directory                                                            |
//! | 4     | the length of the text                                                        |
//! | …     | the text: a [`Request`] as JSON                                               |
//! | …     | the rest: a part of a snapshot after `chunk`, otherwise nothing               |
//!
//! A reply is a [`Reply`] as JSON.
//!
//! JSON as in the log and the snapshot, whose records the messages carry. What is decoded is never larger
//! than a small multiple of the bytes that came, whose number the carrier bounds
//! ([`PEER_MESSAGE_MAX_BYTES`]), and whatever they are, the worst is an error.
//!
//! A request names the directory that it is for, because a number alone does not tell a node from the
//! same node with an empty disk. That one has forgotten its votes, so it must not answer in the
//! other's name (openraft's guide, "ensure connection to the correct node").

use logway_metadata::ControllerError;
use logway_metadata::controller::{ControllerCommand, ControllerReply};
use logway_model::{BrokerId, DirectoryId, Uuid};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use serde::{Deserialize, Serialize};

use super::{LogId, SnapshotMeta, TypeConfig, Vote};
use crate::command_id::CommandId;
use crate::membership::{AdmissionRefusal, MembersChange};
use crate::peer::{Identity, Lane, PEER_MESSAGE_MAX_BYTES};
use crate::status::QuorumDescription;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 45;

/// Parts of a snapshot are so long.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// What one node asks of another.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// The leader has entries, or nothing but its commit index.
    Append(AppendEntriesRequest<TypeConfig>),
    /// A candidate wants a vote.
    Vote {
        request: VoteRequest<u64>,
        /// The leader wants it so: nobody waits for that leader's lease.
        #[serde(default)]
        transfer: bool,
    },
    /// Would you vote for a node with this log? Changes nothing.
    PreVote { last_log_id: Option<LogId> },
    /// A leader is alive.
    Heartbeat {
        vote: Vote,
        /// Whether it hears a majority. A leader without one does not keep others from electing.
        has_majority: bool,
    },
    /// A part of a snapshot; its bytes are the rest of the message.
    Chunk(Chunk),
    /// The leader stops: take its place.
    TakeOver { vote: Vote },
    /// A command for the leader.
    Command {
        id: CommandId,
        /// What the asking node had applied before it sent this for the first time.
        since: u64,
        command: ControllerCommand,
    },
    /// A change of the members, for the leader.
    Members(MembersChange),
    /// Up to where is everything committed?
    CommittedIndex,
    /// How is the quorum?
    Describe,
}

/// Where a part of a snapshot belongs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Chunk {
    pub(super) vote: Vote,
    pub(super) meta: SnapshotMeta,
    /// The position of its first byte.
    pub(super) offset: u64,
    /// How long the whole snapshot is.
    pub(super) len: u64,
}

/// What the other one answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Append(AppendEntriesResponse<u64>),
    Vote(VoteResponse<u64>),
    PreVote {
        granted: bool,
    },
    /// What the node has voted for.
    Heartbeat {
        vote: Vote,
    },
    Chunk(ChunkReply),
    /// Whether it stands for election.
    TakeOver(bool),
    Command(Result<CommandDone, Refusal>),
    Members(Result<MembersDone, Refusal>),
    CommittedIndex(Result<u64, Refusal>),
    Described(Result<QuorumDescription, Refusal>),
    /// The request was not for this node, or it cannot be served.
    Refused(Refusal),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChunkReply {
    /// It is there; so many bytes are now.
    Received(u64),
    /// It does not follow what is there: begin again.
    OutOfOrder,
    /// All is there and installed, or no longer wanted: this is what the node votes for.
    Done(Vote),
}

/// A command is committed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CommandDone {
    pub(super) reply: ControllerReply,
    pub(super) index: u64,
}

/// A change of the members is committed, or was not needed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct MembersDone {
    /// The node that it is about.
    pub(super) id: BrokerId,
    /// The entry of the log that has it.
    pub(super) index: u64,
}

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Refusal {
    /// It is for another node, or another directory of this one.
    NotThisNode,
    /// The sender was removed from the cluster.
    Removed { id: BrokerId },
    /// It cannot be read.
    Malformed(String),
    /// This node does not lead. Nothing was done.
    NotLeader { leader: Option<LeaderAddress> },
    /// The leader hears no majority. Nothing was done.
    NoMajority,
    /// It may have been done or not.
    Unknown,
    /// It was overtaken by another leader's commits. Nothing was done, and it can be sent again.
    Overtaken,
    /// The id may have been forgotten.
    TooOld,
    /// The controller refuses the command.
    Controller(ControllerError),
    /// The leader refuses the node.
    Admission(AdmissionRefusal),
    /// The leader's disk is full. Nothing was done.
    DiskFull { free_bytes: u64 },
    /// The leader's disk became full meanwhile: it may be done later.
    WaitsForSpace,
    /// The node has stopped.
    Stopped(String),
}

/// Who leads, and where it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaderAddress {
    pub(super) id: BrokerId,
    pub(super) address: String,
}

/// From whom and for whom a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) from: Identity,
    pub(super) to: Identity,
}

impl Request {
    /// The connection on which it goes.
    pub(super) fn lane(&self) -> Lane {
        match self {
            Request::Append(append) if !append.entries.is_empty() => Lane::Append,
            Request::Chunk(_) | Request::Command { .. } | Request::Members(_) => Lane::Bulk,
            _ => Lane::Control,
        }
    }
}

/// The bytes of a request.
pub(super) fn encode_request(header: Header, request: &Request, rest: &[u8]) -> Vec<u8> {
    let text = to_json(request);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + text.len() + rest.len());
    bytes.push(VERSION);
    for identity in [header.from, header.to] {
        bytes.extend(identity.id.to_be_bytes());
        bytes.extend(identity.directory.0.0);
    }
    let len = u32::try_from(text.len()).expect("no commit is this long");
    bytes.extend(len.to_be_bytes());
    bytes.extend(text);
    bytes.extend(rest);
    bytes
}

/// A request and the bytes after it, or what is wrong with it.
pub(super) fn decode_request(bytes: &[u8]) -> Result<(Header, Request, &[u8]), String> {
    if bytes.len() > PEER_MESSAGE_MAX_BYTES {
        return Err(format!("it has {} bytes", bytes.len()));
    }
    let (header, after) = bytes.split_at_checked(HEADER_BYTES).ok_or("it is cut off")?;
    if header[0] != VERSION {
        return Err(format!("its version {} is not one that this node reads", header[0]));
    }
    let identity = |at: usize| {
        let id = i32::from_be_bytes(array(header, at));
        Identity { id, directory: DirectoryId(Uuid(array(header, at + 4))) }
    };
    let len = u32::from_be_bytes(array(header, 41)) as usize;
    let (text, rest) = after.split_at_checked(len).ok_or("it is cut off")?;
    let request: Request = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if !rest.is_empty() && !matches!(request, Request::Chunk(_)) {
        return Err(format!("{} bytes follow it", rest.len()));
    }
    Ok((Header { from: identity(1), to: identity(21) }, request, rest))
}

/// The bytes of a reply.
pub(super) fn encode_reply(reply: &Reply) -> Vec<u8> {
    to_json(reply)
}

/// A reply, or what is wrong with it.
pub(super) fn decode_reply(bytes: &[u8]) -> Result<Reply, String> {
    if bytes.len() > PEER_MESSAGE_MAX_BYTES {
        return Err(format!("it has {} bytes", bytes.len()));
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts, numbers and lists can be written as JSON")
}

/// Some bytes of a header, which is long enough.
fn array<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    header[at..at + N].try_into().expect("the header is longer")
}

#[cfg(test)]
mod tests {
    use openraft::CommittedLeaderId;

    use super::*;

    fn header() -> Header {
        let identity = |id: i32| Identity { id, directory: DirectoryId(Uuid([id as u8; 16])) };
        Header { from: identity(1), to: identity(2) }
    }

    fn log_id(index: u64) -> LogId {
        LogId::new(CommittedLeaderId::new(3, 1), index)
    }

    fn chunk() -> Request {
        let meta = SnapshotMeta {
            last_log_id: Some(log_id(9)),
            last_membership: super::super::StoredMembership::default(),
            snapshot_id: "9".to_owned(),
        };
        Request::Chunk(Chunk { vote: Vote::new_committed(3, 1), meta, offset: 5, len: 9 })
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let request = Request::PreVote { last_log_id: Some(log_id(7)) };
        let bytes = encode_request(header(), &request, &[]);
        assert_eq!(&bytes[..5], [1, 0, 0, 0, 1]);
        assert_eq!(
            String::from_utf8_lossy(&bytes[HEADER_BYTES..]),
            r#"{"pre_vote":{"last_log_id":{"leader_id":{"term":3,"node_id":1},"index":7}}}"#
        );
        let (read, request, rest) = decode_request(&bytes).expect("is one");
        assert_eq!((read, rest), (header(), &[][..]));
        assert!(
            matches!(request, Request::PreVote { last_log_id } if last_log_id == Some(log_id(7)))
        );

        let bytes = encode_request(header(), &chunk(), b"abc");
        let (_, request, rest) = decode_request(&bytes).expect("is one");
        assert!(matches!(request, Request::Chunk(Chunk { offset: 5, .. })));
        assert_eq!(rest, b"abc");
    }

    #[test]
    fn bytes_of_any_kind_are_an_error_at_worst() {
        let whole = encode_request(header(), &chunk(), b"abc");
        for len in 0..whole.len() - 3 {
            decode_request(&whole[..len]).expect_err("is cut off");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                _ = decode_request(&flipped);
                _ = decode_reply(&flipped);
            }
        }
        let mut long = encode_request(header(), &Request::CommittedIndex, b"abc");
        decode_request(&long).expect_err("nothing follows it");
        long[41] = 0xff;
        assert_eq!(decode_request(&long).expect_err("is not there"), "it is cut off");
        let deep = [b'['; 100_000];
        decode_reply(&deep).expect_err("is too deep");
    }
}
