//! Telling the coordinator that a member is alive.

use std::time::Duration;

use logway_model::ErrorCode;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::membership::Membership;
use crate::ClientError;

/// What the coordinator thinks of the member.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    /// It may read on.
    Good,
    /// It is to join the next generation.
    Rebalancing,
    /// It is no member any more: others read its partitions.
    Lost,
    /// It can be no member.
    Refused(ClientError),
}

/// A task that sends heartbeats for one generation, until it is dropped.
///
/// It goes on while whoever consumes is busy, but not for ever: a member that has read nothing for
/// the length of a rebalance leaves the group, because the others would wait for it in vain
/// (KIP-62).
#[derive(Debug)]
pub(super) struct Heartbeat {
    standing: watch::Receiver<Standing>,
    polled_at: watch::Sender<Instant>,
    task: JoinHandle<()>,
}

impl Heartbeat {
    /// Begins, every `interval`.
    pub(super) fn start(
        membership: Membership,
        interval: Duration,
        poll_interval_max: Duration,
    ) -> Heartbeat {
        let (standing_sender, standing) = watch::channel(Standing::Good);
        let (polled_at, polled) = watch::channel(Instant::now());
        let task = tokio::spawn(async move {
            beat(membership, interval, poll_interval_max, &standing_sender, polled).await;
        });
        Heartbeat { standing, polled_at, task }
    }

    /// Notes that whoever consumes is still there.
    pub(super) fn polled(&self) {
        self.polled_at.send_replace(Instant::now());
    }

    /// Waits until the standing is not good any more. Cancel safe.
    pub(super) async fn trouble(&mut self) -> Standing {
        let is_trouble = |standing: &Standing| !matches!(standing, Standing::Good);
        match self.standing.wait_for(is_trouble).await {
            Ok(standing) => standing.clone(),
            // The task has ended, which it does after it has said why.
            Err(_) => Standing::Lost,
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn beat(
    mut membership: Membership,
    interval: Duration,
    poll_interval_max: Duration,
    standing: &watch::Sender<Standing>,
    polled: watch::Receiver<Instant>,
) {
    loop {
        sleep(interval).await;
        if polled.borrow().elapsed() > poll_interval_max {
            // If nobody hears it, the session times out.
            drop(membership.leave().await);
            standing.send_replace(Standing::Lost);
            return;
        }
        match membership.heartbeat().await {
            Ok(()) => {}
            Err(error) => match error.code() {
                // Goes on, so that the session lives until the member has joined again.
                Some(ErrorCode::RebalanceInProgress) => {
                    standing.send_replace(Standing::Rebalancing);
                }
                Some(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) => {
                    standing.send_replace(Standing::Lost);
                    return;
                }
                // The coordinator is moving or away: it is asked again, wherever it is then.
                _ if error.is_retriable() => {}
                _ => {
                    standing.send_replace(Standing::Refused(error));
                    return;
                }
            },
        }
    }
}
