//! The source `taildir`: files that grow, whatever is done to them.
//!
//! | module      | what it is about                                          |
//! |-------------|-----------------------------------------------------------|
//! | this one    | settings, the thread, what is read when                   |
//! | `tailed`    | one file: how far it was read, and whether it is the same |
//! | `copies`    | whether a new file is the copy of a truncated one         |
//! | `reading`   | events out of files, into channels                        |
//! | `multiline` | events of several lines                                   |
//! | `positions` | the files that remember that                              |

mod copies;
mod multiline;
mod positions;
mod reading;
mod tailed;
#[cfg(test)]
mod tests;

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use regex_lite::Regex;
use tokio::runtime::Handle;

use self::copies::{Alike, Copies, Stranger, Verdict};
use self::multiline::Multiline;
use self::positions::Positions;
use self::tailed::Tailed;
use super::identity::{FileId, Identity, modified};
use super::troubles::Troubles;
use super::{
    FILE_HEADER_KEY, LINE_LENGTH_MAX, LINES_AT_ONCE, SourceContext, Starting, name_text,
    names_pattern, on_thread,
};
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::StartError;
use crate::settings::{Settings, home_expanded};

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "taildir",
    aliases: &["org.apache.flume.source.taildir.TaildirSource"],
    doc: "Reads files line by line while they grow. Positions are kept in Flume's file, and beside it what the files \
          begin with and what was read last of them: so a renamed file is read on, one that was copied and then truncated is \
          read on in its copy if the copy is among the files, and a new file that got an old inode is read from its \
          start. A file that begins like another one is its copy only if that one was truncated then; it is read up to \
          2 s later, so that this can be told. A copy of a file that is not truncated, and a file that an editor has \
          written anew, are read as a whole. What is known of a file is kept while it is not \
          there, for 7 days and of 10,000 such files, and for longer while its directory is away or empty. After a kill, \
          lines since the last note of positions come again.",
    keys: &[
        key("filegroups", Kind::Names, Fallback::Required, "Names for sets of files."),
        key(
            "filegroups.*",
            Kind::Text,
            Fallback::Nothing,
            "The files of a set: a directory's path, and a regular expression for whole names in it.",
        ),
        key(
            "positionFile",
            Kind::Text,
            Fallback::Is("~/.flume/taildir_position.json"),
            "Where positions are kept.",
        ),
        key(
            "headers.*",
            Kind::Text,
            Fallback::Nothing,
            "`headers.SET.NAME`: a header for all lines of a set.",
        ),
        key(
            "byteOffsetHeader",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether the header `byteoffset` has a line's place.",
        ),
        key(
            "skipToEnd",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether files that are there at the start and have no position are read from their end.",
        ),
        key(
            "idleTimeout",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("120000"),
            "After so long without a line a file is closed. A last line without its end is an event then, and what is \
             written behind it later is another one.",
        ),
        key(
            "writePosInterval",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("3000"),
            "How often positions are noted.",
        ),
        LINES_AT_ONCE,
        key(
            "maxBatchCount",
            Kind::Number(1, i64::MAX, "batches"),
            Fallback::Is("9223372036854775807"),
            "How many batches of one file are read in a row.",
        ),
        key(
            "backoffSleepIncrement",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("1000"),
            "By how much longer to wait after each look that found no line.",
        ),
        key(
            "maxBackoffSleep",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("5000"),
            "How long to wait at most.",
        ),
        key(
            "cachePatternMatching",
            Kind::Ignored("directories are looked into each time"),
            Fallback::Nothing,
            "Whether Flume remembers which files match.",
        ),
        key(
            "fileHeader",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether a header has the file's path.",
        ),
        FILE_HEADER_KEY,
        LINE_LENGTH_MAX,
        multiline::PATTERN,
        multiline::WHAT,
        multiline::NEGATE,
        multiline::MAX_LINES,
        multiline::MAX_BYTES,
        multiline::TIMEOUT,
    ],
    shared: &[],
};

/// How many files may be read. Each takes some 3 KiB of memory, and a descriptor while lines come.
const FILES_MAX: usize = 10_000;

pub(crate) fn start(context: SourceContext) -> Starting {
    Box::pin(async move {
        let tail = Tail::new(context)?;
        Ok(on_thread(move |handle| tail.run(handle)))
    })
}

/// What a look has found.
#[derive(Clone)]
struct Found {
    path: PathBuf,
    group: usize,
    metadata: fs::Metadata,
}

/// A set of files.
struct Group {
    directory: PathBuf,
    names: Regex,
    headers: Vec<(String, String)>,
}

struct Tail {
    context: SourceContext,
    groups: Vec<Group>,
    positions: Positions,
    files: HashMap<FileId, Tailed>,
    /// Files that were found, and may be copies.
    strangers: HashMap<FileId, Stranger>,
    copies: Copies,
    troubles: Troubles,
    multiline: Option<Multiline>,
    /// Whether new files are read from their end: those of the first look, if they are to be.
    skips: bool,
    gone_patience: Duration,
    noted_at: Instant,
}

/// Says what a start would refuse. Nothing is looked at.
pub(crate) fn try_settings(settings: &Settings) -> Result<(), StartError> {
    settings.names("filegroups").iter().try_for_each(|name| files_of(settings, name).map(drop))?;
    Multiline::new(settings).map(drop)
}

/// Where the files of a set are, and how they are named.
fn files_of(settings: &Settings, name: &str) -> Result<(PathBuf, Regex), StartError> {
    let key = format!("filegroups.{name}");
    let pattern = settings.text(&key).ok_or_else(|| format!("{key} is not set"))?;
    let path = home_expanded(pattern.trim());
    let directory = path.parent().map(Path::to_owned).unwrap_or_default();
    if !directory.is_absolute() {
        return Err(format!("{key} is '{pattern}', and has to be absolute"));
    }
    let names = path.file_name().and_then(|names| names.to_str()).unwrap_or_default();
    let names = names_pattern(names);
    let names = names.map_err(|error| format!("{key} ends in no regular expression: {error}"))?;
    Ok((directory, names))
}

/// A file that was deleted, or renamed to where no set is, is closed when it has not grown for so long: those who write
/// into it open the new one a moment later.
const GONE_PATIENCE: Duration = Duration::from_secs(5);

/// What is known of a file that is not there is kept for so long: the directory may be away, or empty because nothing is
/// mounted there.
const FORGET_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

/// Of so many files at most; of others than those that were found last nothing is kept then.
const GONE_MAX: usize = FILES_MAX;

impl Tail {
    fn new(context: SourceContext) -> Result<Tail, String> {
        let settings = &context.settings;
        let mut groups = Vec::new();
        for name in settings.names("filegroups") {
            let (directory, names) = files_of(settings, &name)?;
            let stem = format!("headers.{name}.");
            let headers = settings
                .below(&stem)
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            groups.push(Group { directory, names, headers });
        }
        let multiline = Multiline::new(settings)?;
        let mut positions = Positions::new(settings.path("positionFile"))?;
        let mut files = HashMap::new();
        for tailed in positions.read()? {
            files.insert(tailed.id, tailed);
        }
        let skips = settings.flag("skipToEnd");
        let (strangers, copies, noted_at) = (HashMap::new(), Copies::new(), Instant::now());
        Ok(Tail {
            context,
            groups,
            positions,
            files,
            strangers,
            copies,
            troubles: Troubles::new(),
            multiline,
            skips,
            gone_patience: GONE_PATIENCE,
            noted_at,
        })
    }

    fn run(mut self, handle: &Handle) {
        let settings = self.context.settings.clone();
        let (step, max) =
            (settings.millis("backoffSleepIncrement"), settings.millis("maxBackoffSleep"));
        let note_interval = settings.millis("writePosInterval");
        let mut pause = Duration::ZERO;
        loop {
            let has_read = self.round(handle);
            self.note_in_time();
            pause = if has_read { Duration::ZERO } else { (pause + step).min(max) };
            // Positions are noted in time, also when there is nothing to read for long.
            let pause = pause.min(note_interval);
            if self.context.stop.is_set() || handle.block_on(self.context.stop.sleep(pause)) {
                break;
            }
        }
        self.end(handle);
    }

    /// What cannot be found any more is read to its end: the next start has no way to it. A last line without its end
    /// stays where it is in other files.
    fn end(&mut self, handle: &Handle) {
        let gone = self.files.values().filter(|tailed| tailed.is_gone && tailed.file.is_some());
        for id in gone.map(|tailed| tailed.id).collect::<Vec<_>>() {
            self.close(id, handle);
            if let Some(left) = self.files.get(&id).filter(|tailed| tailed.file.is_some()) {
                self.context.delivery.counters().malformed.add(1);
                tracing::error!(source = self.context.delivery.source(), path = %left.path.display(), position = left.identity.position,
                    "the agent ends, and the last lines of a file that is gone are not read");
            }
        }
        self.note();
    }

    /// Looks at all files, and reads what has come; whether anything has.
    fn round(&mut self, handle: &Handle) -> bool {
        let (found, away) = self.look();
        self.find_again(&found);
        let mut order: Vec<(SystemTime, FileId)> = Vec::new();
        // Before strangers are judged, it has to be known which files were truncated.
        for (id, found) in &found {
            match self.files.contains_key(id) {
                true => self.meet_again(*id, found),
                false => self.meet(*id, found),
            }
            order.push((modified(&found.metadata), *id));
        }
        self.judge(&found);
        self.skips = false;
        for (id, tailed) in &mut self.files {
            tailed.is_gone = !found.contains_key(id);
            tailed.is_noted_only &= tailed.is_gone;
            // Of a directory that is away nothing can be said.
            if !tailed.is_gone || tailed.path.parent().is_some_and(|folder| away.contains(folder)) {
                tailed.found_at = Instant::now();
            }
        }
        // Files that are open and were renamed out of sight are read to their ends.
        for (id, tailed) in self.files.iter().filter(|(_, tailed)| tailed.is_gone) {
            if tailed.file.is_some() {
                order.push((SystemTime::UNIX_EPOCH, *id));
            }
        }
        order.sort();
        let mut has_read = false;
        for (_, id) in order {
            has_read |= self.read_file(id, handle);
            if self.context.stop.is_set() {
                return has_read;
            }
        }
        self.close_quiet(handle);
        self.forget();
        self.forget_troubles(&found);
        has_read
    }

    /// Forgets files that were deleted, and those that are gone for long or are too many.
    fn forget(&mut self) {
        self.files.retain(|_, tailed| {
            tailed.file.is_some() || !tailed.is_deleted && tailed.found_at.elapsed() < FORGET_AFTER
        });
        let gone = self.files.values().filter(|tailed| tailed.is_gone && tailed.file.is_none());
        let mut gone: Vec<(Instant, FileId)> =
            gone.map(|tailed| (tailed.found_at, tailed.id)).collect();
        let surplus = gone.len().saturating_sub(GONE_MAX);
        if surplus > 0 {
            gone.sort_unstable();
            gone[..surplus].iter().for_each(|(_, id)| _ = self.files.remove(id));
        }
    }

    /// The files that match now, and the directories that are away: they cannot be looked into, or nothing is there.
    fn look(&mut self) -> (BTreeMap<FileId, Found>, HashSet<PathBuf>) {
        let mut found = BTreeMap::new();
        let folders = self.groups.iter().map(|group| group.directory.clone());
        let mut away: HashSet<PathBuf> = folders.collect();
        for index in 0..self.groups.len() {
            let directory = self.groups[index].directory.clone();
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) => {
                    self.cannot_read(&directory, &error);
                    continue;
                }
            };
            self.troubles.end(&directory);
            let group = &self.groups[index];
            for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
                if !group.names.is_match(&name_text(&path)) {
                    continue;
                }
                let Ok(metadata) = fs::metadata(&path) else { continue };
                if !metadata.is_file() {
                    continue;
                }
                if found.len() >= FILES_MAX {
                    tracing::error!(source = self.context.delivery.source(), max = FILES_MAX, path = %path.display(), "there are too many files: some are not read");
                    return (found, away);
                }
                away.remove(&directory);
                let id = FileId::of(&metadata);
                found.entry(id).or_insert(Found { path, group: index, metadata });
            }
        }
        (found, away)
    }

    /// Finds files again that were noted on another device: a file system may get another number with each start of
    /// the machine. Inode, content and path have to be the same, unless there is no file at that path any more.
    fn find_again(&mut self, found: &BTreeMap<FileId, Found>) {
        let noted = self.files.values().filter(|tailed| tailed.is_noted_only);
        let lost: Vec<FileId> =
            noted.map(|tailed| tailed.id).filter(|id| !found.contains_key(id)).collect();
        if lost.is_empty() {
            return;
        }
        let paths: HashSet<&Path> = found.values().map(|found| &*found.path).collect();
        let mut by_inode: HashMap<u64, Vec<FileId>> = HashMap::new();
        for id in lost {
            by_inode.entry(id.inode).or_default().push(id);
        }
        for (id, found) in
            found.iter().filter(|(id, _)| !self.files.contains_key(id)).collect::<Vec<_>>()
        {
            let Some(candidates) = by_inode.get_mut(&id.inode) else { continue };
            let Ok(Some(file)) = open(&found.path, *id) else { continue };
            let is_it = |candidate: &FileId| {
                let tailed = &self.files[candidate];
                (tailed.path == found.path || !paths.contains(&*tailed.path))
                    && !tailed.is_replaced(&found.metadata)
                    && tailed.is_same(&file, &found.path)
            };
            let Some(index) = candidates.iter().position(is_it) else { continue };
            if let Some(mut tailed) = self.files.remove(&candidates.swap_remove(index)) {
                tailed.id = *id;
                self.files.insert(*id, tailed);
            }
        }
    }

    /// A file that is known, perhaps under another name now, with more in it, or with something else.
    fn meet_again(&mut self, id: FileId, found: &Found) {
        let Found { path, group, metadata } = found;
        let Some(tailed) = self.files.get_mut(&id) else { return };
        tailed.group = Some(*group);
        if tailed.has_seen(metadata) && tailed.path == *path {
            return;
        }
        let file = match open(path, id) {
            Ok(Some(file)) => file,
            Ok(None) => return,
            Err(error) => return self.cannot_read(path, &error),
        };
        let is_replaced = tailed.is_replaced(metadata);
        if !is_replaced && tailed.is_same(&file, path) {
            if let Err(error) = tailed.identity.complete(&file) {
                return self.cannot_read(path, &error);
            }
            tailed.path = path.to_owned();
        } else {
            tracing::info!(source = self.context.delivery.source(), path = %path.display(), position = tailed.identity.position,
                "a file was truncated or written anew, and is read from its start");
            let before = tailed.start_anew(path);
            tailed.is_truncated = !is_replaced;
            if !is_replaced {
                self.copies.note_truncated(id, before);
            }
        }
        tailed.note_seen(metadata);
        tailed.file = Some(file);
    }

    /// A file that nobody knows: a new one, or a copy.
    fn meet(&mut self, id: FileId, found: &Found) {
        let Found { path, group, metadata } = found.clone();
        if let Some(stranger) = self.strangers.get_mut(&id) {
            (stranger.path, stranger.group, stranger.metadata) = (path, group, metadata);
            return;
        }
        if metadata.len() == 0 {
            return;
        }
        let begin = if self.skips { metadata.len() } else { 0 };
        match open(&path, id) {
            Ok(Some(file)) => {
                let stranger = Stranger::new(path, group, file, metadata, begin);
                self.strangers.insert(id, stranger);
            }
            Ok(None) => {}
            Err(error) => self.cannot_read(&path, &error),
        }
    }

    /// Decides of strangers what they are, if that can be told already.
    fn judge(&mut self, found: &BTreeMap<FileId, Found>) {
        if self.strangers.is_empty() {
            return;
        }
        let present = self.files.values().filter(|tailed| found.contains_key(&tailed.id));
        let alike = Alike::of(present);
        for (id, mut stranger) in std::mem::take(&mut self.strangers) {
            // One that is gone again cannot wait: it is read while it is open.
            let verdict = match found.contains_key(&id) {
                true => self.copies.judge(&mut stranger, &self.files, &alike),
                false => Verdict::New,
            };
            let position = match verdict {
                Verdict::Wait => {
                    self.strangers.insert(id, stranger);
                    continue;
                }
                Verdict::Copy { position } => {
                    tracing::info!(source = self.context.delivery.source(), path = %stranger.path.display(), position,
                        "a file is the copy of one that was read and truncated, and is read on");
                    position
                }
                Verdict::New => stranger.begin,
            };
            let mut tailed = Tailed::new(id, stranger.path.clone());
            // With marks, so that it is known again under another name.
            match Identity::of(&stranger.file, position) {
                Ok(identity) => tailed.identity = identity,
                Err(error) => {
                    self.cannot_read(&stranger.path, &error);
                    continue;
                }
            }
            tailed.group = Some(stranger.group);
            tailed.note_seen(&stranger.metadata);
            tailed.file = Some(stranger.file);
            self.files.insert(id, tailed);
        }
    }

    /// Counts and tells that a file or a directory cannot be read now, unless that was told a moment ago.
    fn cannot_read(&mut self, path: &Path, error: &io::Error) {
        if self.troubles.add(path, &error.to_string()) {
            self.context.delivery.counters().malformed.add(1);
            tracing::error!(source = self.context.delivery.source(), path = %path.display(), %error,
                "cannot be read: it is tried again at each look, and others are read");
        }
    }

    /// Forgets the trouble with files that are neither found any more nor open.
    fn forget_troubles(&mut self, found: &BTreeMap<FileId, Found>) {
        let open = self.files.values().filter(|tailed| tailed.file.is_some());
        let paths = LazyCell::new(|| {
            let folders = self.groups.iter().map(|group| &*group.directory);
            let found = found.values().map(|found| &*found.path);
            folders.chain(found).chain(open.map(|tailed| &*tailed.path)).collect::<HashSet<&Path>>()
        });
        self.troubles.keep(|path| paths.contains(path));
    }

    fn note_in_time(&mut self) {
        if self.noted_at.elapsed() >= self.context.settings.millis("writePosInterval") {
            self.note();
        }
    }

    fn note(&mut self) {
        self.noted_at = Instant::now();
        if let Err(error) = self.positions.write(self.files.values()) {
            tracing::error!(source = self.context.delivery.source(), %error, "positions cannot be noted: after a kill, lines will come again");
        }
    }
}

/// Opens a file that was found; `None` if it was renamed or deleted since. The next look finds it under its other name.
fn open(path: &Path, id: FileId) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok((FileId::of(&file.metadata()?) == id).then_some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
