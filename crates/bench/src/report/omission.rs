//! What was not measured, and why.

use serde::{Deserialize, Serialize};

use crate::measure::Durability;

/// A work that a side cannot do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Omission {
    /// The experiment, such as `produce`.
    pub experiment: String,
    /// The work, one line of the experiment's table.
    pub work: String,
    /// What an acknowledgement would have promised.
    pub durability: Option<Durability>,
    /// Who was not asked.
    pub side: String,
    /// Why, as the rest of a sentence that begins with the side's name.
    pub reason: String,
}

/// A sentence for each side and reason, with all works that it holds for.
pub(super) fn sentences(omissions: &[Omission]) -> Vec<String> {
    let mut groups: Vec<(&Omission, Vec<String>)> = Vec::new();
    for omission in omissions {
        let Omission { experiment, work, durability, .. } = omission;
        let work = match durability {
            Some(durability) => format!("{experiment}: {work}, {}", durability.name()),
            None => format!("{experiment}: {work}"),
        };
        let is_same = |(known, _): &&mut (&Omission, Vec<String>)| {
            (&known.side, &known.reason) == (&omission.side, &omission.reason)
        };
        match groups.iter_mut().find(is_same) {
            Some((_, works)) => works.push(work),
            None => groups.push((omission, vec![work])),
        }
    }
    let sentence = |(omission, works): &(&Omission, Vec<String>)| {
        format!("{} {}. Not measured: {}.", omission.side, omission.reason, works.join("; "))
    };
    groups.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_with_one_reason_are_one_sentence() {
        let omission = |side: &str, work: &str, reason: &str| Omission {
            experiment: "produce".to_owned(),
            work: work.to_owned(),
            durability: None,
            side: side.to_owned(),
            reason: reason.to_owned(),
        };
        let omissions = [
            omission("nats", "a", "has no batches"),
            omission("rabbitmq", "a", "has no batches"),
            omission("nats", "b", "has no batches"),
            omission("nats", "c", "is too young"),
        ];
        let expected = [
            "nats has no batches. Not measured: produce: a; produce: b.",
            "rabbitmq has no batches. Not measured: produce: a.",
            "nats is too young. Not measured: produce: c.",
        ];
        assert_eq!(sentences(&omissions), expected);
    }
}
