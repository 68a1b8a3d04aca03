//! The source `object_store`: objects of a bucket, or files that stay where they are, each read once.
//!
//! There is no queue of notifications: the store is asked for its objects again and again, and which were read is noted in a
//! file. Other collectors want such a queue, or delete what they have read; here both are left to the operator.

mod progress;
mod store;

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use regex_lite::Regex;
use tokio::runtime::Handle;
use zstd::stream::read::Decoder;

use self::progress::{Begun, Progress};
use self::store::{Found, Reason, Store, Unread};
use super::{
    BATCH_BYTES, FILE_HEADER_KEY, LINE_LENGTH_MAX, LINES_AT_ONCE, SourceContext, Starting,
    on_thread,
};
use crate::codec::json;
use crate::codec::lines::{read_line, without_return};
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::StartError;
use crate::event::Event;
use crate::s3::OF_BUCKET;
use crate::settings::Settings;
use crate::stop::Stopper;
use crate::tls;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "object_store",
    aliases: &["s3"],
    doc: "Reads the objects of a bucket in a store that speaks S3, or the files below a directory, line by line, each once. It \
          looks for new ones every `pollDelay`, in the order of their names; one that was replaced (its size, its ETag, or a file's \
          time of change is another) is read again. Which were read is in `positionFile`, with some 50 bytes of memory \
          for each. After a kill, events of the last second come again. What is gzip or zstd is unpacked. An object that cannot be \
          unpacked is left at that place, with a line in the log.",
    keys: &[
        key(
            "url",
            Kind::Text,
            Fallback::Required,
            "Where objects are: `s3://BUCKET/PREFIX`, or `file:///DIRECTORY`. Empty ones are passed over, and files whose names \
             begin with a dot or end in `.part`: they are not complete.",
        ),
        key(
            "positionFile",
            Kind::Text,
            Fallback::Required,
            "The file in which it is noted what was read. How far the last one was read is in another one, with `.begun` behind \
             the name.",
        ),
        key(
            "pollDelay",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("60000"),
            "How often to look for objects.",
        ),
        key(
            "includePattern",
            Kind::Regex,
            Fallback::Is("^.*$"),
            "Which objects are read, by their whole keys; of files by their paths below the directory.",
        ),
        key("ignorePattern", Kind::Regex, Fallback::Is("^$"), "Which are not."),
        key(
            "format",
            Kind::Choice(&["text", "json"]),
            Fallback::Is("text"),
            "What a line is: a body, or an event with headers in JSON, as the sink `object_store` writes it. A line that is no such \
             event becomes a body, with a header `malformed` that says why.",
        ),
        key(
            "compression",
            Kind::Choice(&["auto", "none"]),
            Fallback::Is("auto"),
            "Whether what begins as gzip or zstd does is unpacked.",
        ),
        key(
            "deletePolicy",
            Kind::Choice(&["never", "immediate"]),
            Fallback::Is("never"),
            "Whether objects that were read are deleted.",
        ),
        key(
            "fileHeader",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether a header has the object's key, or the file's path.",
        ),
        FILE_HEADER_KEY,
        LINES_AT_ONCE,
        LINE_LENGTH_MAX,
        key(
            "requestTimeout",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("60000"),
            "How long a list, or 8 MiB of an object, may take.",
        ),
    ],
    shared: &[OF_BUCKET, tls::OF_HTTPS],
};

/// How often it is noted how far an object was read.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(5);

pub(crate) fn start(context: SourceContext) -> Starting {
    Box::pin(async move {
        let source = ObjectSource::new(context)?;
        Ok(on_thread(move |handle| source.run(handle)))
    })
}

struct ObjectSource {
    context: SourceContext,
    store: Store,
    progress: Progress,
    include: Regex,
    ignore: Regex,
    /// The header for an object's key.
    key_header: Option<String>,
    is_json: bool,
    unpacks: bool,
    deletes: bool,
    /// How many objects were refused in this look, and why the first was.
    refused: Option<(usize, String)>,
}

/// Why a look at all objects did not come to its end.
enum Interrupted {
    /// The agent ends.
    Stopped,
    /// It is tried again later.
    Failed(String),
}

impl From<String> for Interrupted {
    fn from(why: String) -> Interrupted {
        Interrupted::Failed(why)
    }
}

/// Says what a start would refuse. Nothing is looked at, so nothing is said of a directory.
pub(crate) fn try_settings(settings: &Settings) -> Result<(), StartError> {
    let url = settings.required("url").trim();
    if url.starts_with("file:///") {
        return Ok(());
    }
    let (_stopper, stop) = Stopper::new();
    Store::new(settings, url, &stop).map(drop)
}

impl ObjectSource {
    fn new(context: SourceContext) -> Result<ObjectSource, String> {
        let settings = &context.settings;
        let url = settings.required("url").trim();
        let store = Store::new(settings, url, &context.stop)?;
        let progress = Progress::new(settings.path("positionFile"), url)?;
        let whole = |key| settings.whole_pattern(key).expect("it has a default");
        let (include, ignore) = (whole("includePattern"), whole("ignorePattern"));
        let key_header = settings.text_if("fileHeader", "fileHeaderKey").map(str::to_owned);
        let is_json = settings.is("format", "json");
        let unpacks = settings.is("compression", "auto");
        let deletes = settings.is("deletePolicy", "immediate");
        Ok(ObjectSource {
            store,
            progress,
            include,
            ignore,
            key_header,
            is_json,
            unpacks,
            deletes,
            refused: None,
            context,
        })
    }

    fn run(mut self, handle: &Handle) {
        let poll = self.context.settings.millis("pollDelay");
        loop {
            let pause = match self.look(handle) {
                Ok(()) => poll,
                Err(Interrupted::Stopped) => return,
                Err(Interrupted::Failed(error)) => {
                    let source = self.context.delivery.source();
                    tracing::warn!(source, error, "objects cannot be read; trying again");
                    poll.min(PAUSE)
                }
            };
            if handle.block_on(self.context.stop.sleep(pause)) {
                return;
            }
        }
    }

    /// Reads all that was not read.
    fn look(&mut self, handle: &Handle) -> Result<(), Interrupted> {
        self.refused = None;
        // Before others: there is room for the progress of one.
        if let Some(begun) = self.progress.begun() {
            self.take(&begun.object, begun.events, handle)?;
        }
        let (mut listed, mut behind) = (HashSet::new(), None);
        loop {
            let page = self.store.list(behind.as_deref(), handle)?;
            for object in &page.objects {
                if self.context.stop.is_set() {
                    return Err(Interrupted::Stopped);
                }
                let id = object.id();
                match self.progress.read(&id) {
                    _ if !self.is_wanted(object) => {}
                    None => self.take(object, 0, handle)?,
                    // It could not be deleted.
                    Some(true) if self.deletes => self.delete(object, handle),
                    Some(_) => {}
                }
                listed.insert(id);
            }
            match page.next {
                Some(next) => behind = Some(next),
                None => break,
            }
        }
        if let Some((objects, error)) = self.refused.take() {
            let source = self.context.delivery.source();
            tracing::warn!(
                source,
                objects,
                error,
                "objects are refused, the first of them so; they are tried at the next look"
            );
        }
        self.progress.forget_all_but(&listed)?;
        Ok(())
    }

    fn is_wanted(&self, object: &Found) -> bool {
        let name = self.store.name_of(object);
        self.include.is_match(name) && !self.ignore.is_match(name)
    }

    /// Reads an object behind so many events, and notes that it was read.
    fn take(
        &mut self,
        object: &Found,
        mut events: u64,
        handle: &Handle,
    ) -> Result<(), Interrupted> {
        let read = self.read(object, &mut events, handle);
        let source = self.context.delivery.source();
        let is_whole = match read {
            Ok(true) => true,
            Ok(false) => {
                self.progress.note(&Begun { object: object.clone(), events })?;
                return Err(Interrupted::Stopped);
            }
            Err(error) => match Unread::of(&error) {
                // The next list has what is in its place.
                Some(Unread { reason: Reason::Gone, message }) => {
                    tracing::warn!(
                        source,
                        message,
                        "an object is not there any more as it was listed"
                    );
                    self.progress.give_up();
                    return Ok(());
                }
                // Others are not to wait for it.
                Some(Unread { reason: Reason::Refused, message }) if events == 0 => {
                    self.refused.get_or_insert_with(|| (0, message.clone())).0 += 1;
                    self.progress.give_up();
                    return Ok(());
                }
                Some(Unread { message, .. }) => {
                    self.progress.note(&Begun { object: object.clone(), events })?;
                    return Err(Interrupted::Failed(message.clone()));
                }
                None => {
                    self.context.delivery.counters().malformed.add(1);
                    let object = &object.key;
                    tracing::error!(source, object, events, %error, "an object is damaged: what is behind so many events is left");
                    false
                }
            },
        };
        self.progress.finish(object.id(), is_whole)?;
        if self.deletes && is_whole {
            self.delete(object, handle);
        }
        Ok(())
    }

    fn delete(&mut self, object: &Found, handle: &Handle) {
        if let Err(error) = self.store.delete(object, handle) {
            let source = self.context.delivery.source();
            tracing::warn!(source, error, "an object that was read cannot be deleted");
        }
    }

    /// Reads an object to its end, and counts the events of it that are in channels; `false` if the agent ends before.
    fn read(&mut self, object: &Found, events: &mut u64, handle: &Handle) -> io::Result<bool> {
        let ObjectSource { context, store, progress, .. } = self;
        let settings = &context.settings;
        let (batch_max, line_max) = (settings.size("batchSize"), settings.size("maxLineLength"));
        let raw = BufReader::new(store.open(object, handle)?);
        let mut plain = if self.unpacks { unpacked(raw)? } else { Box::new(raw) };
        let mut line = Vec::new();
        for _ in 0..*events {
            if context.stop.is_set() {
                return Ok(false);
            }
            line.clear();
            read_line(&mut plain, line_max, &mut line)?;
        }
        let mut noted_at = Instant::now();
        loop {
            if context.stop.is_set() {
                return Ok(false);
            }
            let (mut batch, mut bytes, mut end) = (Vec::new(), 0, None);
            while batch.len() < batch_max && bytes < BATCH_BYTES && end.is_none() {
                line.clear();
                match read_line(&mut plain, line_max, &mut line) {
                    Ok(true) => {
                        bytes += line.len();
                        let body = without_return(Bytes::copy_from_slice(&line));
                        batch.push(event(body, self.is_json, self.key_header.as_deref(), object));
                    }
                    Ok(false) => end = Some(Ok(true)),
                    Err(error) => end = Some(Err(error)),
                }
            }
            let count = batch.len() as u64;
            if count > 0 && !handle.block_on(context.delivery.insist(batch, &context.stop)) {
                return Ok(false);
            }
            *events += count;
            if let Some(end) = end {
                return end;
            }
            if noted_at.elapsed() >= NOTE_INTERVAL {
                let begun = Begun { object: object.clone(), events: *events };
                progress.note(&begun).map_err(|message| Unread::error(Reason::Failed, message))?;
                noted_at = Instant::now();
            }
        }
    }
}

/// An event of a line.
fn event(line: Bytes, is_json: bool, key_header: Option<&str>, object: &Found) -> Event {
    let mut event = match is_json.then(|| json::read_one(&line)) {
        None => Event::new(line),
        Some(Ok(event)) => event,
        Some(Err(why)) => {
            let mut event = Event::new(line);
            event.headers.set("malformed", why.to_string());
            event
        }
    };
    if let Some(header) = key_header {
        event.headers.set(header, object.key.as_str());
    }
    event
}

/// What is in an object, by what it begins with (RFC 1952, RFC 8878).
fn unpacked<'a>(mut raw: impl BufRead + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    let begins = raw.fill_buf()?;
    Ok(if begins.starts_with(GZIP) {
        Box::new(BufReader::new(MultiGzDecoder::new(raw)))
    } else if begins.starts_with(ZSTD) {
        Box::new(BufReader::new(Decoder::with_buffer(raw)?))
    } else {
        Box::new(raw)
    })
}
