//! Rules of nodes that are left out, to see whether the oracle notices.

use logway_node::cluster::Mutation;

/// A rule that every node of a world breaks.
#[derive(Debug, Clone, Copy)]
pub struct ClusterMutation {
    /// What is left out.
    pub name: &'static str,
    pub(super) rule: Mutation,
    /// Only a world with transactions can notice.
    pub(super) is_about_transactions: bool,
}

const fn without(name: &'static str, rule: Mutation) -> ClusterMutation {
    ClusterMutation { name, rule, is_about_transactions: false }
}

const fn in_transactions(name: &'static str, rule: Mutation) -> ClusterMutation {
    ClusterMutation { name, rule, is_about_transactions: true }
}

/// All of them.
pub const CLUSTER_MUTATIONS: &[ClusterMutation] = &[
    without("waiting for other replicas", Mutation::AcknowledgesAlone),
    without("flushing before a follower tells its end", Mutation::TellsBeforeFlush),
    without("comparing logs before a follower counts", Mutation::CountsDiverging),
    without("asking where logs part", Mutation::CutsToWatermark),
    without("showing only what is committed", Mutation::ShowsItsEnd),
    without("waiting for who may be in sync", Mutation::IgnoresProposed),
    without("a new life after each start", Mutation::KeepsItsLife),
    without("a life before a role", Mutation::LeadsBeforeItsLife),
    without("an election after each start", Mutation::LeadsOnInItsTerm),
    without("catching up before logs are judged", Mutation::JudgesTooEarly),
    without("knowing where an epoch starts", Mutation::AnswersBeforeItsEpoch),
    without("telling the lives of replicas", Mutation::IgnoresLives),
    in_transactions("trying again to write a marker", Mutation::MarksOnce),
    in_transactions("waiting until a marker is replicated", Mutation::MarksAlone),
    in_transactions("telling groups of the ends of transactions", Mutation::MarksBehindGroups),
    in_transactions("looking at who ends a transaction", Mutation::EndsForAnybody),
    in_transactions("refusing records of fenced producers", Mutation::VouchesForFenced),
    in_transactions("looking at who vouches", Mutation::BelievesReplaced),
    in_transactions("forgetting calls that were given up", Mutation::BeginsWhatWasGivenUp),
    in_transactions("a last stable offset", Mutation::ReadsUnstable),
    in_transactions("telling what was aborted", Mutation::ForgetsAborted),
];
