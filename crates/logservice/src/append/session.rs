//! Who appends, over several streams and connections: an idempotent producer.

use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence};
use logway_node::Node;
use logway_node::access::Operation;
use logway_node::streams::anywhere::{Partition, ProducerPosition};
use logway_node::{Failure, access};

use crate::call::Call;
use crate::grpc::status::{Code, Status};
use crate::messages::log::{OpenAppend, SessionPosition};

/// Positions that a client may come back with.
const POSITIONS_MAX: usize = 1_000;

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
    pub(super) async fn open(
        call: &Call,
        open: &OpenAppend,
    ) -> Result<(Session, Vec<KnownPosition>), Status> {
        if open.session.is_empty() {
            if !open.positions.is_empty() {
                return Err(Status::invalid("a new session has no positions"));
            }
            check_may_append(call)?;
            let (id, epoch) = call.node().next_producer_id().await?;
            return Ok((Session { id, epoch, is_new: true }, Vec::new()));
        }
        let session = Session::of_token(open.session.clone())?;
        if open.positions.len() > POSITIONS_MAX {
            let message = format!("{POSITIONS_MAX} positions are the most");
            return Err(Status::new(Code::ResourceExhausted, "TOO_MANY_PARTITIONS", message));
        }
        let mut positions = Vec::with_capacity(open.positions.len());
        for position in &open.positions {
            let log = call.log(&position.log, Operation::Write)?;
            let partition = log.partition(position.partition)?;
            // To ask a partition costs as much as it has producers.
            if positions.iter().any(|known: &KnownPosition| known.partition == partition) {
                let (log, number) = (&position.log, position.partition);
                return Err(Status::invalid(format!(
                    "partition {number} of log '{log}' is named twice"
                )));
            }
            let about = |status: Status| {
                status.with("log", &position.log).with("partition", position.partition)
            };
            let acknowledged = position.records;
            let records = session.stored(call.node(), partition, acknowledged).await;
            let stored = records.map_err(|failure| about(failure.into()))?.ok_or_else(|| {
                let message = "the partition does not know the session any more";
                about(Status::new(Code::FailedPrecondition, "SESSION_FORGOTTEN", message))
                    .remedy("begin a new session; look yourself whether the last appends are there")
            })?;
            let told = SessionPosition { records: stored.records, ..position.clone() };
            positions.push(KnownPosition { partition, acknowledged, told });
        }
        Ok((session, positions))
    }

    /// What a partition has of the session, of which so many records are known. All of it is committed. `None` if the
    /// partition has forgotten the session.
    pub(super) async fn stored(
        &self,
        node: &Arc<Node>,
        partition: Partition,
        known: u64,
    ) -> Result<Option<Stored>, Failure> {
        let position = node.producer_anywhere(partition, self.id).await?;
        let position = position.filter(|position| position.epoch == self.epoch);
        Ok(match position {
            Some(position) => Some(Stored {
                records: records_at(position, known),
                end: position.last_offset.next(),
            }),
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

    /// What the client comes back with: the id and the epoch.
    pub(super) fn token(&self) -> Bytes {
        let mut token = BytesMut::with_capacity(10);
        token.put_i64(self.id.0);
        token.put_i16(self.epoch.0);
        token.freeze()
    }

    fn of_token(mut token: Bytes) -> Result<Session, Status> {
        let (id, epoch) = match (token.try_get_i64(), token.try_get_i16()) {
            (Ok(id @ 0..), Ok(epoch @ 0..)) if token.is_empty() => (id, epoch),
            _ => return Err(Status::invalid("'session' is none of this service")),
        };
        Ok(Session { id: ProducerId(id), epoch: ProducerEpoch(epoch), is_new: false })
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
            Err(Status::new(Code::PermissionDenied, "NOT_PERMITTED", message))
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

    #[test]
    fn a_token_comes_back_and_nothing_else_is_one() {
        let session = Session { id: ProducerId(77), epoch: ProducerEpoch(3), is_new: true };
        let back = Session::of_token(session.token()).expect("is one");
        assert_eq!(back.producer(), session.producer());
        assert!(!back.is_new);
        for wrong in [&b"x"[..], &[0; 9], &[0; 11], &[0xff; 10]] {
            assert!(Session::of_token(Bytes::copy_from_slice(wrong)).is_err());
        }
    }
}
