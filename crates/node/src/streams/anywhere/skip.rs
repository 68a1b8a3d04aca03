//! Moving the end of a partition forward: some offsets will have no record.

use std::sync::Arc;

use logway_model::{ErrorCode, Offset};
use logway_record::Batch;
use tokio::time::Instant;

use super::{Partition, SEARCH_MAX, failure, in_time};
use crate::Node;
use crate::append::append_placeholder;
use crate::failure::Failure;
use crate::streams::message::Task;

/// One call leaves out so many offsets at most. Each two billions take a batch and a segment.
pub const SKIP_MAX: i64 = 1 << 36;

impl Node {
    /// Moves the end of a partition forward to `to`, if it is before that, and waits until that is committed. Batches without
    /// records stand for the offsets between, as compaction leaves them. Gives an end that the partition has had since.
    ///
    /// Errors: `INVALID_REQUEST` for more than [`SKIP_MAX`] offsets; those of appends. After some of these the end may have moved
    /// by a part of the way: it does no harm to call again.
    pub async fn skip_anywhere(
        self: &Arc<Self>,
        partition: Partition,
        to: Offset,
    ) -> Result<Offset, Failure> {
        let here = || self.skip_here(partition, to);
        self.of_leader(partition, Task::Skip(to), SEARCH_MAX, here).await
    }

    pub(super) async fn skip_here(
        &self,
        partition: Partition,
        to: Offset,
    ) -> Result<Offset, Failure> {
        in_time(Instant::now() + SEARCH_MAX, self.skip(partition, to)).await
    }

    async fn skip(&self, partition: Partition, to: Offset) -> Result<Offset, Failure> {
        let replica = self.leading(partition).map_err(failure)?;
        let epoch = replica.leader_epoch();
        loop {
            let end = replica.log().log_end_offset();
            if end >= to {
                replica.committed(to, epoch).await?;
                return Ok(end);
            }
            if to - end > SKIP_MAX {
                let message = format!(
                    "the partition ends at {end}, and {to} is more than {SKIP_MAX} offsets further"
                );
                return Err(Failure::new(ErrorCode::InvalidRequest, message));
            }
            for placeholder in Batch::placeholders(end, to, epoch) {
                let start = placeholder.base_offset();
                let appending = append_placeholder(&replica, start, placeholder)?;
                match appending.finish().await.map_err(Failure::from) {
                    Ok(_) => {}
                    // Others append meanwhile.
                    Err(moved) if moved.code == ErrorCode::OffsetOutOfRange => break,
                    Err(failed) => return Err(failed),
                }
            }
        }
    }
}
