//! Producing to, and consuming from, a peer that does not speak Kafka's protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use logway_client::BrokerAddress;

use super::{FetchLoad, ProduceLoad, Reading, Run};
use crate::generator::{
    Acks, BatchShape, Lane, Observed, Pace, Payload, PeerTraffic, Tape, filler,
};
use crate::measure::Durability;
use crate::peer::{Conversation, Peer, Queue, Subscription};
use crate::side::Side;

/// Tells the queues of one process apart.
static QUEUES: AtomicU32 = AtomicU32::new(0);

/// Publications on their way while a queue is filled.
const FILL_IN_FLIGHT: u64 = 500;

/// Bytes of publications that are written at once.
const FILL_BYTES: usize = 64 << 10;

/// Why a peer cannot be given a producer's load.
pub(super) fn produce_refusal(load: &ProduceLoad, peer: &dyn Peer) -> Option<&'static str> {
    let has_batches = load.batch != BatchShape::Records(1);
    if load.values.is_some()
        || load.streamed.is_some()
        || load.spreads
        || has_batches && load.acks != Acks::None
    {
        return Some("has no batches of records");
    }
    peer.refusal(load.acks, load.durability)
}

/// Why a peer cannot be given a consumer's load.
pub(super) fn consume_refusal(load: &FetchLoad) -> Option<&'static str> {
    let is_like_it = matches!(load.batch, BatchShape::Records(_))
        && load.reading == Reading::Repeated
        && load.partitions == 1;
    (!is_like_it).then_some("has no answers of a given size: `paper` has its consumer")
}

/// Each record is a message of its own, and each partition a queue. A batch, which only goes to
/// those who wait for nothing, is that many messages in one write.
pub(super) async fn produce(
    load: &ProduceLoad,
    peer: &'static dyn Peer,
    side: &mut Side,
    run: &Run,
) -> anyhow::Result<Observed> {
    side.promise(load.durability).await?;
    let BatchShape::Records(records) = load.batch else {
        bail!("a peer has no batches by their bytes");
    };
    let queues = (0..load.partitions).map(|_| queue(load.durability)).collect();
    let setting = Setting::on(side, peer, queues, load.acks);
    let connections = load.connections;
    let (setting, conversations) = tokio::task::spawn_blocking(move || {
        let conversations = setting.open(connections)?;
        anyhow::Ok((setting, conversations))
    })
    .await
    .context("the generator failed")??;

    let body = filler(load.record_bytes);
    let payload = Payload { records: records as u64, value_bytes: (records * body.len()) as u64 };
    let is_answered = load.acks != Acks::None;
    let mut lanes = Vec::new();
    for (number, conversation) in conversations.into_iter().enumerate() {
        let publication =
            peer.publication(&conversation, setting.queue_of(number), &body, load.acks);
        let tape = Tape::repeating(&publication.repeat(records), load.in_flight).without_ids();
        let acknowledgements = peer.acknowledgements();
        let traffic = PeerTraffic::producer(acknowledgements, payload, load.pace(), is_answered);
        let stream = conversation.into_stream()?;
        lanes.push(Lane::new(stream, load.pace(), tape, Box::new(traffic)));
    }
    let after = move |lanes: Vec<Lane>, _: &AtomicBool, observed: &mut Observed| {
        setting.close(lanes, observed)
    };
    let run = run.of_new_topic(load.partitions, load.acks);
    run.drive_from(Instant::now(), side, load.rate, |_| Ok(lanes), after).await
}

/// A queue is filled, and then read until it is empty or the time is over.
pub(super) async fn consume(
    load: &FetchLoad,
    peer: &'static dyn Peer,
    side: &mut Side,
    run: &Run,
) -> anyhow::Result<Observed> {
    let durability = Durability::Unsynced;
    side.promise(durability).await?;
    let body_bytes = load.record_bytes;
    let messages = (run.preloaded_bytes / body_bytes as u64).min(load.batches_max).max(1);
    let acks = match peer.refusal(Acks::None, durability) {
        None => Acks::None,
        Some(_) => Acks::All,
    };
    let queues = vec![queue(durability)];
    let setting = Setting::on(side, peer, queues, acks);
    let stop = Arc::clone(&run.stop);
    let (setting, subscription, conversation) = tokio::task::spawn_blocking(move || {
        setting.fill(&filler(body_bytes), messages, &stop)?;
        let mut conversation = peer.connect(&setting.address)?;
        let subscription = peer.subscribe(&mut conversation, setting.queue_of(0))?;
        anyhow::Ok((setting, subscription, conversation))
    })
    .await
    .context("the writer failed")??;

    let Subscription { request, listener } = subscription;
    let frames = Vec::from_iter(request);
    let traffic = PeerTraffic::consumer(listener, body_bytes as u64, messages);
    let (pace, tape) = (Pace::Closed(frames.len()), Tape::of(&frames).without_ids());
    let lane = Lane::new(conversation.into_stream()?, pace, tape, Box::new(traffic));
    // What is read is gone, so there is nothing to warm up with.
    let run = run.lasting(Duration::ZERO, run.measured);
    let after = move |lanes: Vec<Lane>, _: &AtomicBool, _: &mut Observed| {
        // What was sent ahead goes back to the queue.
        drop(lanes);
        setting.delete()
    };
    run.drive_from(Instant::now(), side, None, |_| Ok(vec![lane]), after).await
}

fn queue(durability: Durability) -> Queue {
    let number = QUEUES.fetch_add(1, Ordering::Relaxed);
    Queue { name: format!("bench-{}-{number}", std::process::id()), durability }
}

/// Where a run's messages go, and what is waited for.
struct Setting {
    peer: &'static dyn Peer,
    address: BrokerAddress,
    queues: Vec<Queue>,
    acks: Acks,
}

impl Setting {
    fn on(side: &Side, peer: &'static dyn Peer, queues: Vec<Queue>, acks: Acks) -> Setting {
        Setting { peer, address: side.address.clone(), queues, acks }
    }

    fn queue_of(&self, connection: usize) -> &Queue {
        &self.queues[connection % self.queues.len()]
    }

    /// Makes the queues, and connections that can publish.
    fn open(&self, connections: usize) -> anyhow::Result<Vec<Conversation>> {
        let mut opened = Vec::new();
        for _ in 0..connections {
            let mut conversation = self.peer.connect(&self.address)?;
            if opened.is_empty() {
                for queue in &self.queues {
                    self.peer.create(&mut conversation, queue)?;
                }
            }
            self.peer.begin_publishing(&mut conversation, self.acks)?;
            opened.push(conversation);
        }
        Ok(opened)
    }

    /// Where nothing was acknowledged, waits until all has arrived; removes the queues.
    fn close(&self, lanes: Vec<Lane>, observed: &mut Observed) -> anyhow::Result<()> {
        if self.acks == Acks::None {
            self.await_arrival(lanes, observed)?;
            observed.arrived();
        }
        self.delete()
    }

    /// Waits until all has arrived; but where the generator gave up, a message may be half written,
    /// and no question can follow it.
    fn await_arrival(&self, lanes: Vec<Lane>, observed: &Observed) -> anyhow::Result<()> {
        if observed.unanswered > 0 {
            return Ok(());
        }
        let framing = self.peer.acknowledgements().framing();
        for (number, lane) in lanes.into_iter().enumerate() {
            let mut conversation = Conversation::of(lane.stream, framing)?;
            self.peer.await_arrival(&mut conversation, self.queue_of(number))?;
        }
        Ok(())
    }

    /// Publishes a number of messages to the first queue.
    fn fill(&self, body: &[u8], messages: u64, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut conversations = self.open(1)?;
        let conversation = conversations.first_mut().context("a run without connections")?;
        let publication = self.peer.publication(conversation, self.queue_of(0), body, self.acks);
        let at_once = (FILL_BYTES / publication.len()).max(1) as u64;
        let mut listener = self.peer.acknowledgements();
        let (mut sent, mut acknowledged) = (0, 0);
        while sent < messages {
            ensure!(!stop.load(Ordering::Relaxed), "the run was called off");
            let count = at_once.min(messages - sent);
            conversation.send(&publication.repeat(count as usize))?;
            sent += count;
            while self.acks != Acks::None && sent - acknowledged > FILL_IN_FLIGHT {
                acknowledged += listener.hear(&conversation.next()?)?.answered;
            }
        }
        while self.acks != Acks::None && acknowledged < messages {
            acknowledged += listener.hear(&conversation.next()?)?.answered;
        }
        self.peer.await_arrival(conversation, self.queue_of(0))
    }

    fn delete(&self) -> anyhow::Result<()> {
        let mut conversation = self.peer.connect(&self.address)?;
        self.queues.iter().try_for_each(|queue| self.peer.delete(&mut conversation, queue))
    }
}
