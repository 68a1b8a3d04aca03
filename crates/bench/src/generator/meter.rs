//! What is used of the machine while a window is open.

use std::time::Instant;

use super::Window;
use crate::measure::{Snapshot, Usage};

/// Looks when the window opens and when it is over. For one thread, whose own time is a part of it.
#[derive(Debug)]
pub(crate) struct Meter {
    broker_pids: Vec<u32>,
    pub(super) opening: Option<Snapshot>,
    pub(super) usage: Option<Usage>,
}

impl Meter {
    /// Of the broker's processes, if they run here.
    pub(crate) fn new(broker_pids: Vec<u32>) -> Meter {
        Meter { broker_pids, opening: None, usage: None }
    }

    /// Looks, if it is time to.
    pub(crate) fn look(&mut self, now: Instant, window: &Window) {
        if self.opening.is_none() && now >= window.from {
            self.opening = Some(Snapshot::take(&self.broker_pids));
        }
        if now >= window.to {
            self.close();
        }
    }

    /// The run ends here, if the window did not before.
    pub(crate) fn close(&mut self) {
        if self.usage.is_none() {
            self.usage = self.opening.as_ref().map(Snapshot::until_now);
        }
    }

    /// Whether the run was over when it looked last.
    pub(crate) fn is_closed(&self) -> bool {
        self.usage.is_some()
    }

    /// What was done went on until now.
    pub(crate) fn go_on(&mut self) {
        self.usage = None;
        self.close();
    }
}
