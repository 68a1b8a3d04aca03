//! File by file: what becomes of each, whatever an agent before has left.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;
use crate::channel::Channel;
use crate::stop::{Stop, Stopper};
use crate::tests::{source_with_channel, take_all};

/// A source whose looks are taken one by one.
struct Spooling {
    folder: TempDir,
    more: String,
    runtime: Runtime,
    channel: Arc<Channel>,
    spool: Spool,
    stopper: Stopper,
}

impl Spooling {
    fn new(more: &str) -> Spooling {
        let folder = tempfile::tempdir().expect("is made");
        let runtime = Runtime::new().expect("is made");
        let (stopper, stop) = Stopper::new();
        let (spool, channel) = runtime.block_on(spool(folder.path(), more, stop));
        Spooling { folder, more: more.to_owned(), runtime, channel, spool, stopper }
    }

    /// As a kill and a start.
    fn start_again(&mut self) {
        let (stopper, stop) = Stopper::new();
        let started = self.runtime.block_on(spool(self.folder.path(), &self.more, stop));
        (self.spool, self.channel) = started;
        self.stopper = stopper;
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("is written");
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// The bodies that all files bring that can be read now.
    fn look(&mut self) -> Vec<String> {
        while self.spool.read_next(self.runtime.handle()) {}
        self.bodies()
    }

    fn errors(&self) -> u64 {
        self.spool.context.delivery.counters().malformed.get()
    }

    fn bodies(&self) -> Vec<String> {
        let body = |event: &Event| String::from_utf8_lossy(&event.body).into_owned();
        self.runtime.block_on(take_all(&self.channel)).iter().map(body).collect()
    }

    /// Reads so many bytes of a file, as a batch before a kill.
    fn begin(&mut self, name: &str, bytes: usize) {
        let (path, text) = (self.path(name), fs::read(self.path(name)).expect("is there"));
        let file = File::open(&path).expect("is there");
        let metadata = file.metadata().expect("is there");
        let mut note = self.spool.notes.of(&path, &file, &metadata);
        note.identity.advance(&text[..bytes], bytes as u64);
        self.spool.notes.write(&path, &note).expect("is written");
    }
}

async fn spool(folder: &Path, more: &str, stop: Stop) -> (Spool, Arc<Channel>) {
    let lines = format!("type = 'spooldir'\nspoolDir = '{}'\n{more}", folder.display());
    let (context, channel) = source_with_channel(&lines, stop).await;
    (Spool::new(context).expect("starts"), channel)
}

#[test]
fn a_file_that_was_begun_is_read_on_and_the_next_of_its_name_from_the_start() {
    let mut spooling = Spooling::new("");
    spooling.write("x", "1\n2\n3\n4\n");
    spooling.begin("x", 4);
    spooling.start_again();
    assert_eq!(spooling.look(), ["3", "4"]);
    assert!(spooling.has("x.COMPLETED") && !spooling.has(".flumespool/logway-position.json"));

    // Another file takes the name, with another content, and then with the same.
    spooling.write("y", "1\n2\n3\n4\n");
    spooling.begin("y", 4);
    spooling.write("new", "a\nb\nc\n");
    fs::rename(spooling.path("new"), spooling.path("y")).expect("is renamed");
    spooling.start_again();
    assert_eq!(spooling.look(), ["a", "b", "c"]);
    spooling.write("z", "1\n2\n3\n4\n");
    spooling.begin("z", 4);
    fs::remove_file(spooling.path("z")).expect("is there");
    spooling.write("z", "1\n2\n3\n4\n5\n");
    spooling.start_again();
    assert_eq!(spooling.look(), ["1", "2", "3", "4", "5"]);
}

#[test]
fn a_kill_before_the_note_of_a_deleted_file_is_gone_takes_nothing_of_the_next_one() {
    let mut spooling = Spooling::new("deletePolicy = 'immediate'");
    spooling.write("x", "1\n2\n");
    spooling.begin("x", 4);
    fs::remove_file(spooling.path("x")).expect("is there");
    spooling.write("x", "1\n2\n");
    spooling.start_again();
    assert_eq!(spooling.look(), ["1", "2"]);
    assert!(!spooling.has("x"));
}

#[test]
fn what_is_in_trouble_holds_up_nothing_else_and_goes_on_when_it_is_mended() {
    let mut spooling = Spooling::new("batchSize = 1");
    // One was read before, and one cannot be read.
    spooling.write("a.COMPLETED", "");
    spooling.write("a", "1\n2\n");
    std::os::unix::fs::symlink("/proc/self/mem", spooling.path("b")).expect("is made");
    spooling.write("c", "3\n");
    let mut came = spooling.look();
    came.sort();
    assert_eq!(came, ["1", "2", "3"]);
    assert_eq!(spooling.errors(), 2);
    assert!(spooling.has("a") && spooling.has("c.COMPLETED"));
    // They are tried again, and not told of each time; nothing comes twice.
    spooling.spool.troubles.try_after = Duration::ZERO;
    for _ in 0..3 {
        spooling.spool.read_next(spooling.runtime.handle());
    }
    assert_eq!((spooling.bodies().len(), spooling.errors()), (0, 2));
    spooling.spool.troubles.try_after = Duration::from_secs(3600);
    spooling.start_again();
    assert!(spooling.look().is_empty());
    fs::remove_file(spooling.path("a.COMPLETED")).expect("is there");
    fs::remove_file(spooling.path("b")).expect("is there");
    spooling.write("b", "4\n");
    spooling.spool.troubles.try_after = Duration::ZERO;
    assert_eq!(spooling.look(), ["4"]);
    assert!(spooling.has("a.COMPLETED") && spooling.has("b.COMPLETED"));
    // The place of the notes is away: nothing comes twice while the agent runs.
    fs::remove_dir_all(spooling.path(".flumespool")).expect("is there");
    spooling.write("d", "5\n6\n");
    let tried = [(); 4].map(|()| {
        spooling.spool.read_next(spooling.runtime.handle());
        spooling.bodies()
    });
    assert_eq!(tried.concat(), ["5", "6"]);
}

#[test]
fn names_that_are_no_text_or_have_line_feeds_are_read() {
    let mut spooling = Spooling::new("basenameHeader = true");
    let names: [&[u8]; 2] = [b"caf\xe9", b"two\nlines"];
    for name in names {
        fs::write(spooling.path("").join(OsStr::from_bytes(name)), "one\n").expect("is written");
    }
    assert_eq!(spooling.look(), ["one", "one"]);
    for name in names {
        let done = [name, b".COMPLETED"].concat();
        assert!(spooling.path("").join(OsStr::from_bytes(&done)).exists());
    }
}

#[test]
fn directories_that_lead_to_each_other_are_looked_into_once_each() {
    let mut spooling =
        Spooling::new("recursiveDirectorySearch = true\nfileHeader = true\ntrackerDir = 'notes'");
    let below = spooling.path("below");
    fs::create_dir(&below).expect("is made");
    for (target, link) in
        [(".", "a"), (".", "b"), ("below", "c"), ("..", "below/d"), ("notes", "e")]
    {
        std::os::unix::fs::symlink(target, spooling.path(link)).expect("is made");
    }
    spooling.write("x", "1\n");
    spooling.write("below/y", "2\n");
    // What is noted is no file of the directory, whatever leads there.
    spooling.write("notes/z", "no\n");
    while spooling.spool.read_next(spooling.runtime.handle()) {}
    let events = spooling.runtime.block_on(take_all(&spooling.channel));
    let mut paths: Vec<_> = events.iter().filter_map(|event| event.headers.get("file")).collect();
    paths.sort_unstable();
    let path = |name| spooling.path(name).display().to_string();
    assert_eq!(paths, [path("below/y"), path("x")]);
    // No look outlasts the agent.
    spooling.write("z", "3\n");
    let files =
        |spooling: &Spooling| spooling.spool.wanted.look(&spooling.spool.context.stop).files;
    assert_eq!(files(&spooling).len(), 1);
    spooling.stopper.stop();
    assert!(files(&spooling).is_empty());
}

/// Writes a file that is so many hours old.
fn write_aged(spooling: &Spooling, name: &str, hours: u64) {
    spooling.write(name, &format!("{name}\n"));
    let file = File::options().append(true).open(spooling.path(name)).expect("is there");
    let time = SystemTime::now() - Duration::from_secs(hours * 3600);
    file.set_modified(time).expect("is set");
}

#[test]
fn a_list_of_files_is_worked_off_and_made_anew_after_a_time() {
    for (order, expected, after) in [
        ("oldest", ["b", "a", "d", "c"], ["c", "f", "b", "a", "e"]),
        ("youngest", ["a", "b", "c", "d"], ["a", "e", "b", "c", "f"]),
    ] {
        let mut spooling = Spooling::new(&format!("consumeOrder = '{order}'\npollDelay = 3600000"));
        write_aged(&spooling, "a", 2);
        write_aged(&spooling, "b", 3);
        assert!(spooling.spool.read_next(spooling.runtime.handle()));
        // What comes meanwhile comes next time, though it would be before.
        write_aged(&spooling, "c", 1);
        write_aged(&spooling, "d", 4);
        assert_eq!(spooling.look(), expected, "{order}");

        // A list that was made long ago does not count.
        for (name, hours) in [("a", 2), ("b", 3), ("c", 4)] {
            fs::remove_file(spooling.path(&format!("{name}.COMPLETED"))).expect("is there");
            write_aged(&spooling, name, hours);
        }
        assert!(spooling.spool.read_next(spooling.runtime.handle()));
        spooling.spool.list.holds_for = Duration::ZERO;
        write_aged(&spooling, "e", 1);
        write_aged(&spooling, "f", 5);
        assert_eq!(spooling.look(), after, "{order}");
    }
    // One that is gone does not hold up others.
    let mut spooling = Spooling::new("pollDelay = 3600000");
    for (name, hours) in [("a", 3), ("b", 2), ("c", 1)] {
        write_aged(&spooling, name, hours);
    }
    assert!(spooling.spool.read_next(spooling.runtime.handle()));
    fs::remove_file(spooling.path("b")).expect("is there");
    assert_eq!(spooling.look(), ["a", "c"]);
}
