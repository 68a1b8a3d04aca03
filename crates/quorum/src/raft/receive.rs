//! What this node does with messages from others.

use logway_model::{BrokerId, DirectoryId};
use openraft::raft::{AppendEntriesRequest, VoteRequest, VoteResponse};
use openraft::{ServerState, Snapshot};
use tokio::time::Instant;

use super::message::{
    Chunk, ChunkReply, Header, Refusal, Reply, Request, decode_request, encode_reply,
};
use super::snapshot_data::{SNAPSHOT_MAX_BYTES, SnapshotData};
use super::snapshot_file::decode;
use super::{Consensus, LogId, SnapshotMeta, TypeConfig, Vote};
use crate::command_id::CommandId;
use crate::membership::MembersChange;
use crate::options::Mutation;
use crate::peer::Identity;
use crate::proposer::Forwarded;

/// No cluster has as many terms, and with less nothing overflows.
const TERM_MAX: u64 = 1 << 40;

/// No log has as many entries.
const INDEX_MAX: u64 = 1 << 52;

/// The snapshot that another node is sending.
pub(super) struct Receiving {
    vote: Vote,
    meta: SnapshotMeta,
    data: SnapshotData,
    /// So many bytes of it are there.
    received: u64,
}

/// What only the leader can answer, above consensus.
pub(crate) enum ForLeader {
    Command(Forwarded),
    Members(MembersChange),
    Describe,
}

/// A message, as far as it could be answered here.
pub(crate) enum Handled {
    Replied(Vec<u8>),
    ForLeader(ForLeader),
}

impl Consensus {
    /// Answers a message from another node, or says what the leader has to do for it.
    pub(crate) async fn handle(&self, bytes: &[u8]) -> Handled {
        let reply = match decode_request(bytes) {
            Err(reason) => Reply::Refused(Refusal::Malformed(reason)),
            // Who was removed may not know it: it was away, or its old leader was the last one it heard.
            Ok((header, ..)) if let Some(id) = self.removed(header.from.directory) => {
                Reply::Refused(Refusal::Removed { id })
            }
            Ok((header, request, _)) if !self.is_for_this_node(header, &request) => {
                Reply::Refused(Refusal::NotThisNode)
            }
            Ok((header, request, rest)) => match check(header, &request, self.shared.own_id) {
                Err(reason) => Reply::Refused(Refusal::Malformed(reason.to_owned())),
                Ok(()) => match self.answer(request, rest).await {
                    Ok(reply) => reply,
                    Err(for_leader) => return Handled::ForLeader(for_leader),
                },
            },
        };
        Handled::Replied(encode_reply(&reply))
    }

    /// The number of the node that had a directory, if it was removed as far as this node knows.
    pub(super) fn removed(&self, directory: DirectoryId) -> Option<BrokerId> {
        let image = self.published.image();
        image.removed_brokers().by_directory(directory).map(|removed| removed.id)
    }

    /// Whether a request is for this node with this directory. One that joins knows an address only.
    fn is_for_this_node(&self, header: Header, request: &Request) -> bool {
        let is_for_any = header.to.id == Identity::NO_ID && matches!(request, Request::Members(_));
        is_for_any || self.shared.is_own(header.to)
    }

    async fn answer(&self, request: Request, rest: &[u8]) -> Result<Reply, ForLeader> {
        Ok(match request {
            Request::Append(request) => self.append(request).await,
            Request::Vote { request, transfer } => self.vote(request, transfer).await,
            Request::PreVote { last_log_id } => self.pre_vote(last_log_id),
            Request::Heartbeat { vote, has_majority } => {
                if has_majority {
                    self.note_leader(&vote);
                }
                Reply::Heartbeat { vote: self.known_vote() }
            }
            Request::Chunk(chunk) => self.chunk(chunk, rest).await,
            Request::TakeOver { vote } => Reply::TakeOver(self.take_over(vote).await),
            Request::Command { id, since, command } => {
                return Err(ForLeader::Command(Forwarded { id, since, command }));
            }
            Request::Members(change) => return Err(ForLeader::Members(change)),
            Request::Describe => return Err(ForLeader::Describe),
            Request::CommittedIndex => {
                let index = self.own_committed_index();
                Reply::CommittedIndex(index.map_err(|error| self.refusal(error)))
            }
        })
    }

    async fn append(&self, request: AppendEntriesRequest<TypeConfig>) -> Reply {
        self.note_leader(&request.vote);
        match self.raft.append_entries(request).await {
            Ok(response) => Reply::Append(response),
            Err(error) => Reply::Refused(Refusal::Stopped(error.to_string())),
        }
    }

    /// Votes, unless a leader is heard. openraft has a lease of its own; this one begins when a message
    /// arrives and not when openraft's task comes to it.
    async fn vote(&self, request: VoteRequest<u64>, transfer: bool) -> Reply {
        if !transfer && self.hears_leader() {
            let last_log_id = self.raft.data_metrics().borrow().last_log;
            return Reply::Vote(VoteResponse::new(self.known_vote(), last_log_id, false));
        }
        if request.last_log_id >= self.raft.data_metrics().borrow().last_log {
            // Who is about to lead gets the time to say so before anybody else stands.
            self.shared.contacts.leader_spoke(Instant::now());
        }
        match self.raft.vote(request).await {
            Ok(response) => Reply::Vote(response),
            Err(error) => Reply::Refused(Refusal::Stopped(error.to_string())),
        }
    }

    /// Whether this node would vote for one with such a log. Terms are not compared: see [`super`].
    fn pre_vote(&self, last_log_id: Option<LogId>) -> Reply {
        let own_last = self.raft.data_metrics().borrow().last_log;
        Reply::PreVote { granted: last_log_id >= own_last && !self.hears_leader() }
    }

    /// Whether there is a leader for this node, itself perhaps.
    fn hears_leader(&self) -> bool {
        if self.shared.mutation == Some(Mutation::VotesWithinTheLease) {
            return false;
        }
        let (now, lease) = (Instant::now(), self.shared.timings.lease);
        if self.shared.contacts.is_within_lease(now, lease) {
            return true;
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let term = metrics.current_term;
        // One that was just elected has not been heard by anybody yet.
        metrics.state == ServerState::Leader
            && !self.shared.is_transferring()
            && self.shared.majority_or_election_at(term).is_none_or(|at| at >= now - lease)
    }

    /// A leader has spoken. One of an earlier term is none.
    pub(super) fn note_leader(&self, vote: &Vote) {
        if vote.is_committed() && *vote >= self.known_vote() {
            self.shared.contacts.leader_spoke(Instant::now());
        }
    }

    fn known_vote(&self) -> Vote {
        self.raft.metrics().borrow().vote
    }

    /// Stands for election in the place of a leader that stops.
    async fn take_over(&self, vote: Vote) -> bool {
        let is_voter = self.shared.members().is_voter(self.shared.own_id);
        if vote != self.known_vote() || !is_voter {
            return false;
        }
        self.shared.set_resigned(vote.leader_id.term);
        self.shared.contacts.leader_resigned();
        self.raft.trigger().elect().await.is_ok()
    }

    async fn chunk(&self, chunk: Chunk, bytes: &[u8]) -> Reply {
        let known = self.known_vote();
        if chunk.vote < known {
            return Reply::Chunk(ChunkReply::Done(known));
        }
        self.note_leader(&chunk.vote);
        let mut receiving = self.shared.receiving.lock().await;
        // It may have been installed while this part was on its way or waited.
        let applied = self.raft.metrics().borrow().last_applied;
        if chunk.meta.last_log_id <= applied {
            return Reply::Chunk(ChunkReply::Done(chunk.vote));
        }
        match self.receive(&mut receiving, chunk, bytes).await {
            Ok(reply) => Reply::Chunk(reply),
            Err(reason) => {
                tracing::warn!(reason, "a snapshot from another node is not taken");
                *receiving = None;
                Reply::Chunk(ChunkReply::OutOfOrder)
            }
        }
    }

    /// Takes a part of a snapshot, and installs it with the last one. The error is why it is begun again.
    async fn receive(
        &self,
        receiving: &mut Option<Receiving>,
        chunk: Chunk,
        bytes: &[u8],
    ) -> Result<ChunkReply, String> {
        let Chunk { vote, meta, offset, len } = chunk;
        let end = offset.saturating_add(bytes.len() as u64);
        if bytes.is_empty() || end > len || len > SNAPSHOT_MAX_BYTES {
            return Err(format!("bytes {offset} to {end} of {len}"));
        }
        if offset == 0 {
            let data = self.raft.begin_receiving_snapshot().await;
            let data = *data.map_err(|error| error.to_string())?;
            *receiving = Some(Receiving { vote, meta: meta.clone(), data, received: 0 });
        }
        let Some(current) = receiving else { return Ok(ChunkReply::OutOfOrder) };
        if (current.vote, &current.meta) != (vote, &meta) {
            return Ok(ChunkReply::OutOfOrder);
        }
        if current.received == end && end < len {
            // It came twice.
            return Ok(ChunkReply::Received(end));
        }
        if current.received != offset {
            return Ok(ChunkReply::OutOfOrder);
        }
        let (data, part) = (current.data.clone(), bytes.to_vec());
        let written = self.shared.disk_work.try_run(move || data.write_at(&part, offset)).await;
        written.map_err(|error| error.to_string())?;
        current.received = end;
        if end < len {
            return Ok(ChunkReply::Received(end));
        }
        let Some(Receiving { data, .. }) = receiving.take() else {
            return Ok(ChunkReply::OutOfOrder);
        };
        self.install(vote, meta, data).await
    }

    /// Installs a snapshot that has come whole. openraft would stop if it could not be read, so it is
    /// read before.
    async fn install(
        &self,
        vote: Vote,
        meta: SnapshotMeta,
        data: SnapshotData,
    ) -> Result<ChunkReply, String> {
        let (to_check, wanted) = (data.clone(), meta.clone());
        let checked = self.shared.disk_work.run(move || match decode(&to_check) {
            Ok(content) if content.meta == wanted => Ok(()),
            Ok(_) => Err("it is not the one that was announced".to_owned()),
            Err(reason) => Err(reason),
        });
        checked.await.map_err(|error| error.to_string())??;
        let snapshot = Snapshot { meta, snapshot: Box::new(data) };
        let installed = self.raft.install_full_snapshot(vote, snapshot).await;
        let response = installed.map_err(|error| error.to_string())?;
        Ok(ChunkReply::Done(response.vote))
    }
}

/// Whether a message can have come from openraft on another node: with anything else openraft may panic.
fn check(header: Header, request: &Request, own_id: u64) -> Result<(), &'static str> {
    match request {
        Request::Append(request) => {
            check_leader(header, &request.vote, own_id)?;
            let mut previous = request.prev_log_id;
            for entry in &request.entries {
                let id = entry.log_id;
                let follows = previous.map_or(0, |previous| previous.index + 1);
                if id.index != follows || previous.is_some_and(|previous| id <= previous) {
                    return Err("its entries are not in order");
                }
                previous = Some(id);
                check_log_id(previous)?;
            }
            check_log_id(request.leader_commit)?;
            check_log_id(request.prev_log_id)
        }
        Request::Vote { request, .. } => {
            if request.vote.committed {
                return Err("a candidate that leads");
            }
            check_sender(header, &request.vote, own_id)?;
            check_log_id(request.last_log_id)
        }
        Request::PreVote { last_log_id } => check_log_id(*last_log_id),
        Request::Heartbeat { vote, .. } | Request::TakeOver { vote } => {
            check_leader(header, vote, own_id)
        }
        Request::Chunk(chunk) => {
            check_leader(header, &chunk.vote, own_id)?;
            check_log_id(chunk.meta.last_log_id)?;
            match chunk.meta.last_log_id.is_some() {
                true => Ok(()),
                false => Err("a snapshot of nothing"),
            }
        }
        Request::Command { id: CommandId { .. }, .. }
        | Request::Members(_)
        | Request::CommittedIndex
        | Request::Describe => Ok(()),
    }
}

fn check_leader(header: Header, vote: &Vote, own_id: u64) -> Result<(), &'static str> {
    match vote.committed {
        true => check_sender(header, vote, own_id),
        false => Err("a leader that was not elected"),
    }
}

fn check_sender(header: Header, vote: &Vote, own_id: u64) -> Result<(), &'static str> {
    let id = vote.leader_id.node_id;
    let is_sender = i64::from(header.from.id) == i64::try_from(id).unwrap_or(i64::MAX);
    match is_sender && id != own_id && vote.leader_id.term < TERM_MAX {
        true => Ok(()),
        false => Err("a vote that is not the sender's"),
    }
}

fn check_log_id(log_id: Option<LogId>) -> Result<(), &'static str> {
    match log_id {
        Some(id) if id.index >= INDEX_MAX || id.leader_id.term >= TERM_MAX => {
            Err("a log that cannot be this long")
        }
        _ => Ok(()),
    }
}
