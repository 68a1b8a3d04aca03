//! From a source into its channels: interceptors, the selector, and one transaction on each channel.
//!
//! Interceptors see an event once. A put that is tried again puts what they have made of it.

mod optional;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logway_log::random_uuid;

use self::optional::{Beside, Untold};
use crate::channel::{Channel, Reservation};
use crate::counters::SourceCounters;
use crate::error::ChannelError;
use crate::event::Event;
use crate::interceptor::Interceptor;
use crate::selector::Selector;
use crate::stop::Stop;

/// How long to wait after a refusal.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// And after many.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// How long a put may take at the end, whose events are read again after the next start. Less than a part has to end.
const PUT_PATIENCE: Duration = Duration::from_secs(5);

/// What a source hands its events to. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Delivery(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    source: String,
    channels: Vec<Arc<Channel>>,
    selector: Selector,
    interceptors: Vec<Interceptor>,
    counters: Arc<SourceCounters>,
    /// Headers in which channels want an id, which has to stay the same when a batch is put again.
    id_headers: Vec<String>,
    /// For each channel what runs beside the source where that channel is optional.
    beside: Vec<Beside>,
    untold: Mutex<Untold>,
}

/// Events that no channel will ever take.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    pub(crate) count: usize,
    /// Why the last of them.
    pub(crate) why: String,
}

/// Events that cannot be read again. Those that are left when the wait for their channels ends are dropped.
struct InHand<'a> {
    delivery: &'a Delivery,
    events: usize,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if self.events > 0 {
            self.delivery.drop_events(self.events, &"the agent ends");
        }
    }
}

/// Events that go into their channels together.
struct Batch {
    events: Vec<Event>,
    /// Required channels that have them already, from a put that failed at another one.
    had_by: Vec<usize>,
}

impl Batch {
    fn new(events: Vec<Event>) -> Batch {
        Batch { events, had_by: Vec::new() }
    }
}

/// The events for one channel.
struct Share {
    channel: usize,
    is_required: bool,
    events: Vec<Event>,
}

impl Delivery {
    pub(crate) fn new(
        source: &str,
        channels: Vec<Arc<Channel>>,
        selector: Selector,
        interceptors: Vec<Interceptor>,
        counters: Arc<SourceCounters>,
    ) -> Delivery {
        let source = source.to_owned();
        let id_headers = channels.iter().filter_map(|channel| channel.id_header());
        let id_headers: Vec<String> =
            id_headers.map(str::to_owned).collect::<BTreeSet<String>>().into_iter().collect();
        let beside = channels.iter().map(|_| Beside::default()).collect();
        let untold = Mutex::default();
        Delivery(Arc::new(Shared {
            source,
            channels,
            selector,
            interceptors,
            counters,
            id_headers,
            beside,
            untold,
        }))
    }

    pub(crate) fn counters(&self) -> &SourceCounters {
        &self.0.counters
    }

    pub(crate) fn source(&self) -> &str {
        &self.0.source
    }

    /// The most events that all channels take at once.
    pub(crate) fn batch_max(&self) -> usize {
        let bounds = self.0.channels.iter().map(|channel| channel.transaction_events_max());
        bounds.min().unwrap_or(1)
    }

    /// With more events than so many, [`Delivery::deliver`] cannot succeed, as far as that is known before.
    pub(crate) fn events_max(&self) -> usize {
        let Shared { channels, interceptors, .. } = &*self.0;
        if interceptors.iter().any(Interceptor::takes_out) {
            return usize::MAX;
        }
        let bounds = channels.iter().map(|channel| channel.transaction_events_max());
        bounds.fold(0, usize::saturating_add)
    }

    /// Puts a batch into its channels. When this returns, each event is in all its required channels.
    ///
    /// Room is claimed in all required channels before one of them gets anything, and durable channels come
    /// first, because they alone can fail then. So a failure leaves nothing behind, unless the disk of a second
    /// durable channel fails: then the first has the batch, and has it twice when its sender sends it again.
    pub(crate) async fn deliver(&self, events: Vec<Event>) -> Result<(), ChannelError> {
        let received = events.len();
        let events = self.prepare(events);
        let left_out = received - events.len();
        self.put(events, &mut Vec::new(), None).await?;
        self.0.counters.accepted.add(left_out);
        Ok(())
    }

    /// Does once with events that have come what is to be done before their first put: a put that is tried again has
    /// the same events. Returns those that go into channels.
    fn prepare(&self, mut events: Vec<Event>) -> Vec<Event> {
        let Shared { selector, interceptors, counters, .. } = &*self.0;
        self.count_received(&events);
        self.give_ids(&mut events);
        let before = events.len();
        let mut events =
            interceptors.iter().fold(events, |events, interceptor| interceptor.intercept(events));
        counters.intercepted.add(before - events.len());
        events.retain(|event| {
            let choice = selector.choose(event);
            let is_mapped = !choice.required.is_empty() || !choice.optional.is_empty();
            if !is_mapped {
                counters.unmapped.add(1);
                tracing::debug!(source = self.0.source, "an event is mapped to no channel");
            }
            is_mapped
        });
        events
    }

    /// As [`Delivery::prepare`], for what is not told to the sender as a whole.
    fn prepare_each(&self, events: Vec<Event>) -> Vec<Event> {
        let received = events.len();
        let events = self.prepare(events);
        self.0.counters.accepted.add(received - events.len());
        events
    }

    /// An event keeps the id that it came with: so what a sender repeats is known.
    fn give_ids(&self, events: &mut [Event]) {
        for header in &self.0.id_headers {
            let batch = random_uuid().hyphenated().to_string();
            for (index, event) in events.iter_mut().enumerate() {
                if event.headers.get(header).is_none() {
                    event.headers.set(header.as_str(), format!("{batch}-{index}"));
                }
            }
        }
    }

    /// As [`Delivery::deliver`], again and again until the channels have room: for what comes from where it can
    /// wait. What no channel will ever take is dropped, with a line and a count. `false` if the end came before: the source
    /// reads the events again after the next start. At the end it does not wait for room.
    pub(crate) async fn insist(&self, events: Vec<Event>, stop: &Stop) -> bool {
        let mut left = 0;
        tokio::select! {
            biased;
            is_put = self.insist_on(events, stop, Some(stop), &mut left) => is_put,
            // Whether the channel has them, nobody knows. A thread that waited for longer would be there beside the next one.
            () = stop.wait_and(PUT_PATIENCE) => false,
        }
    }

    /// As [`Delivery::insist`], for what cannot be read again: if the end comes before, it is dropped. That is so, too, if
    /// the source is cut off while it waits for a channel.
    pub(crate) async fn insist_or_drop(&self, events: Vec<Event>, stop: &Stop) -> bool {
        let mut in_hand = InHand { delivery: self, events: 0 };
        self.insist_on(events, stop, None, &mut in_hand.events).await
    }

    /// Puts events into their channels, in batches that they take, for a source whose sender is told what came of each.
    /// Events that no channel will ever take are dropped, with a line and a count; how many, and why.
    ///
    /// # Errors
    ///
    /// Channels have no room. Some of the events may be in them.
    pub(crate) async fn deliver_or_drop(
        &self,
        events: Vec<Event>,
    ) -> Result<Dropped, ChannelError> {
        let mut batches = self.batches(self.prepare_each(events));
        let mut dropped = Dropped::default();
        while let Some(batch) = batches.pop() {
            let put = self.put_or_halve(batch, &mut batches, None).await;
            let put = put.map_err(|(error, _)| error)?;
            if let Some(error) = put {
                dropped.count += 1;
                dropped.why = error.to_string();
            }
        }
        Ok(dropped)
    }

    /// Batches that channels take at once, the first one last.
    fn batches(&self, mut events: Vec<Event>) -> Vec<Batch> {
        let max = self.batch_max().max(1);
        let mut batches = Vec::new();
        while events.len() > max {
            let rest = events.split_off(max);
            batches.push(Batch::new(std::mem::replace(&mut events, rest)));
        }
        batches.push(Batch::new(events));
        batches.reverse();
        batches
    }

    /// Keeps in `left` how many events are in no channel yet; `false` if the end came before they are. No put waits for room
    /// after `no_wait`.
    async fn insist_on(
        &self,
        events: Vec<Event>,
        stop: &Stop,
        no_wait: Option<&Stop>,
        left: &mut usize,
    ) -> bool {
        let events = self.prepare_each(events);
        *left = events.len();
        let mut pause = PAUSE_MIN;
        let mut batches = self.batches(events);
        while let Some(batch) = batches.pop() {
            let (error, batch) = match self.put_or_halve(batch, &mut batches, no_wait).await {
                Ok(_) => {
                    *left = batches.iter().map(|batch| batch.events.len()).sum();
                    continue;
                }
                Err(failed) => failed,
            };
            if stop.is_set() {
                return false;
            }
            tracing::warn!(source = self.0.source, events = batch.events.len(), %error, "channels take nothing; trying again");
            batches.push(batch);
            if stop.sleep(pause).await {
                return false;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        true
    }

    /// Puts a batch. One that will never be taken is halved, and its halves are `left`, until the event is found for
    /// which that is so: that one is dropped, and the error returned.
    async fn put_or_halve(
        &self,
        mut batch: Batch,
        left: &mut Vec<Batch>,
        no_wait: Option<&Stop>,
    ) -> Result<Option<ChannelError>, (ChannelError, Batch)> {
        let count = batch.events.len();
        match self.put(batch.events.clone(), &mut batch.had_by, no_wait).await {
            Ok(()) => Ok(None),
            Err(error) if !error.is_final() => Err((error, batch)),
            Err(error) if count <= 1 => {
                self.drop_events(count, &error);
                Ok(Some(error))
            }
            Err(_) => {
                let events = batch.events.split_off(count / 2);
                let second = Batch { events, had_by: batch.had_by.clone() };
                left.extend([second, batch]);
                Ok(None)
            }
        }
    }

    /// Says and counts that events are lost.
    pub(crate) fn drop_events(&self, count: usize, why: &dyn std::fmt::Display) {
        self.0.counters.dropped.add(count);
        tracing::error!(source = self.0.source, events = count, %why, "events are dropped");
    }

    fn count_received(&self, events: &[Event]) {
        self.0.counters.received.add(events.len());
        self.0.counters.batches_received.add(1);
    }

    /// Puts events into those of their channels that do not have them yet, and notes in `had_by` which required channels got
    /// them. After `no_wait` it does not wait for room.
    async fn put(
        &self,
        events: Vec<Event>,
        had_by: &mut Vec<usize>,
        no_wait: Option<&Stop>,
    ) -> Result<(), ChannelError> {
        let counters = &self.0.counters;
        let count = events.len();
        let mut shares = self.shares(events);
        shares.retain(|share| !share.is_required || !had_by.contains(&share.channel));
        let (required, optional): (Vec<Share>, Vec<Share>) =
            shares.into_iter().partition(|share| share.is_required);
        let failed = |error| {
            counters.channel_failures.add(1);
            error
        };
        let mut reserved: Vec<(Reservation, Share)> = Vec::new();
        for share in required {
            let reservation = self.reserve(&share, no_wait).await.map_err(failed)?;
            reserved.push((reservation, share));
        }
        reserved.sort_by_key(|(reservation, _)| !reservation.is_durable());
        for (reservation, share) in reserved {
            reservation.put(share.events).await.map_err(failed)?;
            had_by.push(share.channel);
        }
        for share in optional {
            self.try_optional(share).await;
        }
        counters.accepted.add(count);
        counters.batches_accepted.add(1);
        Ok(())
    }

    /// Room in a required channel.
    async fn reserve(
        &self,
        share: &Share,
        no_wait: Option<&Stop>,
    ) -> Result<Reservation, ChannelError> {
        let channel = &self.0.channels[share.channel];
        let reserving = channel.reserve(&share.events);
        let Some(no_wait) = no_wait else { return reserving.await };
        tokio::select! {
            biased;
            reserved = reserving => reserved,
            () = no_wait.wait() => Err(ChannelError::Ended { channel: channel.name.clone() }),
        }
    }

    /// Sorts the events by channel.
    fn shares(&self, events: Vec<Event>) -> Vec<Share> {
        let Shared { selector, channels, .. } = &*self.0;
        if let (Selector::Replicating(choice), [_]) = (selector, &channels[..])
            && !events.is_empty()
        {
            let is_required = !choice.required.is_empty();
            return vec![Share { channel: 0, is_required, events }];
        }
        let mut shares: Vec<Share> = Vec::new();
        let mut add = |channel, is_required, event: Event| {
            let share =
                shares.iter_mut().find(|s| s.channel == channel && s.is_required == is_required);
            match share {
                Some(share) => share.events.push(event),
                None => shares.push(Share { channel, is_required, events: vec![event] }),
            }
        };
        for event in events {
            let choice = selector.choose(&event);
            for channel in &choice.required {
                add(*channel, true, event.clone());
            }
            for channel in &choice.optional {
                add(*channel, false, event.clone());
            }
        }
        shares
    }
}
