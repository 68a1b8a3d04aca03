//! One sink with its channel: a take, a send, a commit.

use std::sync::Arc;
use std::time::Duration;

use crate::channel::{Channel, More, Taken};
use crate::counters::SinkCounters;
use crate::error::{ChannelError, Partly, SinkError};
use crate::event::Event;
use crate::sink::{Gathering, Sink};
use crate::stop::Stop;

/// A sink that runs.
pub(crate) struct SinkRunner {
    pub(crate) name: String,
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) batch_max: usize,
    pub(crate) counters: Arc<SinkCounters>,
    /// It is in no group with others.
    pub(crate) is_alone: bool,
    pub(crate) dead_letters: Option<Arc<Channel>>,
    /// A batch that is not sent yet: it is to grow, or the next hop did not take it.
    pub(crate) gathered: Gathered,
}

/// What a sink that gathers has taken.
#[derive(Debug, Default)]
pub(crate) enum Gathered {
    #[default]
    Nothing,
    /// It may get more.
    Growing(Taken),
    /// It was sent in vain, and is sent again as it is: so objects have the same names.
    Unsent(Taken),
}

/// What became of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Events are at the next hop.
    Sent,
    /// There were none.
    Idle,
}

/// Headers of an event in a dead-letter channel.
const REASON: &str = "deadletter.reason";
const ORIGIN: &str = "deadletter.sink";

impl SinkRunner {
    /// Sends one batch, waiting for its first event as long as `patience`. After an error all of it is in the channel
    /// again, but for what went to the dead letters. After `stop` nothing is waited for.
    pub(crate) async fn process(
        &mut self,
        patience: Duration,
        stop: &Stop,
    ) -> Result<Progress, SinkError> {
        let next = tokio::select! {
            next = self.next_batch(patience) => next?,
            () = stop.wait() => None,
        };
        let Some(mut taken) = next else { return Ok(Progress::Idle) };
        let batches = match taken.events.len() >= self.batch_max {
            true => &self.counters.batches_complete,
            false => &self.counters.batches_underflow,
        };
        batches.add(1);
        self.counters.drain_attempts.add(taken.events.len());
        while !taken.events.is_empty() {
            match self.sink.send(&taken).await {
                Ok(()) => break,
                Err(error) => {
                    if let Err(error) = self.set_aside(&mut taken, error).await {
                        // In a group another sink gets what goes back into the channel.
                        if self.is_alone && self.sink.gathering().is_some() {
                            self.gathered = Gathered::Unsent(taken);
                        }
                        return Err(error);
                    }
                }
            }
        }
        self.counters.drain_successes.add(taken.events.len());
        if let Err(error) = taken.commit().await {
            self.counters.channel_failures.add(1);
            tracing::warn!(sink = self.name, %error, "what was sent is not committed, and may be sent again");
        }
        Ok(Progress::Sent)
    }

    /// What is to be sent, if there is something, and if it has not to wait for more.
    async fn next_batch(&mut self, patience: Duration) -> Result<Option<Taken>, SinkError> {
        let taken = match std::mem::take(&mut self.gathered) {
            Gathered::Unsent(taken) if taken.is_current() => return Ok(Some(taken)),
            Gathered::Growing(taken) => taken,
            Gathered::Unsent(_) | Gathered::Nothing => {
                let bound = self.sink.gathering().map_or(usize::MAX, |own| own.events_max);
                let taken = self.channel.take(self.batch_max.min(bound), patience).await;
                taken.map_err(|error| self.not_taken(error))?
            }
        };
        if taken.events.is_empty() {
            self.counters.batches_empty.add(1);
            return Ok(None);
        }
        match self.sink.gathering() {
            Some(gathering) => self.grow(taken, gathering, patience).await,
            None => Ok(Some(taken)),
        }
    }

    /// Takes more into a batch. If it is not at its end when no more comes, it is left for the next turn.
    async fn grow(
        &mut self,
        mut taken: Taken,
        gathering: Gathering,
        patience: Duration,
    ) -> Result<Option<Taken>, SinkError> {
        while !gathering.is_ripe(&taken) && !self.channel.is_draining() {
            let patience = patience.min(gathering.interval.saturating_sub(taken.age()));
            // No more than to its end, so that it ends at the same event when it is taken again.
            let max = self.batch_max.min(gathering.events_max - taken.events.len());
            let more = self.channel.take_more(&mut taken, max, patience).await;
            match more.map_err(|error| self.not_taken(error))? {
                More::Events(0) if gathering.is_ripe(&taken) || self.channel.is_draining() => {}
                More::Events(0) => {
                    self.gathered = Gathered::Growing(taken);
                    return Ok(None);
                }
                More::Events(_) => {}
                More::Never => break,
            }
        }
        Ok(Some(taken))
    }

    fn not_taken(&self, error: ChannelError) -> SinkError {
        self.counters.channel_failures.add(1);
        self.failed(SinkError::later(error))
    }

    /// Takes the events out of the batch that an error says are done with. What is left can be sent at once, or it is
    /// an error.
    async fn set_aside(&mut self, taken: &mut Taken, error: SinkError) -> Result<(), SinkError> {
        match error {
            SinkError::Later(_) => Err(self.failed(error)),
            SinkError::Unwanted { index, reason } => {
                self.refuse(taken, index, &reason, false).await
            }
            SinkError::Partly(partly) => self.divide(taken, partly).await,
        }
    }

    /// From the last one to the first, so that places stay what they were.
    async fn divide(&mut self, taken: &mut Taken, partly: Partly) -> Result<(), SinkError> {
        let Partly { arrived, refused, later } = partly;
        let arrived = arrived.into_iter().map(|index| (index, None));
        let refused = refused.into_iter().map(|(index, reason)| (index, Some(reason)));
        let mut done: Vec<(usize, Option<String>)> = arrived.chain(refused).collect();
        done.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        let mut stuck = None;
        for (index, reason) in done {
            match reason {
                None => {
                    taken.commit_one(index);
                    self.counters.drain_successes.add(1);
                }
                Some(reason) => {
                    if let Err(error) = self.refuse(taken, index, &reason, true).await {
                        stuck = Some(error);
                    }
                }
            }
        }
        match (stuck, later) {
            (Some(error), _) => Err(error),
            (None, Some(reason)) => Err(self.failed(SinkError::Later(reason))),
            (None, None) => Ok(()),
        }
    }

    /// Takes an event out of the batch that will never pass, if there is a place for it, or if it is not to be kept.
    async fn refuse(
        &mut self,
        taken: &mut Taken,
        index: usize,
        reason: &str,
        is_kept: bool,
    ) -> Result<(), SinkError> {
        match self.dead_letters.clone() {
            Some(channel) => {
                let event = dead_letter(&taken.events[index], &self.name, reason);
                let reserved = channel.reserve(std::slice::from_ref(&event)).await;
                let reserved = reserved.map_err(|why| self.failed(SinkError::later(why)))?;
                reserved
                    .put(vec![event])
                    .await
                    .map_err(|why| self.failed(SinkError::later(why)))?;
                self.counters.dead_lettered.add(1);
                tracing::warn!(
                    sink = self.name,
                    reason,
                    channel = channel.name,
                    "an event goes to the dead letters"
                );
            }
            None if is_kept => return Err(self.failed(SinkError::later(reason))),
            None => {
                self.counters.dropped.add(1);
                tracing::error!(
                    sink = self.name,
                    reason,
                    "an event is dropped: the sink has no dead-letter channel"
                );
            }
        }
        taken.commit_one(index);
        Ok(())
    }

    fn failed(&self, error: SinkError) -> SinkError {
        self.counters.failures.add(1);
        tracing::warn!(sink = self.name, %error, "a batch was not sent; it will be sent again");
        error
    }
}

fn dead_letter(event: &Event, sink: &str, reason: &str) -> Event {
    let mut event = event.clone();
    event.headers.set(REASON, reason);
    event.headers.set(ORIGIN, sink);
    event
}
