//! Append: a stream of appends in, acknowledgements out.
//!
//! Each append is for one partition, and the appends of a partition form a [`lane`]. A lane has one batch under way at a time:
//! while the disk works, what comes meanwhile becomes the next batch. A session is an idempotent producer, whose sequence in a
//! partition is how many records it has appended there. So a batch whose outcome is unknown is looked for by that.
//!
//! | file | idea |
//! |---|---|
//! | [`request`] | appends as they come, decoded piece by piece |
//! | [`session`] | who appends, over several connections |
//! | [`lane`] | the appends of one partition, batch by batch |

mod lane;
mod request;
mod session;

use std::collections::{HashMap, VecDeque};
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use logway_client::murmur2;
use logway_metadata::quota::QuotaKey;
use logway_node::access::Operation;
use logway_node::streams::anywhere::{Partition, Until};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::call::{Call, FoundLog};
use crate::grpc::inbound::{FIRST_MESSAGE_MAX, Inbound, Received, decoded, known_value};
use crate::grpc::outbound::{Reply, framed};
use crate::grpc::status::{Code, Status};
use crate::messages::log::append_reply::Reply as AppendReplyKind;
use crate::messages::log::{
    Acknowledgement, AppendFailed, AppendOpened, AppendReply, Appended, OpenAppend,
};
use crate::metrics::Open;
use lane::{Done, Lane, Pending, Round};
use request::{AppendMessage, Destination, NewRecords, Request};
use session::{OpenedSession, Session};

/// Bytes of appends that may be without a reply. One append that is larger is taken alone.
const CREDIT_BYTES: usize = 8 << 20;

/// The same for their number.
const CREDIT_APPENDS: usize = 1_024;

/// Partitions that one stream may append to.
const LANES_MAX: usize = 10_000;

/// Serves a stream of appends.
pub(crate) async fn append(
    call: Arc<Call>,
    mut inbound: Inbound<Incoming>,
    replies: mpsc::Sender<Reply>,
) -> Result<(), Status> {
    let _open = Open::of(&call.service.metrics.appends_open);
    let first = timeout(FIRST_MESSAGE_MAX, inbound.next()).await;
    let first = first.unwrap_or_else(|_| Err(Status::late()))?;
    let Some(Received { bytes, share }) = first else { return Ok(()) };
    let Request::Open(open) = Request::decode(bytes)? else {
        return Err(Status::invalid("a stream of appends begins with 'open'")
            .remedy("send 'open' first, and then the appends"));
    };
    let open: OpenAppend = decoded(open)?;
    // An append may need all of the memory that this is a part of.
    drop(share);
    let until = match known_value("open.acknowledgement", open.acknowledgement)? {
        Acknowledgement::Flushed => Until::Flushed,
        Acknowledgement::Committed | Acknowledgement::Unspecified => Until::Committed,
    };
    let OpenedSession { session, token, positions } = Session::open(&call, &open).await?;
    let opened = AppendOpened {
        session: token,
        positions: positions.iter().map(|known| known.told.clone()).collect(),
        credit_bytes: CREDIT_BYTES as u64,
        credit_appends: CREDIT_APPENDS as u32,
    };
    let permit = call.room(&replies).await?;
    let opened = AppendReply { reply: Some(AppendReplyKind::Opened(opened)) };
    permit.send(call.reply(framed(&opened)).await);
    let mut appending = AppendStream {
        session,
        until,
        lanes: HashMap::new(),
        rounds: JoinSet::new(),
        acknowledgements: VecDeque::new(),
        owed: Owed::default(),
        last_sequence: None,
        call,
    };
    for known in positions {
        let lane = Lane::going_on(known.acknowledged, Some(known.told.records));
        appending.lanes.insert(known.partition, lane);
    }
    appending.run(inbound, replies).await
}

/// What is without a reply.
#[derive(Debug, Default)]
struct Owed {
    appends: usize,
    bytes: usize,
}

impl Owed {
    fn has_credit(&self) -> bool {
        self.appends == 0 || self.appends < CREDIT_APPENDS && self.bytes < CREDIT_BYTES
    }
}

/// A reply that waits for the client, with what its append had.
struct Owing {
    reply: Reply,
    size_bytes: usize,
}

type Reading =
    Pin<Box<dyn Future<Output = (Inbound<Incoming>, Result<Option<Received>, Status>)> + Send>>;

fn read_next(call: &Arc<Call>, mut inbound: Inbound<Incoming>) -> Reading {
    let call = Arc::clone(call);
    Box::pin(async move {
        call.await_quota(QuotaKey::ProducerByteRate).await;
        let next = inbound.next().await;
        (inbound, next)
    })
}

/// A stream of appends under way.
struct AppendStream {
    call: Arc<Call>,
    session: Session,
    until: Until,
    lanes: HashMap<Partition, Lane>,
    /// A round of each lane that has one.
    rounds: JoinSet<(Partition, Round)>,
    acknowledgements: VecDeque<Owing>,
    owed: Owed,
    last_sequence: Option<u64>,
}

impl AppendStream {
    async fn run(
        mut self,
        inbound: Inbound<Incoming>,
        replies: mpsc::Sender<Reply>,
    ) -> Result<(), Status> {
        let (mut idle, mut reading) = (Some(inbound), None::<Reading>);
        loop {
            if self.owed.has_credit()
                && let Some(inbound) = idle.take()
            {
                reading = Some(read_next(&self.call, inbound));
            }
            let has_ended = idle.is_none() && reading.is_none();
            if has_ended && self.owed.appends == 0 {
                return Ok(());
            }
            let read = async {
                match &mut reading {
                    Some(reading) => reading.as_mut().await,
                    None => pending().await,
                }
            };
            let room = async {
                match self.acknowledgements.is_empty() {
                    true => pending().await,
                    false => replies.reserve().await,
                }
            };
            tokio::select! {
                permit = room => {
                    let Ok(permit) = permit else { return Ok(()) };
                    if let Some(Owing { reply, size_bytes }) = self.acknowledgements.pop_front() {
                        self.owed.appends -= 1;
                        self.owed.bytes -= size_bytes;
                        permit.send(reply);
                    }
                }
                Some(round) = self.rounds.join_next() => {
                    // A round that panics has said so.
                    let ended = |_| Status::new(Code::Internal, "INTERNAL", "see the broker's log");
                    let (partition, round) = round.map_err(ended)?;
                    self.settle(partition, round)?;
                }
                (inbound, next) = read => {
                    reading = None;
                    if let Some(received) = next? {
                        self.take(received)?;
                        idle = Some(inbound);
                    }
                }
            }
        }
    }

    /// Takes an append into its lane.
    fn take(&mut self, received: Received) -> Result<(), Status> {
        let Received { bytes, share } = received;
        let size_bytes = bytes.len();
        self.call.charge(QuotaKey::ProducerByteRate, size_bytes);
        let Request::Append(append) = Request::decode(bytes)? else {
            return Err(Status::invalid("a stream is opened once")
                .remedy("open another stream for another session"));
        };
        let AppendMessage { sequence, log, destination, records, count } = append;
        let is_next = self.last_sequence.is_none_or(|last| last.checked_add(1) == Some(sequence));
        if sequence == 0 || !is_next {
            let message = match self.last_sequence {
                None => format!("sequence {sequence} is none: they begin with 1"),
                Some(last) => format!("sequence {sequence} does not follow {last}"),
            };
            return Err(Status::invalid(message)
                .with("sequence", sequence)
                .with("log", log)
                .remedy("give each append the sequence of the one before, plus one"));
        }
        self.last_sequence = Some(sequence);
        let about = |status: Status| status.with("sequence", sequence);
        let found = self.call.log(&log, Operation::Write).map_err(about)?;
        let number = number_of(&found, sequence, &destination, &records).map_err(about)?;
        let partition = found.partition(number).map_err(about)?;
        let session_is_new = self.session.is_new;
        if !self.lanes.contains_key(&partition) && self.lanes.len() >= LANES_MAX {
            let message = format!("a stream appends to {LANES_MAX} partitions at most");
            return Err(Status::new(Code::ResourceExhausted, "TOO_MANY_PARTITIONS", message)
                .with("log", log)
                .remedy("append to the other partitions on other streams"));
        }
        let lane = self.lanes.entry(partition).or_insert_with(|| match session_is_new {
            true => Lane::new(),
            // It may have appended there without hearing of it.
            false => Lane::going_on(0, None),
        });
        self.owed.appends += 1;
        self.owed.bytes += size_bytes;
        lane.push(Pending { sequence, number, records, count, size_bytes, _share: share });
        self.begin_round(partition);
        Ok(())
    }

    fn begin_round(&mut self, partition: Partition) {
        let Some(lane) = self.lanes.get_mut(&partition) else { return };
        if let Some(round) = lane.begin_round() {
            let (node, session) = (Arc::clone(self.call.node()), self.session);
            let until = self.until;
            self.rounds.spawn(async move {
                (partition, round.run(&node, partition, session, until).await)
            });
        }
    }

    /// Notes what became of a round, and begins the next one.
    fn settle(&mut self, partition: Partition, round: Round) -> Result<(), Status> {
        let Some(lane) = self.lanes.get_mut(&partition) else { return Ok(()) };
        let done = lane.settle(round).map_err(|status| about(&self.call, partition, status))?;
        let acknowledgement = match self.until {
            Until::Flushed => Acknowledgement::Flushed,
            Until::Committed => Acknowledgement::Committed,
        };
        for Done { pending, outcome } in done {
            let kind = match outcome {
                Ok(placed) => {
                    if placed.is_duplicate {
                        self.call.service.metrics.duplicates.inc();
                    }
                    AppendReplyKind::Appended(Appended {
                        sequence: pending.sequence,
                        partition: pending.number,
                        first_offset: placed.first_offset.map_or(-1, |offset| offset.0),
                        session_records: placed.session_records,
                        acknowledgement: acknowledgement.into(),
                        is_duplicate: placed.is_duplicate,
                    })
                }
                Err(status) => AppendReplyKind::Failed(AppendFailed {
                    sequence: pending.sequence,
                    reason: status.reason.to_owned(),
                    message: status.message,
                }),
            };
            let size_bytes = pending.size_bytes;
            let reply = self.call.unread.reply(framed(&AppendReply { reply: Some(kind) }));
            self.acknowledgements.push_back(Owing { reply, size_bytes });
        }
        self.begin_round(partition);
        Ok(())
    }
}

/// Names the partition that an error is about.
fn about(call: &Call, partition: Partition, status: Status) -> Status {
    let image = call.node().image();
    let name = image.topic_by_id(partition.topic).map(|topic| topic.name.as_str());
    status.with("log", name.unwrap_or_default()).with("partition", partition.number)
}

/// Where an append goes. It is the same each time that it is sent, while the log keeps its partitions.
fn number_of(
    log: &FoundLog,
    sequence: u64,
    destination: &Destination,
    records: &NewRecords,
) -> Result<u32, Status> {
    let count = u32::try_from(log.topic.partition_count()).unwrap_or(0).max(1);
    let of_key = |key: &[u8]| (murmur2(key) & 0x7fff_ffff) % count;
    Ok(match destination {
        Destination::Partition(number) => *number,
        Destination::ByKey(key) => of_key(key),
        Destination::Unsaid => match records.first_key()? {
            Some(key) => of_key(&key),
            None => u32::try_from(sequence % u64::from(count)).unwrap_or(0),
        },
    })
}
