//! Who was heard, and when.

use std::collections::BTreeMap;

use logway_model::BrokerId;

use super::SetBrokerState;
use crate::image::MetadataImage;
use crate::record::{BrokerEpoch, BrokerState};

/// What the active controller knows of brokers' heartbeats. It is not replicated: a heartbeat is not worth
/// a commit, and only what follows from them is.
///
/// Time comes in as milliseconds of any clock that never goes back. Heartbeats are to be noted where they
/// arrive: behind other work of the controller the living would be taken for dead (KAFKA-15019).
#[derive(Debug, Clone)]
pub struct BrokerLiveness {
    session_timeout_ms: u64,
    heard: BTreeMap<BrokerId, Heard>,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    epoch: BrokerEpoch,
    at_ms: u64,
    /// What it asks to be, if it has spoken in this controller's time.
    wanted: Option<BrokerState>,
    /// It was not heard since somebody was told that it is late.
    is_late: bool,
    /// Its process has ended.
    has_gone: bool,
}

impl BrokerLiveness {
    /// What a controller knows that has just become active: nobody was heard yet, and everybody gets a whole
    /// session. So a broker that died while there was no controller is fenced, too (KAFKA-18138).
    pub fn new(image: &MetadataImage, session_timeout_ms: u64, now_ms: u64) -> BrokerLiveness {
        let mut liveness = BrokerLiveness { session_timeout_ms, heard: BTreeMap::new() };
        liveness.follow(image, now_ms);
        liveness
    }

    /// Takes over who belongs to the cluster now, and in which life.
    pub fn follow(&mut self, image: &MetadataImage, now_ms: u64) {
        self.heard.retain(|id, _| image.broker_session(*id).is_some());
        for session in image.broker_sessions() {
            let (epoch, at_ms, wanted) = (session.epoch, now_ms, None);
            let new = Heard { epoch, at_ms, wanted, is_late: false, has_gone: false };
            let heard = self.heard.entry(session.id).or_insert(new);
            if heard.epoch < session.epoch {
                *heard = new;
            }
        }
    }

    /// A broker is alive, and wants to be something. One of an earlier life is none. Says whether that may change
    /// something: it wants to be something else, or was not heard for a while.
    pub fn heartbeat(
        &mut self,
        id: BrokerId,
        epoch: BrokerEpoch,
        wanted: BrokerState,
        now_ms: u64,
    ) -> bool {
        let heard = self.heard.get_mut(&id).filter(|heard| heard.epoch == epoch);
        let Some(heard) = heard else { return false };
        let is_news = heard.wanted != Some(wanted) || heard.has_gone;
        *heard =
            Heard { epoch, at_ms: now_ms, wanted: Some(wanted), is_late: false, has_gone: false };
        is_news
    }

    /// A broker's process has ended, as its machine says. It is silent until it speaks again.
    pub fn has_gone(&mut self, id: BrokerId, epoch: BrokerEpoch) {
        if let Some(heard) = self.heard.get_mut(&id).filter(|heard| heard.epoch == epoch) {
            heard.has_gone = heard.is_late;
        }
    }

    /// The brokers that were not heard for `late_ms`: somebody may look whether they have ended. What comes of that look
    /// counts only if they were not heard meanwhile.
    pub fn take_late(&mut self, now_ms: u64, late_ms: u64) -> Vec<(BrokerId, BrokerEpoch)> {
        let mut late = Vec::new();
        for (id, heard) in &mut self.heard {
            if !heard.has_gone && now_ms.saturating_sub(heard.at_ms) >= late_ms {
                heard.is_late = true;
                late.push((*id, heard.epoch));
            }
        }
        late
    }

    /// What should be changed about brokers now: those that are silent are fenced, and those that speak
    /// get what they want.
    pub fn due(&self, image: &MetadataImage, now_ms: u64) -> Vec<SetBrokerState> {
        let due = |(&id, heard): (&BrokerId, &Heard)| {
            let session = image.broker_session(id).filter(|it| it.epoch == heard.epoch)?;
            let is_silent =
                heard.has_gone || now_ms.saturating_sub(heard.at_ms) > self.session_timeout_ms;
            let state = if is_silent { BrokerState::Fenced } else { heard.wanted? };
            let epoch = heard.epoch;
            (session.state != state).then_some(SetBrokerState { id, epoch, state })
        };
        self.heard.iter().filter_map(due).collect()
    }

    /// When a broker becomes silent next, if it says nothing; there is nothing to look at before.
    pub fn next_look_ms(&self) -> Option<u64> {
        self.heard.values().map(|heard| heard.at_ms + self.session_timeout_ms + 1).min()
    }
}
