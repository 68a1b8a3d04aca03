//! File by file: what becomes of each, whatever an agent before has left.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;
use crate::channel::Channel;
use crate::counters::SourceCounters;
use crate::delivery::Delivery;
use crate::selector::Selector;
use crate::stop::{Stop, Stopper};
use crate::tests::toml;

/// A source whose looks are taken one by one.
struct Spooling {
    folder: TempDir,
    more: String,
    runtime: Runtime,
    channel: Arc<Channel>,
    spool: Spool,
    _stopper: Stopper,
}

impl Spooling {
    fn new(more: &str) -> Spooling {
        let folder = tempfile::tempdir().expect("is made");
        let runtime = Runtime::new().expect("is made");
        let (stopper, stop) = Stopper::new();
        let (spool, channel) = runtime.block_on(spool(folder.path(), more, stop));
        Spooling { folder, more: more.to_owned(), runtime, channel, spool, _stopper: stopper }
    }

    /// As a kill and a start.
    fn start_again(&mut self) {
        let (stopper, stop) = Stopper::new();
        let started = self.runtime.block_on(spool(self.folder.path(), &self.more, stop));
        (self.spool, self.channel) = started;
        self._stopper = stopper;
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

    /// The bodies that the next file brings.
    fn look(&mut self) -> Vec<String> {
        if let Some(path) = self.spool.next_file().expect("can be looked into") {
            let read = self.spool.read(&path, self.runtime.handle());
            assert_eq!(read, Ok(true));
        }
        self.bodies()
    }

    fn bodies(&self) -> Vec<String> {
        let taken = self.channel.take(10_000, Duration::ZERO);
        let taken = self.runtime.block_on(taken).expect("is taken");
        let body = |event: &Event| String::from_utf8_lossy(&event.body).into_owned();
        let bodies = taken.events.iter().map(body).collect();
        self.runtime.block_on(taken.commit()).expect("is committed");
        bodies
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
    let text = format!(
        "[sources.r]\ntype = 'spooldir'\nchannels = ['c']\nspoolDir = '{}'\n{more}\n\
         [channels.c]\ntype = 'memory'\ncapacity = 100000\ntransactionCapacity = 10000\n",
        folder.display()
    );
    let config = toml(&text).expect("makes sense");
    let source = &config.sources[0];
    let channel = Channel::open(&config.channels["c"]).await.expect("opens");
    let selector = Selector::new(&source.selector, &source.channels).expect("is one");
    let counters = Arc::new(SourceCounters::default());
    let delivery = Delivery::new("r", vec![Arc::clone(&channel)], selector, Vec::new(), counters);
    let context = SourceContext { settings: source.settings.clone(), delivery, stop };
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
