//! The sink `hdfs`: files of HDFS, as Flume's sink writes them.
//!
//! Each bucket, which is a path with the beginning of a name, has one file that grows. A batch is committed when all of
//! it was synced on the DataNodes. A file is closed and renamed by a task of its own: no batch waits for that.

pub(crate) mod client;
mod declaration;
mod file;
mod form;
mod naming;
mod sequence;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use self::client::{Failure, Hdfs};
pub(crate) use self::declaration::DECLARATION;
use self::file::{GrowingFile, Tries, complete};
use self::form::Form;
use self::naming::Naming;
use super::paths::sorted;
use super::rolling::{Extent, Rolling};
use super::{Ending, Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::error::{SinkError, StartError};
use crate::event::Event;
use crate::interceptor::now_ms;
use crate::settings::Settings;

/// With so many files on their way to their names, a batch waits for one of them, but no longer than for a call.
const COMPLETING_MAX: usize = 64;

struct HdfsSink {
    hdfs: Hdfs,
    call_timeout: Duration,
    naming: Arc<Naming>,
    form: Form,
    rolling: Rolling,
    files_max: usize,
    tries: Tries,
    /// By bucket.
    growing: BTreeMap<String, GrowingFile>,
    completing: JoinSet<()>,
    /// In the name of the last file: no two files of the sink have the same.
    number: i64,
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let settings = &context.settings;
    let (address, path) = client::located(settings.required("hdfs.path").trim())?;
    let form = Form::new(settings)?;
    let naming = Naming::new(settings, path, form.extension())?;
    let call_timeout = settings.millis("hdfs.callTimeout");
    let user = settings.text("hdfs.proxyUser").map(str::trim);
    let max = settings.number("hdfs.closeTries");
    let interval = settings.seconds("hdfs.retryInterval");
    Ok(Box::new(HdfsSink {
        hdfs: Hdfs::new(address, user, call_timeout)?,
        call_timeout,
        naming: Arc::new(naming),
        form,
        rolling: rolling(settings),
        files_max: settings.size("hdfs.maxOpenFiles"),
        tries: Tries { max: (max > 0).then_some(max), interval },
        growing: BTreeMap::new(),
        completing: JoinSet::new(),
        number: 0,
    }))
}

/// Of each of Flume's bounds 0 is none.
fn rolling(settings: &Settings) -> Rolling {
    let bound = |key: &str| Some(settings.number(key)).filter(|bound| *bound > 0);
    Rolling {
        interval: bound("hdfs.rollInterval").map(Duration::from_secs),
        idle: bound("hdfs.idleTimeout").map(Duration::from_secs),
        events_max: bound("hdfs.rollCount"),
        bytes_max: bound("hdfs.rollSize"),
    }
}

impl HdfsSink {
    async fn write(&mut self, batch: &Taken) -> Result<(), SinkError> {
        self.tend();
        let now_ms = now_ms();
        let buckets = sorted(batch, |event| self.naming.bucket(event, now_ms))?;
        for (bucket, indices) in buckets {
            let mut left = &indices[..];
            while !left.is_empty() {
                self.let_some_complete().await;
                if !self.growing.contains_key(&bucket) {
                    let file = self.begin(&bucket).await.map_err(SinkError::later)?;
                    self.growing.insert(bucket.clone(), file);
                }
                let file = self.growing.get_mut(&bucket).expect("it was begun");
                let room = self.rolling.room(&file.extent, left.iter().map(|i| &batch.events[*i]));
                let (now, later) = left.split_at(room);
                let events: Vec<Event> = now.iter().map(|i| batch.events[*i].clone()).collect();
                file.append(&self.hdfs, &events).await?;
                left = later;
                if self.rolling.is_due(&file.extent) {
                    self.complete(&bucket);
                }
            }
        }
        Ok(())
    }

    /// A new file, whose name nobody has.
    async fn begin(&mut self, bucket: &str) -> Result<GrowingFile, Failure> {
        if self.growing.len() >= self.files_max {
            let quietest = self.growing.iter().min_by_key(|(_, file)| file.extent.written);
            if let Some(bucket) = quietest.map(|(bucket, _)| bucket.clone()) {
                self.complete(&bucket);
            }
        }
        loop {
            self.number = (self.number + 1).max(now_ms());
            let number = self.number;
            let in_use = self.naming.in_use(bucket, number);
            let writer = match self.hdfs.create(&in_use, false).await {
                // Another agent began one within the same millisecond.
                Err(Failure::Exists(_)) => continue,
                created => created?,
            };
            let (encoder, extent) = (self.form.encoder(), Extent::new());
            let (has_batches, is_torn) = (false, false);
            return Ok(GrowingFile {
                writer,
                in_use,
                number,
                encoder,
                extent,
                has_batches,
                is_torn,
            });
        }
    }

    /// Ends a bucket's file; the next event begins another.
    fn complete(&mut self, bucket: &str) {
        let Some(file) = self.growing.remove(bucket) else { return };
        let (bucket, naming) = (bucket.to_owned(), Arc::clone(&self.naming));
        let name = move |number| naming.complete(&bucket, number);
        self.completing.spawn(complete(self.hdfs.clone(), file, name, self.tries));
    }

    async fn let_some_complete(&mut self) {
        while self.completing.try_join_next().is_some() {}
        if self.completing.len() >= COMPLETING_MAX {
            _ = tokio::time::timeout(self.call_timeout, self.completing.join_next()).await;
        }
    }
}

impl Sink for HdfsSink {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        Box::pin(self.write(batch))
    }

    fn tend(&mut self) {
        let is_due = |file: &GrowingFile| file.is_torn || self.rolling.is_due(&file.extent);
        let due = self.growing.iter().filter(|(_, file)| is_due(file));
        let due: Vec<String> = due.map(|(bucket, _)| bucket.clone()).collect();
        due.iter().for_each(|bucket| self.complete(bucket));
    }

    fn end(&mut self) -> Ending<'_> {
        let buckets: Vec<String> = self.growing.keys().cloned().collect();
        buckets.iter().for_each(|bucket| self.complete(bucket));
        Box::pin(async move { while self.completing.join_next().await.is_some() {} })
    }
}
