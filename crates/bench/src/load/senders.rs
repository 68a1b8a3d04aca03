//! Who sends what a produce load asks for: a thread of this process, or processes of their own.

use std::sync::Arc;

use anyhow::Context;
use logway_model::TopicName;

use super::preload::append;
use super::topic::RunTopic;
use super::{ProduceLoad, Run};
use crate::generator::{Acks, EncodedBatch, Lane, Observed, ProduceShape};
use crate::senders::Fleet;
use crate::side::Side;

/// Connected, and ready to begin.
pub(super) enum Senders {
    Here(Vec<Lane>),
    Processes(Fleet),
}

impl Senders {
    /// Of a topic and a version of Produce.
    pub(super) async fn ready(
        load: &ProduceLoad,
        side: &Side,
        (topic, version): (&RunTopic, i16),
        run: &Run,
    ) -> anyhow::Result<Senders> {
        if load.processes == 1 {
            return Ok(Senders::Here(load.lanes(&side.address, &topic.name, version, None)?));
        }
        let (load, stop) = (load.clone(), Arc::clone(&run.stop));
        let (address, topic) = (side.address.clone(), topic.name.clone());
        let start = move || Fleet::start(&load, (&address, &topic, version), &stop);
        let started = tokio::task::spawn_blocking(start).await;
        Ok(Senders::Processes(started.context("the senders cannot be started")??))
    }

    /// Sends until the run is over, and the broker has it all.
    pub(super) async fn send(
        self,
        load: &ProduceLoad,
        side: &Side,
        (topic, version): (&RunTopic, i16),
        run: &Run,
    ) -> anyhow::Result<Observed> {
        match self {
            Senders::Here(lanes) => {
                let drain = load.drain(&topic.name, version)?;
                run.drive(side, load.rate, |_| Ok(lanes), drain).await
            }
            Senders::Processes(fleet) => {
                let (run, broker_pid) = (run.clone(), side.pid);
                let send = move || fleet.send(&run, broker_pid);
                tokio::task::spawn_blocking(send).await.context("the senders failed")?
            }
        }
    }
}

impl ProduceLoad {
    /// What is to be done when all is sent: what gets no answers is awaited.
    pub(crate) fn drain(
        &self,
        topic: &TopicName,
        version: i16,
    ) -> anyhow::Result<impl FnOnce(Vec<Lane>, &mut Observed) -> anyhow::Result<()> + Send + 'static>
    {
        let acknowledged =
            ProduceShape { topic: topic.clone(), partition: 0, acks: Acks::All, version };
        let is_unanswered = self.acks == Acks::None;
        let batch = self.batches()?.swap_remove(0);
        Ok(move |lanes: Vec<Lane>, observed: &mut Observed| {
            if is_unanswered {
                await_arrival(lanes, &acknowledged, &batch, observed)?;
                observed.arrived();
            }
            Ok(())
        })
    }
}

/// Returns when the broker has what was sent without acknowledgements: it takes the requests of a
/// connection in their order, so the acknowledgement of one more says so.
///
/// Where the generator gave up before all was sent, a request may be half written, and none can
/// follow it. Then nothing is waited for.
fn await_arrival(
    lanes: Vec<Lane>,
    acknowledged: &ProduceShape,
    batch: &EncodedBatch,
    observed: &Observed,
) -> anyhow::Result<()> {
    if observed.unanswered > 0 {
        return Ok(());
    }
    lanes
        .into_iter()
        .try_for_each(|mut lane| append(&mut lane.stream, acknowledged, batch, 1, None))
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
        await_arrival(vec![lane], &shape, &batch, &observed).expect("nobody is asked");
    }
}
