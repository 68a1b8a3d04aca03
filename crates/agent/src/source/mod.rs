//! Sources: where events arise. Each file is one, with its declaration and its start.
//!
//! A start returns when what the source needs is there: its port, its directory. What it returns then runs until
//! it is told to stop.

pub(crate) mod avro;
mod body;
mod command;
pub(crate) mod exec;
pub(crate) mod forward;
pub(crate) mod generated;
pub(crate) mod http;
mod identity;
pub(crate) mod journald;
pub(crate) mod kafka;
pub(crate) mod listener;
pub(crate) mod netcat;
pub(crate) mod object_store;
pub(crate) mod otlp;
pub(crate) mod spooldir;
pub(crate) mod syslog_tcp;
pub(crate) mod syslog_udp;
pub(crate) mod taildir;
pub(crate) mod thrift;
mod troubles;

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use regex_lite::Regex;
use tokio::runtime::Handle;

use crate::declaration::{Fallback, Key, Kind, key};
use crate::delivery::Delivery;
use crate::error::StartError;
use crate::settings::Settings;
use crate::stop::Stop;
use crate::threads::Held;

/// Keys of sources that read lines of files.
const FILE_HEADER_KEY: Key = key("fileHeaderKey", Kind::Text, Fallback::Is("file"), "That header.");
const LINES_AT_ONCE: Key = key(
    "batchSize",
    Kind::Number(1, 1_000_000, "events"),
    Fallback::Is("100"),
    "How many lines go into channels at once; fewer if they have 8 MiB together.",
);
const LINE_LENGTH_MAX: Key = key(
    "maxLineLength",
    Kind::Number(16, 1 << 30, "bytes"),
    Fallback::Is("1048576"),
    "How long a line may be. A longer one becomes several events.",
);

/// A batch ends behind the line with which it has so many bytes, also if `batchSize` is more lines. It is in memory as it
/// was read and as events, and lines may have a MiB each: without this bound, a thousand of them took GiBs.
const BATCH_BYTES: usize = 8 << 20;

/// What a source is given.
#[derive(Debug, Clone)]
pub(crate) struct SourceContext {
    pub(crate) settings: Settings,
    pub(crate) delivery: Delivery,
    pub(crate) stop: Stop,
}

/// A source that runs.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source that starts.
pub(crate) type Starting = Pin<Box<dyn Future<Output = Result<Running, StartError>> + Send>>;

/// How a source starts.
pub(crate) type StartSource = fn(SourceContext) -> Starting;

/// A source that runs on a thread which may wait for disks.
fn on_thread(run: impl FnOnce(&Handle) + Send + 'static) -> Running {
    Box::pin(async move {
        let (handle, held) = (Handle::current(), Held::new());
        let run = move || {
            let _held = held;
            run(&handle);
        };
        if let Err(error) = tokio::task::spawn_blocking(run).await {
            tracing::error!(%error, "a source has panicked");
        }
    })
}

/// A pattern for whole names of files. A name may have line feeds in it, which a dot has to match, too.
fn names_pattern(pattern: &str) -> Result<Regex, regex_lite::Error> {
    Regex::new(&format!("^(?s:{pattern})$"))
}

/// A file's name as a text. Bytes that are none are replaced, so that such a file is read like others.
fn name_text(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Puts a file in place of another, as a whole.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let mut file = File::create(&temporary)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_data()?;
    fs::rename(temporary, path)
}
