//! openraft's view of the other nodes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, Snapshot, StorageIOError};
use tokio::time::Instant;

use super::message::{CHUNK_BYTES, Chunk, ChunkReply, Reply, Request};
use super::shared::{CallError, Shared, peer};
use super::snapshot_data::SnapshotData;
use super::{TypeConfig, Vote, any_error};
use crate::membership::Member;
use crate::peer::{Peer, PeerError};

/// A part of a snapshot is given up after this time: the receiver writes it to its disk.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(2);

/// The last part takes as long as the receiver needs to read and install all of them. One that needs longer
/// goes on, and says so when it is asked again. Meanwhile it gets no entries, so a message that was lost
/// must not be waited for much longer.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(5);

/// An append with entries gets a heartbeat more for so many bytes: 20 MiB a second.
const BYTES_PER_HEARTBEAT: usize = 1 << 20;

/// Makes openraft's connections to other nodes.
pub(super) struct Peers(pub(super) Arc<Shared>);

impl RaftNetworkFactory<TypeConfig> for Peers {
    type Network = PeerClient;

    async fn new_client(&mut self, target: u64, node: &Member) -> PeerClient {
        PeerClient { shared: self.0.clone(), target, peer: peer(target, node) }
    }
}

/// Asks one node for openraft.
pub(super) struct PeerClient {
    shared: Arc<Shared>,
    target: u64,
    /// `None` where the member has no address.
    peer: Option<Peer>,
}

type RpcError = RPCError<u64, Member, RaftError<u64>>;

impl PeerClient {
    fn peer(&self) -> Result<&Peer, CallError> {
        let no_address = || PeerError::Unreachable("it has no address".to_owned());
        self.peer.as_ref().ok_or_else(|| no_address().into())
    }

    async fn ask(
        &self,
        request: &Request,
        rest: &[u8],
        timeout: Duration,
    ) -> Result<Reply, CallError> {
        self.shared.call(self.peer()?, request, rest, timeout).await
    }

    /// How long to wait for a node that appends: it syncs its disk before it answers.
    fn append_timeout(&self, request: &AppendEntriesRequest<TypeConfig>) -> Duration {
        let heartbeat = self.shared.timings.heartbeat;
        if request.entries.is_empty() {
            return heartbeat * 2;
        }
        let bytes: usize = request.entries.iter().map(entry_bytes).sum();
        let more = u32::try_from(bytes / BYTES_PER_HEARTBEAT).unwrap_or(u32::MAX);
        heartbeat * 4 + heartbeat.saturating_mul(more)
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
    ) -> Result<SnapshotResponse<u64>, StreamingError<TypeConfig, Fatal<u64>>> {
        let Snapshot { meta, snapshot: data } = snapshot;
        let mut offset = 0;
        loop {
            if self.shared.is_silent(vote.leader_id.term) {
                return Err(StreamingError::Unreachable(no_majority()));
            }
            let bytes = read_chunk(&self.shared, &data, offset).await?;
            let next = offset + bytes.len() as u64;
            let chunk = Chunk { vote, meta: meta.clone(), offset, len: data.len };
            let is_last = next >= data.len;
            let timeout = if is_last { INSTALL_TIMEOUT } else { CHUNK_TIMEOUT };
            let sent_at = Instant::now();
            let reply = self.ask(&Request::Chunk(chunk), &bytes, timeout).await;
            match reply {
                Ok(Reply::Chunk(ChunkReply::Done(vote))) => return Ok(SnapshotResponse::new(vote)),
                Ok(Reply::Chunk(ChunkReply::Received(received)))
                    if received == next && !is_last =>
                {
                    let term = vote.leader_id.term;
                    self.shared.contacts.confirmed(self.target, term, sent_at);
                    offset = next;
                }
                Ok(other) => {
                    let reason = io::Error::other(format!("the snapshot is not taken: {other:?}"));
                    return Err(StreamingError::Unreachable(Unreachable::new(&reason)));
                }
                Err(error) => {
                    return Err(StreamingError::Unreachable(Unreachable::new(&error)));
                }
            }
        }
    }
}

/// The length of an entry as it will be sent, more or less: its records decide.
fn entry_bytes(entry: &super::Entry) -> usize {
    /// What a record takes as a rule.
    const RECORD_BYTES: usize = 256;
    match &entry.payload {
        openraft::EntryPayload::Normal(batch) => batch.records.len() * RECORD_BYTES,
        _ => 0,
    }
}

async fn read_chunk(
    shared: &Shared,
    data: &SnapshotData,
    offset: u64,
) -> Result<Vec<u8>, StreamingError<TypeConfig, Fatal<u64>>> {
    let data = data.clone();
    let read = shared.disk_work.try_run(move || {
        let mut bytes = vec![0; CHUNK_BYTES];
        let read = data.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    });
    read.await.map_err(|error| {
        StreamingError::StorageError(StorageIOError::read_snapshot(None, any_error(error)).into())
    })
}

impl RaftNetwork<TypeConfig> for PeerClient {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RpcError> {
        let term = request.vote.leader_id.term;
        let shared = &self.shared;
        // The first one of a term may come before the driver knows that this node leads.
        shared.contacts.leads(term, Instant::now());
        if shared.is_silent(term) && !shared.contacts.knows_later_term(self.target) {
            return Err(RPCError::Unreachable(no_majority()));
        }
        if let Some(committed) = request.leader_commit {
            shared.tell_committed(committed.index);
        }
        let (sent_at, timeout) = (Instant::now(), self.append_timeout(&request));
        match self.ask(&Request::Append(request), &[], timeout).await {
            Ok(Reply::Append(response)) => {
                match response {
                    AppendEntriesResponse::HigherVote(_) => shared.contacts.is_ahead(self.target),
                    _ => shared.contacts.confirmed(self.target, term, sent_at),
                }
                Ok(response)
            }
            other => Err(rpc_error(other)),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RpcError> {
        let transfer = self.shared.is_wanted_by_leader(request.vote.leader_id.term);
        let request = Request::Vote { request, transfer };
        match self.ask(&request, &[], option.hard_ttl()).await {
            Ok(Reply::Vote(response)) => Ok(response),
            other => Err(rpc_error(other)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<TypeConfig, Fatal<u64>>> {
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = self.send_snapshot(vote, snapshot) => {
                if sent.is_err() {
                    // openraft sends it again at once.
                    tokio::time::sleep(self.shared.timings.lease).await;
                }
                sent
            }
        }
    }

    /// A node that cannot be reached is asked again with the next heartbeat.
    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(self.shared.timings.heartbeat))
    }
}

fn no_majority() -> Unreachable {
    Unreachable::new(&io::Error::other("this leader hears no majority and is silent"))
}

/// openraft tries again at once after an error of the network, and waits a while for a node that cannot be
/// reached.
fn rpc_error(reply: Result<Reply, CallError>) -> RpcError {
    match reply {
        Ok(reply) => {
            let reason = io::Error::other(format!("an answer to something else: {reply:?}"));
            RPCError::Unreachable(Unreachable::new(&reason))
        }
        // That took its time.
        Err(error @ CallError::Peer(PeerError::TimedOut)) => {
            RPCError::Network(NetworkError::new(&error))
        }
        Err(error) => RPCError::Unreachable(Unreachable::new(&error)),
    }
}
