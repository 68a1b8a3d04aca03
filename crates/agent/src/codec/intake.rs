//! Events of a message as they are read: each is charged before it is kept, and there are no more than can go into
//! channels together.

use super::Unread;
use super::budget::Share;
use crate::event::{Event, Headers};

/// What an event takes beside its texts: its place in a list that grows, and what its body is in.
const EVENT_BYTES: usize = 192;

/// What a header takes beside its texts: its place in a list that grows, and two allocations.
const HEADER_BYTES: usize = 128;

/// Headers in the order in which they come.
pub(crate) type HeaderPairs = Vec<(Box<str>, Box<str>)>;

pub(crate) struct Intake<'a> {
    share: &'a mut Share,
    events_max: usize,
    events: Vec<Event>,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(share: &'a mut Share, events_max: usize) -> Intake<'a> {
        Intake { share, events_max, events: Vec::new() }
    }

    /// One more event begins.
    pub(crate) fn begin(&mut self) -> Result<(), Unread> {
        if self.events.len() >= self.events_max {
            return Err(Unread::TooMany(self.events_max));
        }
        Ok(self.share.grow(EVENT_BYTES)?)
    }

    /// It gets a header.
    pub(crate) fn header(&mut self, name: &str, value: &str) -> Result<(), Unread> {
        Ok(self.share.grow(HEADER_BYTES + name.len() + value.len())?)
    }

    /// It gets a body.
    pub(crate) fn body(&mut self, bytes: usize) -> Result<(), Unread> {
        Ok(self.share.grow(bytes)?)
    }

    /// It has come to its end.
    pub(crate) fn push(&mut self, headers: HeaderPairs, body: impl Into<bytes::Bytes>) {
        self.events.push(Event { headers: Headers::from_pairs(headers), body: body.into() });
    }

    /// How many have come to their end.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}
