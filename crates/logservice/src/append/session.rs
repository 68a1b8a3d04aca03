//! Who appends, over several streams and connections: an idempotent producer.
//!
//! Ids of producers are counted, so an id by itself says nothing of who shows it. What a client comes back with is sealed:
//!
//! | bytes | the token |
//! |---|---|
//! | 1 | version 1 |
//! | 8 | the producer id, big-endian |
//! | 2 | the epoch |
//! | 16 | the [seal](logway_security::seal) of these, and of the principal's text behind them |
//!
//! The key is the cluster's: each node knows the token, also after restarts.

use std::sync::Arc;

use bytes::Bytes;
use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence};
use logway_node::Node;
use logway_node::access::Operation;
use logway_node::streams::anywhere::{Partition, ProducerPosition};
use logway_node::{Failure, access};
use logway_security::seal::{SEAL_BYTES, Sealer};

use crate::call::Call;
use crate::grpc::status::{Code, Status};
use crate::messages::log::{OpenAppend, SessionPosition};

/// Positions that a client may come back with.
const POSITIONS_MAX: usize = 1_000;

/// Records that a session may have in a partition: as many as there are offsets.
const POSITION_RECORDS_MAX: u64 = i64::MAX.unsigned_abs();

/// The first byte of a token.
const TOKEN_VERSION: u8 = 1;

/// What is in a token, without its seal.
const CONTENT_BYTES: usize = 1 + 8 + 2;

/// What tokens are sealed for.
const SEAL_PURPOSE: &str = "log service session";

/// Sequences go from 0 to `i32::MAX`, and then from 0 again.
const SEQUENCES: u64 = 1 << 31;

/// Who appends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session {
    id: ProducerId,
    epoch: ProducerEpoch,
    /// Nothing was appended before.
    pub(super) is_new: bool,
}

/// A session that was opened.
pub(super) struct OpenedSession {
    pub(super) session: Session,
    /// What its client comes back with.
    pub(super) token: Bytes,
    pub(super) positions: Vec<KnownPosition>,
}

/// How far a session has come in a partition.
pub(super) struct KnownPosition {
    pub(super) partition: Partition,
    /// As the client says.
    pub(super) acknowledged: u64,
    /// As the log has it.
    pub(super) told: SessionPosition,
}

/// What a partition has of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    /// So many records.
    pub(super) records: u64,
    /// The offset behind the last one.
    pub(super) end: Offset,
}

impl Session {
    /// A new one, or one that goes on.
    pub(super) async fn open(call: &Call, open: &OpenAppend) -> Result<OpenedSession, Status> {
        check_may_append(call)?;
        let tokens = Tokens {
            sealer: call.node().sealer(SEAL_PURPOSE).await?,
            principal: call.known.principal.to_string(),
        };
        if open.session.is_empty() {
            if !open.positions.is_empty() {
                return Err(Status::invalid("a new session has no positions")
                    .remedy("leave out the positions, or say which session goes on"));
            }
            let (id, epoch) = call.node().next_producer_id().await?;
            let session = Session { id, epoch, is_new: true };
            return Ok(OpenedSession { session, token: tokens.seal(&session), positions: vec![] });
        }
        let session = tokens.open(&open.session)?;
        let positions = session.positions(call, open).await?;
        Ok(OpenedSession { session, token: open.session.clone(), positions })
    }

    /// How far the session has come where its client says that it has appended.
    async fn positions(
        &self,
        call: &Call,
        open: &OpenAppend,
    ) -> Result<Vec<KnownPosition>, Status> {
        if open.positions.len() > POSITIONS_MAX {
            let message = format!("{POSITIONS_MAX} positions are the most");
            return Err(Status::new(Code::ResourceExhausted, "TOO_MANY_PARTITIONS", message)
                .remedy("append to fewer partitions with one session"));
        }
        let mut positions = Vec::with_capacity(open.positions.len());
        for position in &open.positions {
            let log = call.log(&position.log, Operation::Write)?;
            let partition = log.partition(position.partition)?;
            let (log, number) = (&position.log, position.partition);
            let about = |status: Status| status.with("log", log).with("partition", number);
            let acknowledged = position.records;
            // To ask a partition costs as much as it has producers.
            if positions.iter().any(|known: &KnownPosition| known.partition == partition) {
                let message = format!("partition {number} of log '{log}' is named twice");
                return Err(about(Status::invalid(message)).remedy("tell of each partition once"));
            }
            if acknowledged > POSITION_RECORDS_MAX {
                let message = format!(
                    "{acknowledged} records are more than a partition can have ({POSITION_RECORDS_MAX})"
                );
                return Err(about(Status::invalid(message))
                    .remedy("tell 'session_records' of the last 'appended'"));
            }
            let records = self.stored(call.node(), partition, acknowledged).await;
            let stored = records.map_err(|failure| about(failure.into()))?.ok_or_else(|| {
                let message = "the partition does not know the session any more";
                about(Status::new(Code::FailedPrecondition, "SESSION_FORGOTTEN", message))
                    .remedy("begin a new session; look yourself whether the last appends are there")
            })?;
            let told = SessionPosition { records: stored.records, ..position.clone() };
            positions.push(KnownPosition { partition, acknowledged, told });
        }
        Ok(positions)
    }

    /// What a partition has of the session, of which so many records are known. All of it is committed. `None` if the
    /// partition has forgotten the session, or never knew it so far.
    pub(super) async fn stored(
        &self,
        node: &Arc<Node>,
        partition: Partition,
        known: u64,
    ) -> Result<Option<Stored>, Failure> {
        let position = node.producer_anywhere(partition, self.id).await?;
        let position = position.filter(|position| position.epoch == self.epoch);
        Ok(match position {
            Some(position) => {
                let end = position.last_offset.next();
                let records = records_at(position, known);
                // Each record has an offset: where there are not so many, the number that is known is wrong.
                Some(Stored { records, end }).filter(|_| records <= end.0.unsigned_abs())
            }
            None if known == 0 => Some(Stored { records: 0, end: Offset::ZERO }),
            None => None,
        })
    }

    /// The sequence of the record behind so many.
    pub(super) fn sequence_behind(records: u64) -> Sequence {
        Sequence(i32::try_from(records % SEQUENCES).expect("it is below 2^31"))
    }

    pub(super) fn producer(&self) -> (ProducerId, ProducerEpoch) {
        (self.id, self.epoch)
    }
}

/// Makes and opens what a client comes back with.
struct Tokens {
    sealer: Sealer,
    /// Whose they are.
    principal: String,
}

impl Tokens {
    fn seal(&self, session: &Session) -> Bytes {
        let mut token = vec![TOKEN_VERSION];
        token.extend_from_slice(&session.id.0.to_be_bytes());
        token.extend_from_slice(&session.epoch.0.to_be_bytes());
        let seal = self.sealer.seal(&self.sealed(&token));
        token.extend_from_slice(&seal);
        token.into()
    }

    fn open(&self, token: &[u8]) -> Result<Session, Status> {
        let refused = || {
            let Tokens { principal, .. } = self;
            let message = format!("'session' is none that this cluster has opened for {principal}");
            Status::new(Code::InvalidArgument, "INVALID_SESSION", message).remedy(
                "send what 'opened' has told to the same user, or nothing for a new session",
            )
        };
        let (content, seal) = token
            .split_last_chunk::<SEAL_BYTES>()
            .filter(|(content, _)| content.len() == CONTENT_BYTES)
            .ok_or_else(refused)?;
        if !self.sealer.is_seal(seal, &self.sealed(content)) {
            return Err(refused());
        }
        let (version, rest) = content.split_first().ok_or_else(refused)?;
        let (id, epoch) = rest.split_first_chunk().ok_or_else(refused)?;
        let epoch = epoch.try_into().map_err(|_| refused())?;
        match *version {
            TOKEN_VERSION => Ok(Session {
                id: ProducerId(i64::from_be_bytes(*id)),
                epoch: ProducerEpoch(i16::from_be_bytes(epoch)),
                is_new: false,
            }),
            _ => Err(refused()),
        }
    }

    /// The content is of one size, so that it and the principal do not run together.
    fn sealed(&self, content: &[u8]) -> Vec<u8> {
        [content, self.principal.as_bytes()].concat()
    }
}

/// Who may write to no log gets no session: ids are not for everybody.
fn check_may_append(call: &Call) -> Result<(), Status> {
    let requester = access::Requester { principal: &call.known.principal, host: call.host };
    let memory = &call.known.access_memory;
    let resource = access::Resource::SomeTopic;
    match call.node().allows(&requester, Operation::Write, resource, memory) {
        true => Ok(()),
        false => {
            let message = format!("{} may not write to any log", requester.principal);
            Err(Status::new(Code::PermissionDenied, "NOT_PERMITTED", message)
                .remedy("have an ACL made that allows it"))
        }
    }
}

/// The sequence tells the number modulo 2^31. It is the one that is nearest to what is known: less only if the end of the
/// log was lost.
fn records_at(position: ProducerPosition, known: u64) -> u64 {
    let records = u64::from(position.last_sequence.0.unsigned_abs()) + 1;
    let ahead = (records + SEQUENCES - known % SEQUENCES) % SEQUENCES;
    match ahead < SEQUENCES / 2 {
        true => known + ahead,
        false => known.saturating_sub(SEQUENCES - ahead),
    }
}

#[cfg(test)]
mod tests {
    use logway_model::Uuid;

    use super::*;

    #[test]
    fn a_sequence_tells_how_many_records_there_are_also_when_it_has_wrapped() {
        let at = |sequence, known| {
            let last_sequence = Sequence(sequence);
            let (epoch, last_offset) = (ProducerEpoch(0), Offset(0));
            records_at(ProducerPosition { epoch, last_sequence, last_offset }, known)
        };
        assert_eq!(at(0, 0), 1);
        assert_eq!(at(9, 10), 10);
        assert_eq!(at(12, 10), 13);
        assert_eq!(at(7, 10), 8, "the end was lost");
        assert_eq!(at(i32::MAX, 5), 5_u64.saturating_sub(5), "far behind is nothing");
        let wrapped = (1 << 31) + 4;
        assert_eq!(at(5, SEQUENCES - 1), SEQUENCES + 6);
        assert_eq!(at(3, wrapped), wrapped);
        assert_eq!(Session::sequence_behind(SEQUENCES), Sequence(0));
        assert_eq!(Session::sequence_behind(SEQUENCES - 1), Sequence(i32::MAX));
    }

    fn tokens(key: u8, principal: &str) -> Tokens {
        let sealer = Sealer::new([Uuid([key; 16]); 2], SEAL_PURPOSE);
        Tokens { sealer, principal: principal.to_owned() }
    }

    #[test]
    fn a_token_comes_back_from_its_owner_alone() {
        let session = Session { id: ProducerId(77), epoch: ProducerEpoch(3), is_new: true };
        let ann = tokens(1, "User:ann");
        let token = ann.seal(&session);
        let back = ann.open(&token).expect("is one");
        assert_eq!(back.producer(), session.producer());
        assert!(!back.is_new);
        for other in [tokens(1, "User:ben"), tokens(1, "User:an"), tokens(2, "User:ann")] {
            let refused = other.open(&token).expect_err("is another's");
            assert_eq!(refused.reason, "INVALID_SESSION");
            assert!(refused.details.iter().any(|(name, _)| *name == "remedy"));
        }
    }

    #[test]
    fn no_other_bytes_are_a_token() {
        let session = Session { id: ProducerId(77), epoch: ProducerEpoch(3), is_new: true };
        let ann = tokens(1, "User:ann");
        let token = ann.seal(&session);
        for bit in 0..token.len() * 8 {
            let mut altered = token.to_vec();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(ann.open(&altered).is_err(), "{bit}");
        }
        for length in 0..token.len() {
            assert!(ann.open(&token[..length]).is_err(), "{length}");
        }
        for wrong in [&b"x"[..], &[0; 10], &[0; 27], &[&token[..], b"n"].concat()] {
            assert!(ann.open(wrong).is_err());
        }
    }
}
