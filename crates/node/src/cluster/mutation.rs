//! Rules that a node breaks, to see whether a simulation notices.

use logway_quorum::Mutation as OfQuorum;

use crate::Node;

/// A rule that a node breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// An append is acknowledged when this node has it. Other replicas need not.
    AcknowledgesAlone,
    /// A follower tells its end before it is on its disk.
    TellsBeforeFlush,
    /// How far a follower is counts though its records are not the leader's.
    CountsDiverging,
    /// A new follower cuts its log off at the high watermark that it knows (KAFKA-1211).
    CutsToWatermark,
    /// A new leader shows all that it has, committed or not.
    ShowsItsEnd,
    /// The high watermark does not wait for who may be in sync already.
    IgnoresProposed,
    /// A broker that is back goes on with the life that it had (KAFKA-18106).
    KeepsItsLife,
    /// A broker that is back leads what the metadata says before its life has begun.
    LeadsBeforeItsLife,
    /// A controller that is back leads on in its term.
    LeadsOnInItsTerm,
    /// A broker that is back judges its logs by the metadata that it had: of topics that it does not know they are set aside
    /// (KAFKA-13127).
    JudgesTooEarly,
    /// A leader answers followers before its log knows where its epoch starts.
    AnswersBeforeItsEpoch,
    /// A leader proposes who is in sync without saying in which of their lives it has seen that.
    IgnoresLives,
    /// A coordinator takes each marker for written after the first try.
    MarksOnce,
    /// A leader says that a marker is written before other replicas have it.
    MarksAlone,
    /// The coordinator of a group is not told of the ends of transactions that are in its log.
    MarksBehindGroups,
    /// A coordinator does not look at who asks for the end of a transaction.
    EndsForAnybody,
    /// A leader takes the first records of a transaction also from a producer that is fenced, as the coordinator says.
    VouchesForFenced,
    /// A leader takes the first records of a transaction whatever epoch the coordinator has that vouches for them.
    BelievesReplaced,
    /// A node begins a call that its caller has given up, behind what the caller has asked for since. A simulation's network
    /// brings such calls: connections do not (`logway_peers`).
    BeginsWhatWasGivenUp,
    /// `read_committed` readers get what is behind the last stable offset.
    ReadsUnstable,
    /// `read_committed` readers are not told which transactions were aborted.
    ForgetsAborted,
}

impl Mutation {
    pub(crate) fn of_quorum(self) -> Option<OfQuorum> {
        (self == Mutation::LeadsOnInItsTerm).then_some(OfQuorum::LeadsOnInItsTerm)
    }
}

impl Node {
    /// Whether this node breaks a rule. None does in production.
    pub(crate) fn breaks(&self, rule: Mutation) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.mutation == Some(rule))
    }
}
