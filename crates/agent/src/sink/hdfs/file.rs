//! One file: it grows, and then it gets its name.

use std::time::Duration;

use hdfs_native::file::FileWriter;

use super::client::{Failure, Hdfs};
use super::form::Encoder;
use crate::error::SinkError;
use crate::event::Event;
use crate::sink::rolling::Extent;

/// A file that grows.
pub(super) struct GrowingFile {
    pub(super) writer: FileWriter,
    pub(super) in_use: String,
    /// The number in its name.
    pub(super) number: i64,
    pub(super) encoder: Encoder,
    pub(super) extent: Extent,
    /// It has bytes that are committed.
    pub(super) has_batches: bool,
    /// A batch was begun and not ended, by an error or because its task was ended: what is there of it nobody knows.
    pub(super) is_torn: bool,
}

impl GrowingFile {
    /// Writes some events. After an error the file is torn.
    pub(super) async fn append(&mut self, hdfs: &Hdfs, events: &[Event]) -> Result<(), SinkError> {
        self.is_torn = true;
        let bytes = self.encoder.encode(events).map_err(SinkError::later)?;
        let appended = hdfs.append(&self.in_use, &mut self.writer, bytes.into()).await;
        appended.map_err(SinkError::later)?;
        (self.is_torn, self.has_batches) = (false, true);
        self.extent.add(events);
        Ok(())
    }
}

/// How often a rename is tried, and how long between.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tries {
    /// `None` for until it is done.
    pub(super) max: Option<u64>,
    pub(super) interval: Duration,
}

/// Closes a file and gives it its name; one without a batch is deleted. All that matters was made durable before, so
/// errors are told of and nothing else. If another file has the name, the next number is taken.
pub(super) async fn complete(
    hdfs: Hdfs,
    mut file: GrowingFile,
    name: impl Fn(i64) -> String,
    tries: Tries,
) {
    let from = file.in_use;
    let closed = hdfs.close(&from, &mut file.writer).await;
    if let Err(error) = &closed {
        tracing::warn!(%error, "a file is not closed; its events are there");
    }
    drop(file.writer);
    let (mut is_closed, mut number, mut tried) = (closed.is_ok(), file.number, 0);
    loop {
        let to = name(number);
        let done = async {
            if !is_closed {
                hdfs.recover(&from).await?;
            }
            is_closed = true;
            match file.has_batches {
                true if from == to => Ok(()),
                true => hdfs.rename(&from, &to, false).await,
                false => hdfs.delete(&from).await,
            }
        };
        match done.await {
            Ok(()) => return,
            Err(Failure::Exists(_)) => number += 1,
            // An answer was lost, or somebody else moved it.
            Err(error @ Failure::NotFound(_)) => {
                return tracing::warn!(%error, "a complete file is not renamed to {to}");
            }
            Err(error) => {
                tracing::warn!(%error, "a complete file is not renamed to {to}");
                tried += 1;
                if tries.max.is_some_and(|max| tried >= max) {
                    return;
                }
                tokio::time::sleep(tries.interval).await;
            }
        }
    }
}
