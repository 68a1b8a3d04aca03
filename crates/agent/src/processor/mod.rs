//! Between channels and sinks: a sink, or a group in which one sink at a time gets a batch.

mod failover;
mod load_balance;
mod runner;

use std::time::Duration;

use self::failover::Failover;
use self::load_balance::LoadBalance;
pub(crate) use self::runner::{Gathered, Progress, SinkRunner};
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::SinkError;
use crate::settings::Settings;
use crate::stop::Stop;

pub(crate) const DEFAULT: Declaration = Declaration {
    role: Role::Processor,
    name: "default",
    aliases: &["org.apache.flume.sink.DefaultSinkProcessor"],
    doc: "One sink, as without a group.",
    keys: &[],
    shared: &[],
};

pub(crate) const FAILOVER: Declaration = Declaration {
    role: Role::Processor,
    name: "failover",
    aliases: &["org.apache.flume.sink.FailoverSinkProcessor"],
    doc: "The sink with the highest priority gets all batches. One that fails is left alone for a while, which doubles \
          with each failure.",
    keys: &[
        key(
            "priority.*",
            Kind::Number(i32::MIN as i64, i32::MAX as i64, "priority"),
            Fallback::Nothing,
            "`priority.SINK`: a sink's. Those without come last, in their order.",
        ),
        key(
            "maxpenalty",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("30000"),
            "How long a sink is left alone at most.",
        ),
    ],
    shared: &[],
};

pub(crate) const LOAD_BALANCE: Declaration = Declaration {
    role: Role::Processor,
    name: "load_balance",
    aliases: &["org.apache.flume.sink.LoadBalancingSinkProcessor"],
    doc: "Sinks take turns. If one fails, the next gets the batch.",
    keys: &[
        key(
            "selector",
            Kind::Choice(&["round_robin", "random"]),
            Fallback::Is("round_robin"),
            "Whose turn is next.",
        ),
        key(
            "backoff",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether a sink that failed is left out for a while, which doubles with each failure.",
        ),
        key(
            "selector.maxTimeOut",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("30000"),
            "How long at most.",
        ),
    ],
    shared: &[],
};

/// How long to wait for events before a sink is told that there are none.
const IDLE: Duration = Duration::from_secs(1);

/// How long to wait after a failure, and after many.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long what is on its way to the next hop may take at the end. It is less than a part has to end, so that sinks can end
/// what they have begun.
const SEND_PATIENCE: Duration = Duration::from_secs(8);

/// What gives batches to sinks.
pub(crate) enum Processor {
    One(Box<SinkRunner>),
    Failover(Failover),
    LoadBalance(LoadBalance),
}

impl Processor {
    /// Of a group; there is at least one sink.
    pub(crate) fn new(settings: &Settings, mut sinks: Vec<SinkRunner>) -> Processor {
        match settings.declaration.name {
            "failover" => Processor::Failover(Failover::new(settings, sinks)),
            "load_balance" => Processor::LoadBalance(LoadBalance::new(settings, sinks)),
            _ => Processor::One(Box::new(sinks.remove(0))),
        }
    }

    /// Gives batches to sinks until it is told to stop.
    pub(crate) async fn run(mut self, stop: Stop) {
        let mut pause = PAUSE_MIN;
        while !stop.is_set() {
            // A batch that is on its way comes to its end: broken off, it could be there, and would come again. What takes too
            // long goes back into its channel.
            let processed = tokio::select! {
                processed = self.process(&stop) => processed,
                () = stop.wait_and(SEND_PATIENCE) => break,
            };
            self.runners().for_each(|runner| runner.sink.tend());
            match processed {
                Ok(_) => pause = PAUSE_MIN,
                Err(_) => {
                    if stop.sleep(pause).await {
                        break;
                    }
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
        for runner in self.runners() {
            runner.sink.end().await;
        }
    }

    fn runners(&mut self) -> Box<dyn Iterator<Item = &mut SinkRunner> + Send + '_> {
        match self {
            Processor::One(sink) => Box::new(std::iter::once(&mut **sink)),
            Processor::Failover(failover) => Box::new(failover.runners()),
            Processor::LoadBalance(balance) => Box::new(balance.runners()),
        }
    }

    async fn process(&mut self, stop: &Stop) -> Result<Progress, SinkError> {
        match self {
            Processor::One(sink) => sink.process(IDLE, stop).await,
            Processor::Failover(failover) => failover.process(IDLE, stop).await,
            Processor::LoadBalance(balance) => balance.process(IDLE, stop).await,
        }
    }
}

/// How long a sink that failed so often in a row is left alone.
fn penalty(failures: u32, max: Duration) -> Duration {
    let factor = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    Duration::from_secs(1).saturating_mul(factor).min(max)
}
