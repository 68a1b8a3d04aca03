//! The processor `failover`.

use std::time::{Duration, Instant};

use super::{Progress, SinkRunner, penalty};
use crate::error::SinkError;
use crate::settings::Settings;
use crate::stop::Stop;

/// Sinks by priority, the highest first.
pub(crate) struct Failover {
    members: Vec<Member>,
    penalty_max: Duration,
}

struct Member {
    sink: SinkRunner,
    failures: u32,
    /// Before this it gets nothing, while another works.
    rests_until: Option<Instant>,
}

impl Failover {
    pub(super) fn new(settings: &Settings, sinks: Vec<SinkRunner>) -> Failover {
        let priority = |name: &str| -> i64 {
            let given = settings.text(&format!("priority.{name}"));
            given.map_or(i64::MIN, |text| text.trim().parse().expect("it was checked"))
        };
        let mut members: Vec<Member> =
            sinks.into_iter().map(|sink| Member { sink, failures: 0, rests_until: None }).collect();
        members.sort_by_key(|member| std::cmp::Reverse(priority(&member.sink.name)));
        Failover { members, penalty_max: settings.millis("maxpenalty") }
    }

    pub(super) fn runners(&mut self) -> impl Iterator<Item = &mut SinkRunner> + Send {
        self.members.iter_mut().map(|member| &mut member.sink)
    }

    pub(super) async fn process(
        &mut self,
        patience: Duration,
        stop: &Stop,
    ) -> Result<Progress, SinkError> {
        let now = Instant::now();
        let mut last = None;
        for member in &mut self.members {
            if member.rests_until.is_some_and(|until| now < until) {
                continue;
            }
            match member.sink.process(patience, stop).await {
                Ok(progress) => {
                    // Nothing was sent: that says nothing of a sink that had failed.
                    if progress == Progress::Sent {
                        (member.failures, member.rests_until) = (0, None);
                    }
                    return Ok(progress);
                }
                Err(error) => {
                    member.failures = member.failures.saturating_add(1);
                    let rest = penalty(member.failures, self.penalty_max);
                    member.rests_until = Some(Instant::now() + rest);
                    tracing::warn!(
                        sink = member.sink.name,
                        rest_ms = rest.as_millis() as u64,
                        "the sink rests, and the next gets its batches"
                    );
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| SinkError::later("all sinks of the group rest after failures")))
    }
}
