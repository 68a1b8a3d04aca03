//! Look by look: what one after another brings, of files that change in between.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;
use crate::channel::Channel;
use crate::event::Event;
use crate::stop::{Stop, Stopper};
use crate::tests::{source_with_channel, take_all, toml};

/// A source whose looks are taken one by one. Its files are in `logs`, and nothing is waited for.
struct Tailing {
    folder: TempDir,
    more: String,
    runtime: Runtime,
    channel: Arc<Channel>,
    tail: Tail,
    stopper: Stopper,
}

impl Tailing {
    fn new(more: &str) -> Tailing {
        let folder = tempfile::tempdir().expect("is made");
        fs::create_dir(folder.path().join("logs")).expect("is made");
        let runtime = Runtime::new().expect("is made");
        let (stopper, stop) = Stopper::new();
        let (tail, channel) = runtime.block_on(tail(folder.path(), more, stop));
        Tailing { folder, more: more.to_owned(), runtime, channel, tail, stopper }
    }

    /// As a kill and a start: what was noted last is all that is known.
    fn start_again(&mut self) {
        let (stopper, stop) = Stopper::new();
        let started = self.runtime.block_on(tail(self.folder.path(), &self.more, stop));
        (self.tail, self.channel) = started;
        self.stopper = stopper;
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("logs").join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).expect("is written");
    }

    fn append(&self, name: &str, text: &str) {
        let mut file = fs::OpenOptions::new().append(true).open(self.path(name)).expect("is there");
        io::Write::write_all(&mut file, text.as_bytes()).expect("is written");
    }

    /// The bodies that one look brings.
    fn look(&mut self) -> Vec<String> {
        self.look_for_events().iter().map(body).collect()
    }

    /// As a SIGTERM: the bodies that come then.
    fn end(&mut self) -> Vec<String> {
        self.stopper.stop();
        self.tail.end(self.runtime.handle());
        self.taken().iter().map(body).collect()
    }

    fn look_for_events(&mut self) -> Vec<Event> {
        self.tail.round(self.runtime.handle());
        self.taken()
    }

    fn taken(&self) -> Vec<Event> {
        self.runtime.block_on(take_all(&self.channel))
    }
}

fn body(event: &Event) -> String {
    String::from_utf8_lossy(&event.body).into_owned()
}

async fn tail(folder: &Path, more: &str, stop: Stop) -> (Tail, Arc<Channel>) {
    let lines = format!(
        "type = 'taildir'\npositionFile = '{0}/positions'\nfilegroups.g = '{0}/logs/.*'\n{more}",
        folder.display()
    );
    let (context, channel) = source_with_channel(&lines, stop).await;
    (Tail::new(context).expect("starts"), channel)
}

#[test]
fn files_of_two_file_systems_are_told_apart_though_their_inodes_are_the_same() {
    let mut tailing = Tailing::new("");
    tailing.write("a.log", "one\ntwo\n");
    let id = FileId::of(&fs::metadata(tailing.path("a.log")).expect("is there"));
    // Another file system has a file with this inode, which is as long and says the same.
    let other = FileId { device: id.device.map(|device| device + 1), inode: id.inode };
    let mut known = Tailed::new(other, tailing.path("../elsewhere.log"));
    known.identity.advance(b"one\ntwo\n", 8);
    tailing.tail.files.insert(other, known);
    assert_eq!(tailing.look(), ["one", "two"]);
    assert_eq!(tailing.tail.files[&other].identity.position, 8);
}

#[test]
fn a_file_is_found_again_when_its_device_has_another_number() {
    let mut tailing = Tailing::new("");
    tailing.write("a.log", "one\n");
    assert_eq!(tailing.look(), ["one"]);
    tailing.tail.note();
    for name in ["positions", "positions.marks"] {
        let path = tailing.folder.path().join(name);
        let text = fs::read_to_string(&path).expect("is there");
        let id = FileId::of(&fs::metadata(tailing.path("a.log")).expect("is there"));
        let device = |device: u64| format!("\"device\":{device},");
        let number = id.device.expect("is known");
        fs::write(&path, text.replace(&device(number), &device(number + 1))).expect("is written");
    }
    tailing.append("a.log", "two\n");
    tailing.start_again();
    assert_eq!(tailing.look(), ["two"]);
    // It is another one, if it was made later: what is in memory is gone with each start of the machine.
    let id = FileId::of(&fs::metadata(tailing.path("a.log")).expect("is there"));
    let mut noted = tailing.tail.files.remove(&id).expect("is known");
    noted.id.device = noted.id.device.map(|device| device + 1);
    noted.is_noted_only = true;
    *noted.born.as_mut().expect("the file system says when a file was made") -= 1;
    tailing.tail.files.insert(noted.id, noted);
    assert_eq!(tailing.look(), ["one", "two"]);
    tailing.tail.files.retain(|known, _| *known == id);
    // Flume notes no device, and nothing but a position.
    tailing.tail.note();
    fs::remove_file(tailing.folder.path().join("positions.marks")).expect("is there");
    tailing.append("a.log", "three\n");
    tailing.start_again();
    assert_eq!(tailing.look(), ["three"]);
}

const REPORT: &str = "backup started\nbackup finished without errors: 0 files changed\n";

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn files_that_begin_alike_are_each_read_from_the_start() {
    let mut tailing = Tailing::new("");
    tailing.tail.copies.patience = Duration::ZERO;
    for day in 1..=5 {
        tailing.write(&format!("backup-{day}.log"), REPORT);
        assert_eq!(tailing.look(), lines(REPORT), "day {day}");
    }
    // As a log with a banner that is renamed, also when its new file gets the old inode.
    let header = "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query\n";
    tailing.write("w3c.log", format!("{header}first\n"));
    assert_eq!(tailing.look(), [header.trim_end(), "first"]);
    fs::rename(tailing.path("w3c.log"), tailing.path("w3c.log.1")).expect("is renamed");
    tailing.write("w3c.log", header);
    assert_eq!(tailing.look(), [header.trim_end()]);
    fs::remove_file(tailing.path("w3c.log")).expect("is removed");
    assert!(tailing.look().is_empty());
    tailing.write("w3c.log", header);
    assert_eq!(tailing.look(), [header.trim_end()]);
}

#[test]
fn a_file_that_begins_as_another_waits_for_its_truncation_and_not_for_ever() {
    let mut tailing = Tailing::new("");
    tailing.write("a.log", REPORT);
    assert_eq!(tailing.look(), lines(REPORT));
    tailing.write("a.log.1", REPORT);
    assert!(tailing.look().is_empty());
    tailing.tail.copies.patience = Duration::ZERO;
    assert_eq!(tailing.look(), lines(REPORT));
    // One that is longer than the other is no copy.
    tailing.tail.copies.patience = Duration::from_secs(3600);
    tailing.write("b.log", format!("{REPORT}more\n"));
    assert_eq!(tailing.look().len(), 3);
    // One that is gone meanwhile is read at once.
    tailing.write("a.log.2", REPORT);
    assert!(tailing.look().is_empty());
    fs::remove_file(tailing.path("a.log.2")).expect("is removed");
    assert_eq!(tailing.look(), lines(REPORT));
}

#[test]
fn copies_of_truncated_files_are_read_on_whenever_a_look_falls() {
    let long: String = (0..500).map(|number| format!("line {number} of the log\n")).collect();
    for text in [REPORT, &*long] {
        // Both are done before the look.
        let mut tailing = Tailing::new("");
        tailing.tail.copies.patience = Duration::from_secs(3600);
        tailing.write("a.log", text);
        while !tailing.look().is_empty() {}
        tailing.append("a.log", "unread\n");
        fs::copy(tailing.path("a.log"), tailing.path("a.log.1")).expect("is copied");
        tailing.write("a.log", "");
        assert_eq!(tailing.look(), ["unread"]);
        tailing.append("a.log", "next\n");
        assert_eq!(tailing.look(), ["next"]);

        // A look falls between, and lines between copy and truncation are read, too.
        tailing.append("a.log", text);
        while !tailing.look().is_empty() {}
        tailing.append("a.log", "unread\n");
        fs::copy(tailing.path("a.log"), tailing.path("a.log.2")).expect("is copied");
        tailing.append("a.log", "late\n");
        assert_eq!(tailing.look(), ["unread", "late"]);
        assert!(tailing.look().is_empty());
        tailing.write("a.log", "anew\n");
        assert_eq!(tailing.look(), ["anew"]);

        // The copy is not complete when a look sees it.
        tailing.append("a.log", text);
        while !tailing.look().is_empty() {}
        let whole = fs::read(tailing.path("a.log")).expect("is there");
        tailing.write("a.log.3", &whole[..whole.len() - 30]);
        assert!(tailing.look().is_empty());
        tailing.write("a.log.3", &whole);
        assert!(tailing.look().is_empty());
        tailing.write("a.log", "");
        assert!(tailing.look().is_empty());

        // Nothing was read of it yet when its copy is found.
        assert!(tailing.look().is_empty());
        tailing.append("a.log", text);
        fs::copy(tailing.path("a.log"), tailing.path("a.log.5")).expect("is copied");
        assert_eq!(tailing.look(), lines(text));
        assert!(tailing.look().is_empty());
        tailing.write("a.log", "");
        assert!(tailing.look().is_empty());

        // The agent was away.
        tailing.append("a.log", text);
        while !tailing.look().is_empty() {}
        tailing.tail.note();
        tailing.append("a.log", "unread\n");
        fs::copy(tailing.path("a.log"), tailing.path("a.log.4")).expect("is copied");
        tailing.write("a.log", "last\n");
        tailing.start_again();
        let mut came = tailing.look();
        came.sort();
        assert_eq!(came, ["last", "unread"]);
    }
}

#[test]
fn a_copy_is_known_also_if_little_was_read_before_or_after_a_start() {
    let long: String = (0..500).map(|number| format!("line {number} of the log\n")).collect();
    // What was read before a start, and after it; and whether Flume has noted it, without marks.
    for (before, after, is_flumes) in
        [("first\n", &*long, false), (&long, "short\n", false), (&long, "short\n", true)]
    {
        let mut tailing = Tailing::new("");
        tailing.write("a.log", before);
        while !tailing.look().is_empty() {}
        tailing.tail.note();
        if is_flumes {
            fs::remove_file(tailing.folder.path().join("positions.marks")).expect("is there");
        }
        tailing.start_again();
        tailing.append("a.log", after);
        assert_eq!(tailing.look(), lines(after));
        fs::copy(tailing.path("a.log"), tailing.path("a.log.1")).expect("is copied");
        tailing.write("a.log", "");
        assert!(tailing.look().is_empty(), "{is_flumes}: {after}");
    }
}

#[test]
fn the_hole_is_passed_over_that_a_writer_leaves_in_a_truncated_file() {
    let mut tailing = Tailing::new("byteOffsetHeader = true");
    tailing.write("a.log", "");
    let writer = fs::OpenOptions::new().write(true).open(tailing.path("a.log")).expect("is there");
    // It does not append: each line is behind what was written before, whatever was truncated.
    let line = format!("{}\n", "x".repeat(99));
    let mut end = 0;
    let mut write = |count: usize| {
        writer.write_all_at(line.repeat(count).as_bytes(), end).expect("is written");
        end += 100 * count as u64;
    };
    let looked = |tailing: &mut Tailing| {
        let came = tailing.look_for_events();
        assert!(came.iter().all(|event| body(event) == line.trim_end()));
        came.iter()
            .map(|event| event.headers.get("byteoffset").map(str::to_owned))
            .collect::<Vec<_>>()
    };
    write(100_000);
    assert_eq!(looked(&mut tailing).len(), 100_000);
    for (round, is_seen_empty) in [(0, false), (1, true), (2, false)] {
        fs::copy(tailing.path("a.log"), tailing.path(&format!("a.log.{round}")))
            .expect("is copied");
        writer.set_len(0).expect("is truncated");
        if is_seen_empty {
            assert!(looked(&mut tailing).is_empty());
        }
        write(1);
        assert_eq!(looked(&mut tailing), [Some((10_000_000 + 100 * round).to_string())]);
        assert_eq!(tailing.tail.context.delivery.counters().malformed.get(), round + 1);
    }
    // NULs elsewhere are the writer's.
    tailing.write("b.log", "\0one\n");
    assert_eq!(tailing.look(), ["\0one"]);
    tailing.append("b.log", "\0two\n");
    assert_eq!(tailing.look(), ["\0two"]);
}

#[test]
fn a_batch_ends_also_at_a_bound_of_bytes() {
    let batches =
        |tailing: &Tailing| tailing.tail.context.delivery.counters().batches_received.get();
    let line = format!("{}\n", "z".repeat(1_000_000));
    let mut tailing = Tailing::new("");
    tailing.write("a.log", line.repeat(20));
    assert_eq!(tailing.look().len(), 20);
    assert_eq!(batches(&tailing), 3);
    // An event may be longer than the bound.
    let mut tailing = with_traces("'multiline.maxBytes' = 100000000");
    tailing.write("a.log", format!("first\n{}last\n", format!(" {line}").repeat(20)));
    let came = tailing.look();
    assert_eq!(came.iter().map(String::len).collect::<Vec<_>>(), [5 + 20 * 1_000_002]);
}

#[test]
fn trouble_is_counted_and_told_once() {
    let errors = |tailing: &Tailing| tailing.tail.context.delivery.counters().malformed.get();
    let mut tailing = Tailing::new("");
    tailing.write("a.log", "one\n");
    assert_eq!(tailing.look(), ["one"]);
    // It cannot be read through this.
    let id = FileId::of(&fs::metadata(tailing.path("a.log")).expect("is there"));
    let unreadable = fs::OpenOptions::new().write(true).open(tailing.path("a.log"));
    tailing.tail.files.get_mut(&id).expect("is known").file = unreadable.ok();
    for _ in 0..3 {
        assert!(tailing.look().is_empty());
        assert_eq!(errors(&tailing), 1);
    }
    tailing.append("a.log", "two\n");
    assert_eq!(tailing.look(), ["two"]);
    let (logs, away) = (tailing.folder.path().join("logs"), tailing.folder.path().join("away"));
    for errors_before in [1, 2] {
        fs::rename(&logs, &away).expect("is renamed");
        for _ in 0..3 {
            assert!(tailing.look().is_empty());
            assert_eq!(errors(&tailing), errors_before + 1);
        }
        // It is told again when it was there between.
        fs::rename(&away, &logs).expect("is renamed");
        assert!(tailing.look().is_empty());
    }
}

#[test]
fn copies_are_known_of_many_files_that_are_truncated_at_once() {
    const FILES: usize = 300;
    let mut tailing = Tailing::new("");
    for number in 0..FILES {
        tailing.write(&format!("{number}.log"), format!("{number}: {REPORT}"));
    }
    assert_eq!(tailing.look().len(), FILES * lines(REPORT).len());
    for number in 0..FILES {
        let (path, copy) = (format!("{number}.log"), format!("{number}.log.1"));
        fs::copy(tailing.path(&path), tailing.path(&copy)).expect("is copied");
        tailing.write(&path, "");
    }
    assert!(tailing.look().is_empty());
}

#[test]
fn what_was_written_after_a_truncation_is_no_copy_and_each_has_one() {
    let mut tailing = Tailing::new("");
    tailing.tail.copies.patience = Duration::ZERO;
    tailing.write("a.log", REPORT);
    assert_eq!(tailing.look(), lines(REPORT));
    tailing.write("a.log", "");
    assert!(tailing.look().is_empty());
    tailing.write("later.log", REPORT);
    let later = SystemTime::now() + Duration::from_secs(1);
    let file = fs::OpenOptions::new().append(true).open(tailing.path("later.log"));
    file.expect("is there").set_modified(later).expect("is set");
    assert_eq!(tailing.look(), lines(REPORT));
    tailing.write("a.log", REPORT);
    assert_eq!(tailing.look(), lines(REPORT));
    for name in ["a.log.1", "a.log.2"] {
        fs::copy(tailing.path("a.log"), tailing.path(name)).expect("is copied");
    }
    tailing.write("a.log", "");
    assert_eq!(tailing.look(), lines(REPORT));
}

#[test]
fn a_file_that_got_the_inode_of_one_with_the_same_content_is_another() {
    let mut tailing = Tailing::new("");
    tailing.write("a.log", REPORT);
    assert_eq!(tailing.look(), lines(REPORT));
    let id = FileId::of(&fs::metadata(tailing.path("a.log")).expect("is there"));
    let known = tailing.tail.files.get_mut(&id).expect("is known");
    *known.born.as_mut().expect("the file system says when a file was made") -= 1;
    known.path = PathBuf::from("/old.log");
    assert_eq!(tailing.look(), lines(REPORT));
}

/// Makes a file as quiet as one is into which nobody has written for the idle time.
fn quieten(tailing: &mut Tailing, name: &str) {
    let id = FileId::of(&fs::metadata(tailing.path(name)).expect("is there"));
    let tailed = tailing.tail.files.get_mut(&id).expect("is known");
    tailed.active_at = Instant::now().checked_sub(Duration::from_secs(121)).expect("is a time");
}

#[test]
fn a_last_line_without_its_end_is_an_event_when_its_file_is_quiet() {
    let mut tailing = Tailing::new("");
    tailing.write("a.log", "one\ntw");
    assert_eq!(tailing.look(), ["one"]);
    assert!(tailing.look().is_empty());
    // As long as the line grows it is waited for.
    quieten(&mut tailing, "a.log");
    tailing.append("a.log", "o");
    assert!(tailing.look().is_empty());
    quieten(&mut tailing, "a.log");
    assert_eq!(tailing.look(), ["two"]);
    assert!(tailing.look().is_empty());
    // Its end is no line of its own; more of it is.
    tailing.append("a.log", "\r\n\nthree");
    assert_eq!(tailing.look(), [""]);
    quieten(&mut tailing, "a.log");
    assert_eq!(tailing.look(), ["three"]);
    tailing.tail.note();
    tailing.start_again();
    tailing.append("a.log", " and more\nfour\n");
    assert_eq!(tailing.look(), [" and more", "four"]);
    // At the end of the agent it stays, for the next start.
    tailing.append("a.log", "fi");
    assert!(tailing.look().is_empty());
    assert!(tailing.end().is_empty());
    tailing.append("a.log", "ve\n");
    tailing.start_again();
    assert_eq!(tailing.look(), ["five"]);
}

#[test]
fn a_last_line_of_a_file_that_is_gone_is_an_event() {
    let mut tailing = Tailing::new("");
    tailing.write("a.log", "one\ntwo");
    assert_eq!(tailing.look(), ["one"]);
    // Who writes into it still has it open after it was renamed.
    let elsewhere = tailing.folder.path().join("elsewhere");
    fs::rename(tailing.path("a.log"), &elsewhere).expect("is renamed");
    assert!(tailing.look().is_empty());
    let mut file = fs::OpenOptions::new().append(true).open(&elsewhere).expect("is there");
    io::Write::write_all(&mut file, b" and more\nthree").expect("is written");
    assert_eq!(tailing.look(), ["two and more"]);
    tailing.tail.gone_patience = Duration::ZERO;
    assert_eq!(tailing.look(), ["three"]);
    assert!(tailing.tail.files.values().all(|tailed| tailed.file.is_none()));

    tailing.tail.gone_patience = GONE_PATIENCE;
    tailing.write("b.log", "four\nfive");
    assert_eq!(tailing.look(), ["four"]);
    fs::remove_file(tailing.path("b.log")).expect("is removed");
    assert!(tailing.look().is_empty());
    assert_eq!(tailing.end(), ["five"]);
}

/// As if so much time had passed since each file was found last.
fn age(tailing: &mut Tailing, time: Duration) {
    for tailed in tailing.tail.files.values_mut() {
        tailed.found_at = tailed.found_at.checked_sub(time).expect("is a time");
    }
}

#[test]
fn a_directory_that_is_away_for_long_comes_back_and_is_read_on() {
    let mut tailing = Tailing::new("");
    let (logs, away) = (tailing.folder.path().join("logs"), tailing.folder.path().join("away"));
    tailing.write("a.log", "one\n");
    assert_eq!(tailing.look(), ["one"]);
    tailing.tail.note();
    // It cannot be looked into, or only the place is there where it is mounted; also at the start.
    fs::rename(&logs, &away).expect("is renamed");
    age(&mut tailing, FORGET_AFTER);
    assert!(tailing.look().is_empty());
    fs::create_dir(&logs).expect("is made");
    age(&mut tailing, FORGET_AFTER);
    assert!(tailing.look().is_empty());
    tailing.start_again();
    age(&mut tailing, FORGET_AFTER);
    assert!(tailing.look().is_empty());
    tailing.tail.note();
    tailing.start_again();
    fs::remove_dir(&logs).expect("is removed");
    fs::rename(&away, &logs).expect("is renamed");
    tailing.append("a.log", "two\n");
    assert_eq!(tailing.look(), ["two"]);
}

#[test]
fn files_that_are_gone_are_remembered_for_long_and_deleted_ones_are_not() {
    let mut tailing = Tailing::new("");
    for name in ["a.log", "b.log", "c.log"] {
        tailing.write(name, format!("{name}\n"));
    }
    tailing.look();
    tailing.tail.gone_patience = Duration::ZERO;
    let elsewhere = tailing.folder.path().join("elsewhere");
    fs::rename(tailing.path("a.log"), &elsewhere).expect("is renamed");
    fs::remove_file(tailing.path("b.log")).expect("is removed");
    assert!(tailing.look().is_empty());
    assert_eq!(tailing.tail.files.len(), 2);
    fs::rename(&elsewhere, tailing.path("a.log")).expect("is renamed");
    tailing.append("a.log", "more\n");
    assert_eq!(tailing.look(), ["more"]);
    fs::rename(tailing.path("a.log"), &elsewhere).expect("is renamed");
    assert!(tailing.look().is_empty());
    age(&mut tailing, FORGET_AFTER);
    assert!(tailing.look().is_empty());
    assert_eq!(tailing.tail.files.len(), 1);
}

#[test]
fn so_many_files_that_are_gone_are_remembered_and_no_more() {
    let mut tailing = Tailing::new("");
    let before = Instant::now();
    for inode in 0..=GONE_MAX as u64 {
        let id = FileId { device: Some(1), inode };
        let mut tailed = Tailed::new(id, PathBuf::from(format!("/away/{inode}.log")));
        if inode == 5 {
            tailed.found_at = before;
        }
        tailing.tail.files.insert(id, tailed);
    }
    assert!(tailing.look().is_empty());
    assert_eq!(tailing.tail.files.len(), GONE_MAX);
    assert!(!tailing.tail.files.contains_key(&FileId { device: Some(1), inode: 5 }));
}

#[test]
fn names_that_are_no_text_or_have_line_feeds_are_read() {
    let mut tailing = Tailing::new("fileHeader = true");
    let names: [&[u8]; 2] = [b"caf\xe9.log", b"two\nlines.log"];
    for name in names {
        let path = tailing.path("").join(OsStr::from_bytes(name));
        fs::write(path, "one\n").expect("is written");
    }
    let came = tailing.look_for_events();
    let headers = came.iter().filter_map(|event| event.headers.get("file"));
    let mut names: Vec<&str> = headers.filter_map(|path| path.rsplit('/').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["caf\u{fffd}.log", "two\nlines.log"]);
    tailing.tail.note();
    tailing.start_again();
    assert!(tailing.look().is_empty());
}

const TRACE: [&str; 4] = [
    "java.lang.IllegalStateException: no",
    "\tat a.B.c(B.java:1)",
    "Caused by: java.io.IOException: disk",
    "\t... 1 more",
];

fn with_traces(more: &str) -> Tailing {
    Tailing::new(&format!("'multiline.pattern' = '^(\\s|Caused by:)'\n{more}"))
}

#[test]
fn a_stack_trace_is_one_event_over_looks_rotations_and_kills() {
    let mut tailing = with_traces("byteOffsetHeader = true\nbatchSize = 2");
    let trace = TRACE.join("\n");
    tailing.write("a.log", format!("first\n{}\n", TRACE[..2].join("\n")));
    assert_eq!(tailing.look(), ["first"]);
    assert!(tailing.look().is_empty());
    tailing.tail.note();
    tailing.start_again();
    fs::rename(tailing.path("a.log"), tailing.path("a.log.1")).expect("is renamed");
    assert!(tailing.look().is_empty());
    tailing.append("a.log.1", &format!("{}\n", TRACE[2..].join("\n")));
    tailing.write("a.log", "other\n\tline\nlast\n");
    assert_eq!(tailing.look(), ["other\n\tline"]);
    tailing.append("a.log.1", "next\n");
    let came = tailing.look_for_events();
    assert_eq!(came.iter().map(body).collect::<Vec<_>>(), [&*trace]);
    assert_eq!(came[0].headers.get("byteoffset"), Some("6"));
    // Positions are behind whole events: a start brings what is left, once.
    tailing.tail.note();
    tailing.start_again();
    assert!(tailing.look().is_empty());
    for name in ["a.log", "a.log.1"] {
        quieten(&mut tailing, name);
    }
    let mut came = tailing.look();
    came.sort();
    assert_eq!(came, ["last", "next"]);
    // The copy of a truncated file has the lines that were waited with.
    tailing.append("a.log", &format!("{}\n", TRACE[..2].join("\n")));
    assert!(tailing.look().is_empty());
    tailing.tail.copies.patience = Duration::from_secs(3600);
    let whole = "line\n".repeat(20);
    tailing.write("b.log", format!("{whole}{}\n", TRACE[0]));
    let mut came = 0;
    while came < 20 {
        came += tailing.look().len();
    }
    fs::copy(tailing.path("b.log"), tailing.path("b.log.1")).expect("is copied");
    tailing.append("b.log.1", "\tmore\n");
    tailing.write("b.log", "");
    assert!(tailing.look().is_empty());
    quieten(&mut tailing, "b.log.1");
    assert_eq!(tailing.look(), [format!("{}\n\tmore", TRACE[0])]);
}

#[test]
fn an_event_is_complete_after_the_timeout_and_when_its_file_is_gone() {
    let mut tailing = with_traces("'multiline.timeout' = 3600000");
    tailing.write("a.log", TRACE[..2].join("\n"));
    assert!(tailing.look().is_empty());
    tailing.append("a.log", "\n");
    assert!(tailing.look().is_empty());
    tailing.tail.multiline.as_mut().expect("is set").timeout = Duration::ZERO;
    assert_eq!(tailing.look(), [TRACE[..2].join("\n")]);
    tailing.tail.multiline.as_mut().expect("is set").timeout = Duration::from_secs(3600);
    tailing.append("a.log", "one\n two");
    assert!(tailing.look().is_empty());
    fs::remove_file(tailing.path("a.log")).expect("is removed");
    assert!(tailing.look().is_empty());
    tailing.tail.gone_patience = Duration::ZERO;
    assert_eq!(tailing.look(), ["one\n two"]);
}

#[test]
fn an_event_has_so_many_lines_and_bytes_and_the_rest_is_another() {
    let malformed = |tailing: &Tailing| tailing.tail.context.delivery.counters().malformed.get();
    let mut tailing = with_traces("'multiline.maxLines' = 3\nbatchSize = 1");
    tailing.write("a.log", "a\n 1\n 2\n 3\n 4\nb\nc\n");
    assert_eq!(tailing.look(), ["a\n 1\n 2", " 3\n 4", "b"]);
    assert_eq!(malformed(&tailing), 1);
    let mut tailing = with_traces("'multiline.maxBytes' = 16");
    tailing.write("a.log", "a\n 12345\n 67890\n 3\nb\n");
    assert_eq!(tailing.look(), ["a\n 12345\n 67890", " 3"]);
    assert_eq!(malformed(&tailing), 1);
}

#[test]
fn lines_go_with_the_next_one_and_patterns_are_negated() {
    let mut tailing =
        Tailing::new("'multiline.pattern' = '\\\\$'\n'multiline.what' = 'next'\nbatchSize = 2");
    tailing.write("a.log", "one \\\ntwo \\\nthree\nfour\nfive \\\n");
    assert_eq!(tailing.look(), ["one \\\ntwo \\\nthree", "four"]);
    let negated = "'multiline.pattern' = '^\\[\\d+\\]'\n'multiline.negate' = true";
    let mut tailing = Tailing::new(negated);
    tailing.write("a.log", "[1] one\nmore\n\n[2] two\n");
    assert_eq!(tailing.look(), ["[1] one\nmore\n"]);
    quieten(&mut tailing, "a.log");
    assert_eq!(tailing.look(), ["[2] two"]);
}

#[test]
fn keys_of_events_of_several_lines_want_a_pattern() {
    let folder = tempfile::tempdir().expect("is made");
    let text = format!(
        "[sources.r]\ntype = 'taildir'\nchannels = ['c']\npositionFile = '{0}/positions'\nfilegroups.g = '{0}/.*'\n\
         'multiline.negate' = true\n[channels.c]\ntype = 'memory'\n",
        folder.path().display()
    );
    let config = toml(&text).expect("makes sense");
    let error = Multiline::new(&config.sources[0].settings).expect_err("has no pattern");
    assert_eq!(error, "multiline.negate is set, and multiline.pattern is not");
}

#[test]
fn files_are_skipped_to_their_ends_only_if_they_are_there_at_the_start() {
    let mut tailing = Tailing::new("");
    tailing.write("a.log", "old\n");
    tailing.write("empty.log", "");
    tailing.more = "skipToEnd = true".to_owned();
    tailing.start_again();
    assert!(tailing.look().is_empty());
    tailing.append("a.log", "one\n");
    fs::rename(tailing.path("a.log"), tailing.path("a.log.1")).expect("is renamed");
    tailing.write("a.log", "two\n");
    tailing.append("empty.log", "three\n");
    let mut came = tailing.look();
    came.sort();
    assert_eq!(came, ["one", "three", "two"]);
}
