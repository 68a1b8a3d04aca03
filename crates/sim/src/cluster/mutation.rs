//! Rules of nodes that are left out, to see whether the oracle notices.

use logway_node::cluster::Mutation;

/// A rule that every node of a world breaks.
#[derive(Debug, Clone, Copy)]
pub struct ClusterMutation {
    /// What is left out.
    pub name: &'static str,
    pub(super) rule: Mutation,
}

const fn without(name: &'static str, rule: Mutation) -> ClusterMutation {
    ClusterMutation { name, rule }
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
    without("knowing where an epoch starts", Mutation::AnswersBeforeItsEpoch),
    without("telling the lives of replicas", Mutation::IgnoresLives),
];
