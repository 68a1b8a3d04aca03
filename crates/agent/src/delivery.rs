//! From a source into its channels: interceptors, the selector, and one transaction on each channel.
//!
//! Interceptors see an event once. A put that is tried again puts what they have made of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use logway_log::random_uuid;

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

/// How often it is told that optional channels do not take events.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

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
    untold: Mutex<Untold>,
}

/// What optional channels did not take since that was told last.
#[derive(Debug, Default)]
struct Untold {
    events: usize,
    told: Option<Instant>,
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
        let untold = Mutex::default();
        let shared =
            Shared { source, channels, selector, interceptors, counters, id_headers, untold };
        Delivery(Arc::new(shared))
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
    /// durable channel fails: then the first has the batch, and has it twice when the source sends it again.
    pub(crate) async fn deliver(&self, events: Vec<Event>) -> Result<(), ChannelError> {
        let received = events.len();
        let events = self.prepare(events);
        let left_out = received - events.len();
        self.put(events).await?;
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
    /// wait. What no channel will ever take is dropped, with a line and a count. `false` if the end came before.
    pub(crate) async fn insist(&self, events: Vec<Event>, stop: &Stop) -> bool {
        self.insist_on(events, stop, &mut 0).await
    }

    /// As [`Delivery::insist`], for what cannot be read again: if the end comes before, it is dropped. That is so, too, if
    /// the source is cut off while it waits for a channel.
    pub(crate) async fn insist_or_drop(&self, events: Vec<Event>, stop: &Stop) -> bool {
        let mut in_hand = InHand { delivery: self, events: 0 };
        self.insist_on(events, stop, &mut in_hand.events).await
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
            let put = self.put_or_halve(batch, &mut batches).await.map_err(|(error, _)| error)?;
            if let Some(error) = put {
                dropped.count += 1;
                dropped.why = error.to_string();
            }
        }
        Ok(dropped)
    }

    /// Batches that channels take at once, the first one last.
    fn batches(&self, mut events: Vec<Event>) -> Vec<Vec<Event>> {
        let max = self.batch_max().max(1);
        let mut batches = Vec::new();
        while events.len() > max {
            let rest = events.split_off(max);
            batches.push(std::mem::replace(&mut events, rest));
        }
        batches.push(events);
        batches.reverse();
        batches
    }

    /// Keeps in `left` how many events are in no channel yet; `false` if the end came before they are.
    async fn insist_on(&self, events: Vec<Event>, stop: &Stop, left: &mut usize) -> bool {
        let events = self.prepare_each(events);
        *left = events.len();
        let mut pause = PAUSE_MIN;
        let mut batches = self.batches(events);
        while let Some(batch) = batches.pop() {
            let (error, batch) = match self.put_or_halve(batch, &mut batches).await {
                Ok(_) => {
                    *left = batches.iter().map(Vec::len).sum();
                    continue;
                }
                Err(failed) => failed,
            };
            tracing::warn!(source = self.0.source, events = batch.len(), %error, "channels take nothing; trying again");
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
        mut batch: Vec<Event>,
        left: &mut Vec<Vec<Event>>,
    ) -> Result<Option<ChannelError>, (ChannelError, Vec<Event>)> {
        match self.put(batch.clone()).await {
            Ok(()) => Ok(None),
            Err(error) if !error.is_final() => Err((error, batch)),
            Err(error) if batch.len() <= 1 => {
                self.drop_events(batch.len(), &error);
                Ok(Some(error))
            }
            Err(_) => {
                let second = batch.split_off(batch.len() / 2);
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

    async fn put(&self, events: Vec<Event>) -> Result<(), ChannelError> {
        let Shared { counters, channels, .. } = &*self.0;
        let count = events.len();
        let shares = self.shares(events);
        let (required, optional): (Vec<Share>, Vec<Share>) =
            shares.into_iter().partition(|share| share.is_required);
        let failed = |error| {
            counters.channel_failures.add(1);
            error
        };
        let mut reserved: Vec<(Reservation, Vec<Event>)> = Vec::new();
        for share in required {
            let reservation =
                channels[share.channel].reserve(&share.events).await.map_err(failed)?;
            reserved.push((reservation, share.events));
        }
        reserved.sort_by_key(|(reservation, _)| !reservation.is_durable());
        for (reservation, events) in reserved {
            reservation.put(events).await.map_err(failed)?;
        }
        for share in optional {
            self.try_optional(share).await;
        }
        counters.accepted.add(count);
        counters.batches_accepted.add(1);
        Ok(())
    }

    /// Without waiting for room: a channel that may be left out does not slow down the source.
    async fn try_optional(&self, share: Share) {
        let channel = &self.0.channels[share.channel];
        let count = share.events.len();
        let put = match channel.reserve_now(&share.events).await {
            Ok(reservation) => reservation.put(share.events).await,
            Err(error) => Err(error),
        };
        if let Err(error) = put {
            self.0.counters.optional_failures.add(count);
            self.tell_of_optional(count, &error);
        }
    }

    fn tell_of_optional(&self, count: usize, error: &ChannelError) {
        let mut untold = self.0.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.events += count;
        if untold.told.is_none_or(|told| told.elapsed() >= TELL_INTERVAL) {
            let events = std::mem::take(&mut untold.events);
            untold.told = Some(Instant::now());
            tracing::warn!(source = self.0.source, events, %error, "an optional channel did not take events");
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
