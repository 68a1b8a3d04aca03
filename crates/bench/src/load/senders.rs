//! Who sends what a produce load asks for: a thread of this process, or processes of their own.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use logway_model::TopicName;

use super::preload::append;
use super::produce::{DIFFERENT_BATCHES, Route};
use super::topic::RunTopic;
use super::{Leaders, ProduceLoad, Run};
use crate::generator::{Acks, EncodedBatch, Lane, Observed, ProduceShape};
use crate::senders::Fleet;
use crate::side::Side;

/// What is done when all is sent.
type Drain = Box<dyn FnOnce(Vec<Lane>, &AtomicBool, &mut Observed) -> anyhow::Result<()> + Send>;

/// Connected, and ready to begin.
pub(super) enum Senders {
    Here { lanes: Vec<Lane>, drain: Drain },
    Processes(Fleet),
}

impl Senders {
    /// Of a topic and a version of Produce.
    pub(super) async fn ready(
        load: &ProduceLoad,
        (topic, version): (&RunTopic, i16),
        run: &Run,
    ) -> anyhow::Result<Senders> {
        if load.processes == 1 {
            let to = (&topic.leaders, &topic.name, version);
            let lanes = load.bounded(load.lanes(0, to, None)?, run)?;
            return Ok(Senders::Here { lanes, drain: load.drain(0, to)? });
        }
        let (load, stop) = (load.clone(), Arc::clone(&run.stop));
        let (leaders, topic) = (topic.leaders.clone(), topic.name.clone());
        let start = move || Fleet::start(&load, (&leaders, &topic, version), &stop);
        let started = tokio::task::spawn_blocking(start).await;
        Ok(Senders::Processes(started.context("the senders cannot be started")??))
    }

    /// Sends from `start` on until the run is over, and the broker has it all.
    pub(super) async fn send(
        self,
        rate: Option<f64>,
        side: &Side,
        run: &Run,
        start: Instant,
    ) -> anyhow::Result<Observed> {
        match self {
            Senders::Here { lanes, drain } => {
                run.drive_from(start, side, rate, |_| Ok(lanes), drain).await
            }
            Senders::Processes(fleet) => {
                let (run, broker_pids) = (run.clone(), side.pids.clone());
                let send = move || fleet.send(&run, start, broker_pids);
                tokio::task::spawn_blocking(send).await.context("the senders failed")?
            }
        }
    }
}

impl ProduceLoad {
    /// The lanes, which end before their time when they have sent what the run may send. Those of a timetable send what
    /// it says.
    fn bounded(&self, lanes: Vec<Lane>, run: &Run) -> anyhow::Result<Vec<Lane>> {
        if self.rate.is_some() {
            return Ok(lanes);
        }
        let batch = EncodedBatch::average(&self.first_batches(DIFFERENT_BATCHES)?);
        let requests_max = run.requests_max(batch.bytes, lanes.len());
        Ok(lanes.into_iter().map(|lane| lane.with_requests_max(requests_max)).collect())
    }

    /// What is to be done with the [lanes](ProduceLoad::lanes) of a process when all is sent: what gets no answers
    /// is awaited.
    pub(crate) fn drain(
        &self,
        process: usize,
        (leaders, topic, version): (&Leaders, &TopicName, i16),
    ) -> anyhow::Result<Drain> {
        if self.acks != Acks::None {
            return Ok(Box::new(|_, _, _| Ok(())));
        }
        let acknowledged = |route: Route| {
            let (topic, partition) = (topic.clone(), route.partitions[0]);
            ProduceShape { topic, partition, acks: Acks::All, version }
        };
        let acknowledged: Vec<ProduceShape> =
            self.routes(process, leaders).into_iter().map(acknowledged).collect();
        let batch = self.first_batches(1)?.swap_remove(0);
        Ok(Box::new(move |lanes, stop, observed| {
            await_arrival(lanes, (&acknowledged, &batch), stop, observed)?;
            observed.arrived();
            Ok(())
        }))
    }
}

/// Returns when the broker has what was sent without acknowledgements: it takes the requests of a
/// connection in their order, so the acknowledgement of one more says so.
///
/// Where the generator gave up before all was sent, a request may be half written, and none can
/// follow it. Then nothing is waited for.
fn await_arrival(
    lanes: Vec<Lane>,
    (acknowledged, batch): (&[ProduceShape], &EncodedBatch),
    stop: &AtomicBool,
    observed: &Observed,
) -> anyhow::Result<()> {
    if observed.unanswered > 0 {
        return Ok(());
    }
    lanes
        .into_iter()
        .zip(acknowledged)
        .try_for_each(|(mut lane, shape)| append(&mut lane.stream, shape, batch, 1, stop))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;
    use crate::generator::{BatchShape, Pace, ProduceTraffic, Tape, VERSION_MAX, Window};

    #[test]
    fn nothing_follows_a_request_that_was_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("it listens");
        let stream = TcpStream::connect(address).expect("it accepts");
        // A question to a broker that is gone would fail.
        drop(listener.accept().expect("a connection"));

        let batch = EncodedBatch::of_size(BatchShape::Records(1), 10).expect("a batch");
        let topic = TopicName::new("t").expect("a name");
        let shape = ProduceShape { topic, partition: 0, acks: Acks::All, version: VERSION_MAX };
        let traffic = ProduceTraffic::new(batch.payload(), Acks::None, VERSION_MAX, Pace::Open);
        let tape = Tape::repeating(&[0; 100], 1);
        let lane = Lane::new(stream, Pace::Open, tape, Box::new(traffic));
        let mut observed =
            Observed::new(Window::starting_now(Duration::ZERO, Duration::from_secs(1)));
        observed.unanswered = 1;
        await_arrival(vec![lane], (&[shape], &batch), &AtomicBool::new(false), &observed)
            .expect("nobody is asked");
    }
}
