//! The audit log: who changed something, who was refused, who was not believed. A line of JSON each, in files of its own.
//!
//! Events with the target [`AUDIT`] go there and nowhere else. No request waits for it: lines pass through a queue of
//! bounded length to a thread that writes them. What finds the queue full, comes too fast or cannot be written is
//! counted, in a line behind the gap and in a metric.
//!
//! Files are rotated by size, as a flood has no respect for days: `FILE` is the newest, `FILE.1` the one before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use logway_metadata::settings::AuditSettings;
use logway_node::AUDIT;
use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::fmt::MakeWriter;

use super::json_line::write_lost;

/// Lines that may wait to be written.
const WAITING_MAX: usize = 4_096;

/// A flood of failures costs no more disk than that, and no more time of the thread.
const LINES_PER_SECOND_MAX: u64 = 1_000;

/// How long a stop waits for the last lines.
const LAST_LINES_MAX: Duration = Duration::from_secs(2);

/// Why there can be no audit log.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the audit log {}: {source}", path.display())]
pub(crate) struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// The way to the audit log.
#[derive(Debug, Clone)]
pub(crate) struct AuditLog {
    messages: SyncSender<Message>,
    pace: Arc<Pace>,
    lost: Lost,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Everything before it is written when this is answered.
    Flush(SyncSender<()>),
}

/// Lines that were lost, in all and since this was last said.
#[derive(Debug, Clone, Default)]
struct Lost {
    total: Counter,
    unsaid: Arc<AtomicU64>,
}

impl Lost {
    fn note(&self) {
        self.total.inc();
        self.unsaid.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many lines there were in the present second.
#[derive(Debug, Default)]
struct Pace {
    second: AtomicU64,
    lines: AtomicU64,
}

impl Pace {
    /// Whether there may be one more. Lines at the turn of a second may be counted in either.
    fn admits(&self) -> bool {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        let second = BEGAN.elapsed().as_secs();
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.lines.store(0, Ordering::Relaxed);
        }
        self.lines.fetch_add(1, Ordering::Relaxed) < LINES_PER_SECOND_MAX
    }
}

impl AuditLog {
    /// Opens the newest file, and starts the thread that writes.
    pub(crate) fn open(settings: &AuditSettings) -> Result<AuditLog, AuditError> {
        let fail = |source| AuditError { path: settings.file.clone(), source };
        let files = Files::open(settings).map_err(fail)?;
        let (messages, waiting) = sync_channel(WAITING_MAX);
        let lost = Lost::default();
        let of_thread = lost.clone();
        let writer = move || write_all(files, &waiting, &of_thread);
        thread::Builder::new().name("audit-log".to_owned()).spawn(writer).map_err(fail)?;
        Ok(AuditLog { messages, pace: Arc::default(), lost })
    }

    /// How many lines were lost.
    pub(crate) fn lost(&self) -> Counter {
        self.lost.total.clone()
    }

    /// Waits until all lines are in the file, but not for a disk that does not answer.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.messages.try_send(Message::Flush(done)).is_ok() {
            // Too late is as good as not at all.
            let _ = written.recv_timeout(LAST_LINES_MAX);
        }
    }
}

/// Gets each line in one piece.
impl Write for &AuditLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_sent =
            self.pace.admits() && self.messages.try_send(Message::Line(line.to_vec())).is_ok();
        if !is_sent {
            self.lost.note();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for AuditLog {
    type Writer = &'a AuditLog;

    fn make_writer(&'a self) -> &'a AuditLog {
        self
    }
}

/// The files. The newest is open.
struct Files {
    newest: PathBuf,
    count: u32,
    bytes_max: u64,
    file: File,
    size_bytes: u64,
}

impl Files {
    fn open(settings: &AuditSettings) -> io::Result<Files> {
        let file = append_to(&settings.file)?;
        let size_bytes = file.metadata()?.len();
        let (newest, count) = (settings.file.clone(), settings.files_max);
        Ok(Files { newest, count, bytes_max: settings.file_bytes_max, file, size_bytes })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.size_bytes > 0 && self.size_bytes + line.len() as u64 > self.bytes_max {
            // The old file goes on if there can be no new one.
            if let Err(error) = self.rotate() {
                report(&error);
            }
        }
        // A line that was written in part ends here, so that the next one is whole.
        self.file.write_all(line).inspect_err(|_| _ = self.file.write_all(b"\n"))?;
        self.size_bytes += line.len() as u64;
        Ok(())
    }

    /// Nothing is renamed before the next file is open: without one, the older files stay what they are.
    fn rotate(&mut self) -> io::Result<()> {
        let next_path = self.sibling("new");
        let next = append_to(&next_path)?;
        if self.count > 1 {
            for number in (1..self.count - 1).rev() {
                let (from, to) = (self.sibling(number), self.sibling(number + 1));
                not_missing(fs::rename(from, to))?;
            }
            // Somebody may have taken it away.
            not_missing(fs::rename(&self.newest, self.sibling(1)))?;
        }
        fs::rename(next_path, &self.newest)?;
        self.file = next;
        self.size_bytes = 0;
        Ok(())
    }

    fn sibling(&self, end: impl std::fmt::Display) -> PathBuf {
        let mut name = self.newest.clone().into_os_string();
        name.push(format!(".{end}"));
        name.into()
    }
}

fn not_missing(renamed: io::Result<()>) -> io::Result<()> {
    match renamed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

/// Nobody but who runs the broker may read it.
fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Writes lines until nobody can send any.
fn write_all(mut files: Files, waiting: &Receiver<Message>, lost: &Lost) {
    while let Ok(message) = waiting.recv() {
        let line = match message {
            Message::Line(line) => line,
            Message::Flush(done) => {
                say_what_was_lost(&mut files, lost);
                // Who waited may have given up.
                let _ = done.send(());
                continue;
            }
        };
        say_what_was_lost(&mut files, lost);
        if let Err(error) = files.write(&line) {
            lost.note();
            report(&error);
        }
    }
}

fn say_what_was_lost(files: &mut Files, lost: &Lost) {
    let count = lost.unsaid.swap(0, Ordering::Relaxed);
    if count == 0 {
        return;
    }
    let mut line = String::new();
    let is_written =
        write_lost(&mut line, AUDIT, count).is_ok() && files.write(line.as_bytes()).is_ok();
    if !is_written {
        lost.unsaid.fetch_add(count, Ordering::Relaxed);
    }
}

fn report(error: &io::Error) {
    tracing::error!(target: "logway_server::clients", %error, "lines of the audit log are lost");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(dir: &Path, file_bytes_max: u64, files_max: u32) -> AuditSettings {
        AuditSettings { file: dir.join("audit.log"), file_bytes_max, files_max }
    }

    fn texts(dir: &Path) -> Vec<String> {
        let names = ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"];
        let read = |name| std::fs::read_to_string(dir.join(name)).ok();
        names.into_iter().filter_map(read).collect()
    }

    #[test]
    fn files_are_rotated_by_size_and_the_oldest_goes() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = AuditLog::open(&settings(dir.path(), 8, 3)).expect("opens");
        for number in 0..9 {
            (&log).write_all(format!("{number}..\n").as_bytes()).expect("never fails");
        }
        log.flush();
        assert_eq!(texts(dir.path()), ["8..\n", "6..\n7..\n", "4..\n5..\n"]);
        drop(log);
        let log = AuditLog::open(&settings(dir.path(), 8, 3)).expect("opens again");
        (&log).write_all(b"9..\n").expect("never fails");
        log.flush();
        assert_eq!(texts(dir.path())[0], "8..\n9..\n");
    }

    #[test]
    fn a_file_that_somebody_took_away_costs_no_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut files = Files::open(&settings(dir.path(), 8, 3)).expect("opens");
        for line in ["0..\n", "1..\n", "2..\n"] {
            files.write(line.as_bytes()).expect("is written");
        }
        fs::remove_file(dir.path().join("audit.log")).expect("is there");
        for line in ["3..\n", "4..\n", "5..\n"] {
            files.write(line.as_bytes()).expect("is written");
        }
        assert_eq!(texts(dir.path()), ["4..\n5..\n", "0..\n1..\n"]);
        // Where there can be no next one, the present one goes on.
        fs::create_dir(dir.path().join("audit.log.new")).expect("is made");
        files.write(b"6..\n").expect("is written");
        assert_eq!(texts(dir.path()), ["4..\n5..\n6..\n", "0..\n1..\n"]);
    }

    #[test]
    fn a_flood_is_bounded_and_what_is_lost_is_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = AuditLog::open(&settings(dir.path(), 1 << 20, 2)).expect("opens");
        const LINES: u64 = 20_000;
        for _ in 0..LINES {
            (&log).write_all(b"{}\n").expect("never fails");
        }
        log.flush();
        let lost = log.lost.total.get();
        assert!(lost > 0, "all of them in less than some seconds");
        let text = texts(dir.path()).concat();
        let written = text.lines().filter(|line| *line == "{}").count() as u64;
        assert_eq!(written + lost, LINES);
        let said: u64 = text
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter_map(|line| line["fields"]["lost"].as_u64())
            .sum();
        assert_eq!(said, lost);
    }

    #[test]
    fn a_log_that_cannot_be_written_says_which() {
        let dir = tempfile::tempdir().expect("a directory");
        let error = AuditLog::open(&settings(&dir.path().join("missing"), 8, 3));
        let error = error.expect_err("there is no such directory").to_string();
        assert!(error.contains("missing/audit.log"), "{error}");
    }
}
