//! The processor `load_balance`.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use super::{Progress, SinkRunner, penalty};
use crate::error::SinkError;
use crate::settings::Settings;
use crate::stop::Stop;

/// Sinks that take turns.
pub(crate) struct LoadBalance {
    members: Vec<Member>,
    is_random: bool,
    backs_off: bool,
    rest_max: Duration,
    next: usize,
}

struct Member {
    sink: SinkRunner,
    failures: u32,
    rests_until: Option<Instant>,
}

impl LoadBalance {
    pub(super) fn new(settings: &Settings, sinks: Vec<SinkRunner>) -> LoadBalance {
        LoadBalance {
            members: sinks
                .into_iter()
                .map(|sink| Member { sink, failures: 0, rests_until: None })
                .collect(),
            is_random: settings.is("selector", "random"),
            backs_off: settings.flag("backoff"),
            rest_max: settings.millis("selector.maxTimeOut"),
            next: 0,
        }
    }

    pub(super) fn runners(&mut self) -> impl Iterator<Item = &mut SinkRunner> + Send {
        self.members.iter_mut().map(|member| &mut member.sink)
    }

    pub(super) async fn process(
        &mut self,
        patience: Duration,
        stop: &Stop,
    ) -> Result<Progress, SinkError> {
        let count = self.members.len();
        let first = match self.is_random {
            true => (RandomState::new().hash_one(self.next) % count as u64) as usize,
            false => self.next % count,
        };
        self.next = self.next.wrapping_add(1);
        let now = Instant::now();
        let mut last = None;
        for index in (0..count).map(|step| (first + step) % count) {
            let member = &mut self.members[index];
            if member.rests_until.is_some_and(|until| now < until) {
                continue;
            }
            match member.sink.process(patience, stop).await {
                Ok(progress) => {
                    if progress == Progress::Sent {
                        (member.failures, member.rests_until) = (0, None);
                    }
                    return Ok(progress);
                }
                Err(error) => {
                    member.failures = member.failures.saturating_add(1);
                    if self.backs_off {
                        member.rests_until =
                            Some(Instant::now() + penalty(member.failures, self.rest_max));
                    }
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| SinkError::later("all sinks of the group rest after failures")))
    }
}
