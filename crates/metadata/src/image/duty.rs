//! What a node is there for, by the setting `logway.node.duty`.

/// What a node is there for, beside what it holds already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// To lead and to follow.
    All,
    /// To follow: others lead, as long as any can. It ends with the node's next start.
    Follow,
    /// To follow, and to get no new replicas: it is about to leave the cluster.
    Leave,
}

impl Duty {
    /// By the setting's word. An unknown one is of a later version, and takes nothing away.
    pub(crate) fn of_word(word: &str) -> Duty {
        match word {
            "follow" => Duty::Follow,
            "leave" => Duty::Leave,
            _ => Duty::All,
        }
    }
}
