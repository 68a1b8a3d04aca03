//! The end of the last transaction.

use logway_client::{ClientError, Producer};
use logway_record::TransactionOutcome;

use super::LAST_FLUSH;
use crate::cli::ends::Ends;
use crate::cli::error::CliError;

/// Commits what was read, if that is all there is to read. Otherwise aborts the transaction that is open.
pub(super) async fn finish(
    sent: Result<(), CliError>,
    producer: &mut Producer,
    ends: &mut Ends,
) -> Result<(), CliError> {
    let committed = match sent {
        Ok(()) => tokio::select! {
            committed = producer.commit() => committed.map_err(CliError::from),
            end = ends.any() => Err(CliError::Ended(end)),
        },
        failed => failed,
    };
    if committed.is_err() {
        abort(producer, ends).await;
    }
    committed
}

/// Has the open transaction aborted, and says what has become of it.
async fn abort(producer: &mut Producer, ends: &mut Ends) {
    let aborted = tokio::select! {
        aborted = producer.abort() => aborted,
        () = tokio::time::sleep(LAST_FLUSH) => Err(ClientError::Stopped { task: "abort" }),
        _ = ends.any() => Err(ClientError::Stopped { task: "abort" }),
    };
    match aborted {
        Ok(None) => {}
        Ok(Some(TransactionOutcome::Abort)) => eprintln!("the open transaction was aborted"),
        Ok(Some(TransactionOutcome::Commit)) => eprintln!("the last transaction was committed"),
        Err(error) => eprintln!(
            "warning: {error}: the broker aborts the open transaction after --transaction-timeout"
        ),
    }
}
