//! Reading partitions.
//!
//! [`Consumer`] hands out what the [`Fetcher`] task fetches ahead. Where to begin and to end is
//! found out once, by [`start`].

mod aborted;
mod fetched;
mod fetcher;
mod first_timestamps;
mod position;
mod request;
mod start;
mod unplaced;

use std::collections::BTreeMap;
use std::time::Duration;

pub use fetched::{FetchEvent, FetchedRecords};
use logway_model::{Offset, TopicPartition};
use logway_record::DecodeLimit;
pub use start::StartAt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::fetcher::Fetcher;
use crate::{Client, ClientError, Isolation};

/// How many responses may wait to be read, beside the one being read and one per broker on its
/// way.
const RESPONSES_AHEAD: usize = 1;

/// How a consumer behaves.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// Whether to end at the offsets that are the ends of the partitions at the start, instead of
    /// following them for ever.
    pub stops_at_end: bool,
    /// What to see of transactions.
    pub isolation: Isolation,
    /// How much one response may hold, unless a single batch is larger.
    pub fetch_bytes_max: u32,
    /// How much of it one partition may take, unless a single batch is larger.
    pub partition_bytes_max: u32,
    /// How long a broker waits for new records before it answers with none.
    pub wait_max: Duration,
    /// How long to try again while a partition cannot be read.
    pub patience: Duration,
    /// How much memory decoding a single batch may take.
    pub decode_limit: DecodeLimit,
}

impl Default for ConsumerOptions {
    fn default() -> ConsumerOptions {
        ConsumerOptions {
            stops_at_end: false,
            isolation: Isolation::default(),
            fetch_bytes_max: 16 << 20,
            partition_bytes_max: 4 << 20,
            wait_max: Duration::from_millis(500),
            patience: Duration::from_secs(60),
            decode_limit: DecodeLimit::DEFAULT,
        }
    }
}

/// Reads given partitions from given places, each in order; belongs to no group and commits
/// nothing.
///
/// It sees nothing of partitions that a topic gets later, and of transactions what
/// [`ConsumerOptions::isolation`] says.
#[derive(Debug)]
pub struct Consumer {
    responses: mpsc::Receiver<Result<Vec<FetchEvent>, ClientError>>,
    fetcher: JoinHandle<()>,
    starts: BTreeMap<TopicPartition, Offset>,
}

impl Consumer {
    /// Looks up where to begin, and begins to fetch over connections of its own. A partition without
    /// a leader keeps nobody from reading the others: it has [`ConsumerOptions::patience`] to get
    /// one.
    ///
    /// # Errors
    ///
    /// A partition that does not exist or cannot be read, or [`ClientError::OffsetOutOfRange`]
    /// for an offset beyond a partition's end.
    pub async fn open(
        client: &Client,
        assignment: &BTreeMap<TopicPartition, StartAt>,
        options: ConsumerOptions,
    ) -> Result<Consumer, ClientError> {
        let client = client.fork();
        let starts = start::resolve(&client, assignment, &options).await?;
        let offsets = starts.offsets.clone();
        let (events, responses) = mpsc::channel(RESPONSES_AHEAD);
        let fetcher = tokio::spawn(Fetcher::new(client, options, events).run(starts));
        Ok(Consumer { responses, fetcher, starts: offsets })
    }

    /// Where reading began in each partition that had a leader then.
    pub fn starts(&self) -> &BTreeMap<TopicPartition, Offset> {
        &self.starts
    }

    /// What one response brought, or `None` when all partitions have been read to their ends.
    ///
    /// # Errors
    ///
    /// What could not be overcome; there is nothing after it.
    pub async fn next(&mut self) -> Result<Option<Vec<FetchEvent>>, ClientError> {
        self.responses.recv().await.transpose()
    }

    /// Whether [`Consumer::next`] would return at once.
    pub fn is_ready(&self) -> bool {
        !self.responses.is_empty()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.fetcher.abort();
    }
}
