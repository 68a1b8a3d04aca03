//! The source `spooldir`: files that are put into a directory whole, each read once.
//!
//! How far the file that is being read has been delivered is noted in `trackerDir` after each batch. A kill in
//! between repeats one batch.

mod notes;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use self::notes::Notes;
use self::walk::{Looked, Wanted};
use super::troubles::Troubles;
use super::{
    BATCH_BYTES, FILE_HEADER_KEY, LINES_AT_ONCE, SourceContext, Starting, name_text, on_thread,
};
use crate::codec::file_lines::{Bounds, read_lines};
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::event::Event;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "spooldir",
    aliases: &["org.apache.flume.source.SpoolDirectorySource"],
    doc: "Reads files that are put into a directory, line by line, and renames or deletes each when all of it is in \
          channels. A file must not change once it is there: if it does, the source says so, and reads on. A file that cannot \
          be read, or renamed, is told of at ERROR, counted in `EventReadFail`, and tried again every 2 s; others are read \
          meanwhile.",
    keys: &[
        key("spoolDir", Kind::Text, Fallback::Required, "The directory."),
        key(
            "fileSuffix",
            Kind::Text,
            Fallback::Is(".COMPLETED"),
            "What is put behind the name of a file that was read.",
        ),
        key(
            "deletePolicy",
            Kind::Choice(&["never", "immediate"]),
            Fallback::Is("never"),
            "Whether files that were read are deleted.",
        ),
        key(
            "fileHeader",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether a header has the file's path.",
        ),
        FILE_HEADER_KEY,
        key(
            "basenameHeader",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether a header has the file's name.",
        ),
        key("basenameHeaderKey", Kind::Text, Fallback::Is("basename"), "That header."),
        key(
            "includePattern",
            Kind::Regex,
            Fallback::Is("^.*$"),
            "Which files are read, by their whole names.",
        ),
        key("ignorePattern", Kind::Regex, Fallback::Is("^$"), "Which are not."),
        key(
            "trackerDir",
            Kind::Text,
            Fallback::Is(".flumespool"),
            "Where it is noted how far a file was read; below spoolDir unless it is absolute.",
        ),
        key(
            "trackingPolicy",
            Kind::Only(&["rename"], "files are told apart by their names"),
            Fallback::Is("rename"),
            "How files that were read are known.",
        ),
        key(
            "consumeOrder",
            Kind::Choice(&["oldest", "youngest", "random"]),
            Fallback::Is("oldest"),
            "Which file comes next; random is the first that is found.",
        ),
        key(
            "pollDelay",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("500"),
            "How often to look for files.",
        ),
        key(
            "recursiveDirectorySearch",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether directories below count too.",
        ),
        key(
            "maxBackoff",
            Kind::Ignored("channels are tried again after 4 s at most"),
            Fallback::Nothing,
            "How long to wait for a channel.",
        ),
        LINES_AT_ONCE,
        key(
            "inputCharset",
            Kind::Only(&["UTF-8"], "bodies are the bytes of the file"),
            Fallback::Is("UTF-8"),
            "How files are written.",
        ),
        key(
            "decodeErrorPolicy",
            Kind::Ignored("bodies are the bytes of the file, whatever they are"),
            Fallback::Nothing,
            "What Flume does about bytes that are no text.",
        ),
        key(
            "deserializer",
            Kind::Only(&["LINE"], "others are Java's classes"),
            Fallback::Is("LINE"),
            "How files are cut into events.",
        ),
        key(
            "deserializer.maxLineLength",
            Kind::Number(1, 1 << 30, "bytes"),
            Fallback::Is("2048"),
            "How long a line may be. A longer one becomes several events.",
        ),
        key(
            "deserializer.outputCharset",
            Kind::Only(&["UTF-8"], "bodies are the bytes of the file"),
            Fallback::Is("UTF-8"),
            "How bodies are written.",
        ),
        key(
            "bufferMaxLines",
            Kind::Ignored("Flume ignores it, too"),
            Fallback::Nothing,
            "Obsolete.",
        ),
        key(
            "bufferMaxLineLength",
            Kind::Ignored("use deserializer.maxLineLength"),
            Fallback::Nothing,
            "Obsolete.",
        ),
    ],
    shared: &[],
};

pub(crate) fn start(context: SourceContext) -> Starting {
    Box::pin(async move {
        let spool = Spool::new(context)?;
        Ok(on_thread(move |handle| spool.run(handle)))
    })
}

/// The files that are read next, as a look has found them. A look takes long where many files are.
struct List {
    files: VecDeque<PathBuf>,
    made_at: Instant,
    /// After so long, files may have come that are to be read before these.
    holds_for: Duration,
}

impl List {
    fn new() -> List {
        List { files: VecDeque::new(), made_at: Instant::now(), holds_for: Duration::ZERO }
    }
}

/// A list holds at least so many times as long as the look took: most of the time is for reading.
const LOOKS_PER_LIST: u32 = 4;

struct Spool {
    context: SourceContext,
    tracker: PathBuf,
    wanted: Wanted,
    notes: Notes,
    troubles: Troubles,
    list: List,
    /// Headers for a file's path and its name.
    path_header: Option<String>,
    name_header: Option<String>,
}

impl Spool {
    fn new(context: SourceContext) -> Result<Spool, String> {
        let settings = &context.settings;
        let directory = settings.path("spoolDir");
        if !directory.is_dir() {
            return Err(format!("spoolDir {} is no directory", directory.display()));
        }
        let tracker = directory.join(settings.path("trackerDir"));
        fs::create_dir_all(&tracker)
            .map_err(|error| format!("trackerDir {}: {error}", tracker.display()))?;
        let wanted = Wanted::new(settings, directory, tracker.clone());
        let header = |flag, key| settings.text_if(flag, key).map(str::to_owned);
        let path_header = header("fileHeader", "fileHeaderKey");
        let name_header = header("basenameHeader", "basenameHeaderKey");
        let (notes, troubles, list) = (Notes::read(&tracker), Troubles::new(), List::new());
        Ok(Spool { tracker, wanted, notes, troubles, list, path_header, name_header, context })
    }

    fn run(mut self, handle: &Handle) {
        let pause = self.context.settings.millis("pollDelay");
        loop {
            while self.read_next(handle) {}
            if handle.block_on(self.context.stop.sleep(pause)) {
                return;
            }
        }
    }

    /// Reads the next file; whether to look for another one at once.
    fn read_next(&mut self, handle: &Handle) -> bool {
        let Some(path) = self.next_file() else { return false };
        match self.read(&path, handle) {
            Ok(is_whole) => {
                if is_whole && self.troubles.end(&path) {
                    tracing::info!(source = self.context.delivery.source(), path = %path.display(), "a file that was in trouble is done with");
                }
                // Another one may have been taken away since it was listed: that is no reason to wait.
                is_whole || !self.list.files.is_empty() && !self.context.stop.is_set()
            }
            Err(error) => {
                self.trouble(&path, &error);
                true
            }
        }
    }

    /// Counts and tells that something cannot be done now, unless that was told a moment ago.
    fn trouble(&mut self, path: &Path, what: &str) {
        if self.troubles.add(path, what) {
            self.context.delivery.counters().malformed.add(1);
            tracing::error!(
                source = self.context.delivery.source(),
                error = what,
                "a file is not as it should be: it is tried again, and others are read"
            );
        }
    }

    fn next_file(&mut self) -> Option<PathBuf> {
        let list = &self.list;
        if list.files.is_empty() || list.made_at.elapsed() >= list.holds_for {
            self.look();
        }
        self.list.files.pop_front()
    }

    /// Lists the files that can be read now, in their order.
    fn look(&mut self) {
        let began_at = Instant::now();
        let Looked { files: mut found, failed } = self.wanted.look(&self.context.stop);
        let there: BTreeSet<&Path> = found.iter().map(|(_, path)| &**path).collect();
        let is_failed = |path: &Path| failed.iter().any(|(failed, _)| failed == path);
        self.troubles.keep(|path| there.contains(path) || is_failed(path));
        for (path, error) in failed {
            self.trouble(&path, &format!("cannot look into {}: {error}", path.display()));
        }
        found.retain(|(_, path)| !self.troubles.rest(path));
        found.sort();
        if self.context.settings.is("consumeOrder", "youngest") {
            found.sort_by(|(a, path_a), (b, path_b)| b.cmp(a).then_with(|| path_a.cmp(path_b)));
        }
        // What was begun comes first.
        let paths = found.into_iter().map(|(_, path)| path);
        let (begun, others): (Vec<_>, Vec<_>) = paths.partition(|path| self.notes.has(path));
        let files = begun.into_iter().chain(others).collect();
        let poll = self.context.settings.millis("pollDelay");
        let holds_for = poll.max(began_at.elapsed() * LOOKS_PER_LIST);
        self.list = List { files, made_at: Instant::now(), holds_for };
    }

    /// Reads a file to its end; `false` if the agent ends before, or the file is gone.
    fn read(&mut self, path: &Path, handle: &Handle) -> Result<bool, String> {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let file = match File::open(path) {
            // Somebody has taken it away since it was found.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(failed)?,
        };
        let before = file.metadata().map_err(failed)?;
        let mut note = self.notes.of(path, &file, &before);
        let settings = &self.context.settings;
        let bounds = Bounds {
            lines: settings.size("batchSize"),
            bytes: BATCH_BYTES,
            line_bytes: settings.size("deserializer.maxLineLength"),
        };
        loop {
            if self.context.stop.is_set() {
                return Ok(false);
            }
            let position = note.identity.position;
            let batch = read_lines(&file, position, bounds, true).map_err(failed)?;
            if batch.lines.is_empty() {
                break;
            }
            let events = batch.lines.into_iter().map(|line| self.event(path, line.line)).collect();
            if !handle.block_on(self.context.delivery.insist(events, &self.context.stop)) {
                return Ok(false);
            }
            note.identity.advance(&batch.raw, batch.end);
            let written = self.notes.write(path, &note);
            written.map_err(|error| {
                format!("cannot note a position in {}: {error}", self.tracker.display())
            })?;
        }
        let after = fs::metadata(path).map_err(failed)?;
        if after.len() != before.len() || after.modified().ok() != before.modified().ok() {
            return Err(format!("{} was changed while it was read", path.display()));
        }
        self.retire(path)?;
        Ok(true)
    }

    fn event(&self, path: &Path, body: bytes::Bytes) -> Event {
        let mut event = Event::new(body);
        if let Some(header) = &self.path_header {
            event.headers.set(header.as_str(), path.display().to_string());
        }
        if let Some(header) = &self.name_header {
            event.headers.set(header.as_str(), name_text(path));
        }
        event
    }

    fn retire(&mut self, path: &Path) -> Result<(), String> {
        let settings = &self.context.settings;
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        if settings.is("deletePolicy", "immediate") {
            fs::remove_file(path).map_err(failed)?;
        } else {
            let mut name = path.as_os_str().to_owned();
            name.push(settings.required("fileSuffix"));
            let done = PathBuf::from(name);
            if done.exists() {
                return Err(format!(
                    "{} was read before: {} is there",
                    path.display(),
                    done.display()
                ));
            }
            fs::rename(path, &done).map_err(failed)?;
        }
        self.notes.remove(path).map_err(failed)
    }
}
