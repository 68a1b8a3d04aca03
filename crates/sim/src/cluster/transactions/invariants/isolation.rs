//! No record of a transaction that is aborted, or not ended, is returned to a `read_committed` reader.

use logway_node::read::Isolation;

use crate::cluster::transactions::ledger::Fate;

/// Judges a batch that a reader returns, by its transaction.
pub(in crate::cluster::transactions) fn check(
    known: Option<(u64, Fate)>,
    isolation: Isolation,
) -> Result<(), String> {
    match known {
        None => Err("is what nobody has sent".to_owned()),
        Some((number, Fate::NotAsked)) if isolation == Isolation::Committed => {
            Err(format!("is a record of transaction {number}, which nobody has committed"))
        }
        Some(_) => Ok(()),
    }
}
