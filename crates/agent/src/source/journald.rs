//! The source `journald`: systemd's journal, by way of `journalctl`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, timeout_at};

use super::command::{RunningCommand, log_errors};
use super::{Running, SourceContext, Starting, write_whole};
use crate::codec::journal::{Entries, Entry};
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::event::{Event, Headers};
use crate::settings::Settings;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "journald",
    aliases: &["systemd"],
    doc: "Follows systemd's journal. It runs `journalctl`, and notes how far it has read when events are in their channels: \
          after a kill a batch may come twice, and nothing is missed as long as the journal has it. The body is the field \
          `MESSAGE`, all other fields are headers under their names, and `timestamp` is the time of the entry.",
    keys: &[
        key(
            "cursorFile",
            Kind::Text,
            Fallback::Required,
            "The file in which it is noted how far the journal was read.",
        ),
        key(
            "begin",
            Kind::Choice(&["all", "now"]),
            Fallback::Is("all"),
            "Where to begin while there is no such file: with all that the journal has, or with what comes from now on.",
        ),
        key(
            "units",
            Kind::Names,
            Fallback::Nothing,
            "Units whose entries are read; without it all.",
        ),
        key(
            "matches",
            Kind::Names,
            Fallback::Nothing,
            "Fields that entries have to have, such as `PRIORITY=3 _UID=0`; `+` between them is an or.",
        ),
        key(
            "directory",
            Kind::Text,
            Fallback::Nothing,
            "Where the journal is, if it is not this machine's own.",
        ),
        key("journalctl", Kind::Text, Fallback::Is("journalctl"), "The program."),
        key(
            "batchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("100"),
            "How many entries go into channels at once.",
        ),
        key(
            "batchTimeout",
            Kind::Number(0, i64::MAX, "ms"),
            Fallback::Is("1000"),
            "How long fewer wait for more.",
        ),
        key(
            "maxEntryBytes",
            Kind::Number(1024, 1 << 30, "bytes"),
            Fallback::Is("1048576"),
            "How long an entry may be. Fields beyond that are left out, and counted in `EventReadFail`.",
        ),
    ],
    shared: &[],
};

/// How long to wait before a program that has ended is run again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How much is read at once.
const PIECE_BYTES: usize = 32 << 10;

/// The longest cursor that is believed.
const CURSOR_BYTES_MAX: usize = 1024;

pub(crate) fn start(context: SourceContext) -> Starting {
    Box::pin(async move {
        let path = context.settings.path("cursorFile");
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let cursor = read_cursor(&path)?;
        let child = spawn(&context, cursor.as_deref())?;
        Ok(Box::pin(run(context, path, cursor, child)) as Running)
    })
}

/// The cursor that was noted last; nothing if there is no file.
fn read_cursor(path: &Path) -> Result<Option<String>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let cursor = text.trim();
    let is_sound = !cursor.is_empty()
        && cursor.len() <= CURSOR_BYTES_MAX
        && cursor.bytes().all(|byte| byte.is_ascii_graphic());
    match is_sound {
        true => Ok(Some(cursor.to_owned())),
        // To go on without it would read all of the journal again.
        false => Err(format!("{} has no cursor of the journal", path.display())),
    }
}

fn arguments(settings: &Settings, cursor: Option<&str>) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["--output=export", "--follow", "--no-pager", "--all"].map(str::to_owned).to_vec();
    if settings.is_set("directory") {
        arguments.push(format!("--directory={}", settings.path("directory").display()));
    }
    arguments.extend(settings.names("units").iter().map(|unit| format!("--unit={unit}")));
    arguments.push(match cursor {
        Some(cursor) => format!("--after-cursor={cursor}"),
        None if settings.is("begin", "now") => "--lines=0".to_owned(),
        None => "--no-tail".to_owned(),
    });
    if cursor.is_some() {
        arguments.push("--no-tail".to_owned());
    }
    arguments.extend(settings.names("matches"));
    arguments
}

fn spawn(context: &SourceContext, cursor: Option<&str>) -> Result<RunningCommand, String> {
    let program = context.settings.required("journalctl").trim();
    let mut command = Command::new(program);
    command.args(arguments(&context.settings, cursor));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    RunningCommand::spawn(command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no '{program}' here: systemd's journal is read by its program; set journalctl if it is elsewhere"
        ),
        _ => format!("cannot run '{program}': {error}"),
    })
}

async fn run(
    context: SourceContext,
    path: PathBuf,
    mut cursor: Option<String>,
    first: RunningCommand,
) {
    let source = context.delivery.source().to_owned();
    let (mut next, mut pause) = (Some(first), PAUSE_MIN);
    loop {
        let child = match next.take() {
            Some(child) => Ok(child),
            None => spawn(&context, cursor.as_deref()),
        };
        match child {
            Ok(mut child) => {
                let stderr = child.stderr.take().expect("it was asked for");
                let errors = tokio::spawn(log_errors(context.clone(), stderr));
                let before = cursor.clone();
                let stdout = child.stdout.take().expect("it was asked for");
                let mut reading = Reading { context: &context, path: &path, cursor: &mut cursor };
                if let Err(error) = reading.read(stdout).await {
                    context.delivery.counters().malformed.add(1);
                    tracing::error!(source, %error, "the journal cannot be read");
                }
                if context.stop.is_set() {
                    return errors.abort();
                }
                // It says why on stderr, whose end comes with its own.
                drop(child);
                let _ = errors.await;
                tracing::warn!(source, "journalctl has ended; it is run again");
                if cursor != before {
                    pause = PAUSE_MIN;
                }
            }
            Err(error) => tracing::error!(source, error),
        }
        if context.stop.sleep(pause).await {
            return;
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What one run of the program writes.
struct Reading<'a> {
    context: &'a SourceContext,
    path: &'a Path,
    /// Of the last entry that is in its channels.
    cursor: &'a mut Option<String>,
}

impl Reading<'_> {
    /// Reads until the program or the agent ends.
    async fn read(&mut self, mut stdout: Receiver) -> io::Result<()> {
        let settings = &self.context.settings;
        let (batch_max, patience) = (settings.size("batchSize"), settings.millis("batchTimeout"));
        let batch_max = batch_max.min(self.context.delivery.batch_max());
        let mut entries = Entries::new(settings.size("maxEntryBytes"));
        let mut batch: Vec<Entry> = Vec::new();
        let mut until = None;
        loop {
            while let Some(entry) = entries.next().map_err(io::Error::other)? {
                until = until.or_else(|| Instant::now().checked_add(patience));
                batch.push(entry);
                if batch.len() >= batch_max {
                    until = None;
                    if !self.deliver(std::mem::take(&mut batch)).await? {
                        return Ok(());
                    }
                }
            }
            entries.buffer().reserve(PIECE_BYTES);
            let mut limited = (&mut stdout).take(PIECE_BYTES as u64);
            let far = Instant::now() + Duration::from_secs(86_400);
            let read = tokio::select! {
                () = self.context.stop.wait() => break,
                read = timeout_at(until.unwrap_or(far), limited.read_buf(entries.buffer())) => read,
            };
            match read {
                Ok(read) => {
                    if read? == 0 {
                        break;
                    }
                }
                Err(_) => {
                    until = None;
                    if !self.deliver(std::mem::take(&mut batch)).await? {
                        return Ok(());
                    }
                }
            }
        }
        self.deliver(batch).await.map(drop)
    }

    /// Puts entries into channels, and notes that they are there; `false` if the end came before.
    async fn deliver(&mut self, batch: Vec<Entry>) -> io::Result<bool> {
        let Some(last) = batch.last() else { return Ok(true) };
        let cursor = last.text("__CURSOR").map(str::to_owned);
        let cursor = cursor.ok_or_else(|| io::Error::other("an entry has no cursor"))?;
        let left_out = batch.iter().map(|entry| entry.left_out).sum();
        let events = batch.into_iter().map(event).collect();
        let Reading { context, path, .. } = self;
        context.delivery.counters().malformed.add(left_out);
        if !context.delivery.insist(events, &context.stop).await {
            return Ok(false);
        }
        let (path, text) = (path.to_owned(), format!("{cursor}\n"));
        let written = tokio::task::spawn_blocking(move || write_whole(&path, text.as_bytes()));
        written.await.map_err(io::Error::other)??;
        *self.cursor = Some(cursor);
        Ok(true)
    }
}

/// Of fields that are there more than once, the last one holds, as in any event.
fn event(entry: Entry) -> Event {
    let times = ["_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP"];
    let micros = times.iter().find_map(|name| entry.text(name)?.parse::<u64>().ok());
    let mut body = Bytes::new();
    let mut headers = Vec::new();
    for (name, value) in entry.fields {
        match name.as_str() {
            "MESSAGE" => body = value,
            _ => {
                let text = String::from_utf8_lossy(&value).into_owned();
                headers.push((name.into_boxed_str(), text.into_boxed_str()));
            }
        }
    }
    if let Some(micros) = micros {
        headers.push(("timestamp".into(), (micros / 1000).to_string().into_boxed_str()));
    }
    Event { headers: Headers::from_pairs(headers), body }
}
