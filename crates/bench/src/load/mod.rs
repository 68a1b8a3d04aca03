//! What a side is asked to do in one run.

mod both;
mod cat;
mod end_to_end;
mod fetch;
mod grow;
mod grpc;
mod leaders;
mod made_topics;
mod peer;
mod preload;
mod produce;
mod restart;
mod run;
mod senders;
mod soak;
mod start;
mod topic;
mod write;

pub(crate) use both::BothLoad;
pub(crate) use cat::CatLoad;
pub(crate) use end_to_end::{EndToEndLoad, OwnRateLoad};
pub(crate) use fetch::{FetchLoad, Reading};
pub(crate) use grow::GrowLoad;
pub(crate) use grpc::{GrpcAppendLoad, GrpcReadLoad};
pub(crate) use leaders::Leaders;
pub(crate) use made_topics::MadeTopics;
pub(crate) use produce::ProduceLoad;
pub(crate) use restart::RestartLoad;
pub(crate) use run::{Run, Stop};
pub(crate) use soak::SoakLoad;
pub(crate) use start::StartLoad;
pub(crate) use topic::{RunTopic, topic_prefix};
pub(crate) use write::WriteLoad;

use crate::generator::Observed;
use crate::measure::Parameters;
use crate::side::Side;

/// Why a peer cannot be given most loads.
const NO_KAFKA: &str = "has nothing like it, and does not speak Kafka's protocol";

/// One kind of load with its parameters.
pub(crate) trait Load {
    /// What the report says about it.
    fn parameters(&self) -> anyhow::Result<Parameters>;

    /// Why this side cannot be given the load, if it cannot.
    fn refusal(&self, side: &Side) -> Option<&'static str> {
        side.peer.map(|_| NO_KAFKA)
    }

    /// Whether a side that is slow at first would get faster at it, run after run.
    fn is_warmed_up(&self) -> bool {
        false
    }

    /// Whether it leaves new records in memory, of which there is only so much.
    fn writes(&self) -> bool {
        true
    }

    /// The most that one run writes to a side, in bytes of batches.
    fn written_bytes_max(&self, side: &Side, run: &Run) -> anyhow::Result<u64>;

    /// Puts the load on a side, with whatever topics it needs.
    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed>;
}
