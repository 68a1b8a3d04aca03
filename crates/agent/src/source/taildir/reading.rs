//! Events out of files, into channels; and what becomes of a file into which nobody writes any more.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Instant;

use tokio::runtime::Handle;

use super::super::identity::FileId;
use super::super::{BATCH_BYTES, SourceContext};
use super::Tail;
use super::multiline::Multiline;
use super::tailed::Tailed;
use crate::codec::file_lines::{Bounds, FileBatch, FileLine, read_lines};
use crate::event::Event;
use crate::settings::Settings;

impl Tail {
    /// Delivers the lines of one file; whether there were any.
    pub(super) fn read_file(&mut self, id: FileId, handle: &Handle) -> bool {
        let mut has_read = self.pass_hole(id);
        if has_read && self.context.stop.is_set() {
            return true;
        }
        for _ in 0..self.context.settings.number("maxBatchCount") {
            if !self.read_batch(id, false, handle) {
                break;
            }
            has_read = true;
            // Many files may have much to be read: a round can take minutes.
            self.note_in_time();
            if self.context.stop.is_set() {
                break;
            }
        }
        has_read
    }

    /// Passes over the NULs that a truncated file begins with if its writer does not append: the writer goes on behind as
    /// many bytes as there were before. Whether there are any.
    fn pass_hole(&mut self, id: FileId) -> bool {
        let Some(tailed) = self.files.get_mut(&id).filter(|tailed| tailed.is_truncated) else {
            return false;
        };
        let begin = tailed.identity.position;
        while tailed.is_truncated && !self.context.stop.is_set() {
            let position = tailed.identity.position;
            // What cannot be read is told of when lines are.
            let nuls = tailed.file.as_ref().and_then(|file| nuls_at(file, position).ok());
            let Some((nuls, is_over)) = nuls else { break };
            tailed.is_truncated = !is_over;
            if nuls.is_empty() {
                break;
            }
            tailed.identity.advance(&nuls, position + nuls.len() as u64);
        }
        let bytes = tailed.identity.position - begin;
        if bytes == 0 {
            return false;
        }
        self.context.delivery.counters().malformed.add(1);
        tracing::warn!(source = self.context.delivery.source(), path = %tailed.path.display(), bytes,
            "a truncated file begins with NULs, which are passed over: its writer does not open it for appending");
        true
    }

    /// Delivers the next events of one file; whether there were any. With `takes_rest` all that is there counts: a last line
    /// that has no end, and an event to which lines could still belong.
    fn read_batch(&mut self, id: FileId, takes_rest: bool, handle: &Handle) -> bool {
        let Some(tailed) = self.files.get_mut(&id) else { return false };
        if tailed.file.is_none() {
            return false;
        }
        let position = tailed.identity.position;
        let multiline = self.multiline.as_ref();
        let batch = match next_batch(&self.context.settings, multiline, tailed, takes_rest) {
            Ok(batch) => batch,
            Err(error) => {
                let path = tailed.path.clone();
                self.cannot_read(&path, &error);
                return false;
            }
        };
        if self.troubles.end(&tailed.path) {
            tracing::info!(source = self.context.delivery.source(), path = %tailed.path.display(), "a file can be read again");
        }
        tailed.is_at_end = batch.end == position;
        if tailed.is_at_end {
            return false;
        }
        let group = tailed.group.and_then(|group| self.groups.get(group));
        let headers = group.map(|group| &group.headers[..]).unwrap_or_default();
        let events = events(&self.context, &tailed.path, headers, &batch);
        if !events.is_empty()
            && !handle.block_on(self.context.delivery.insist(events, &self.context.stop))
        {
            return false;
        }
        tailed.identity.advance(&batch.raw, batch.end);
        tailed.active_at = Instant::now();
        true
    }

    /// Closes files into which nobody writes any more.
    pub(super) fn close_quiet(&mut self, handle: &Handle) {
        let idle = self.context.settings.millis("idleTimeout");
        let mut quiet = Vec::new();
        for (id, tailed) in &mut self.files {
            let is_done = tailed.is_gone && tailed.is_at_end;
            let patience = if is_done { idle.min(self.gone_patience) } else { idle };
            if tailed.quiet_for().is_some_and(|quiet_for| quiet_for >= patience) {
                quiet.push(*id);
            }
        }
        for id in quiet {
            self.close(id, handle);
        }
    }

    /// Reads a file to its end, also a last line without its end, and closes it. While channels take nothing, it stays open.
    pub(super) fn close(&mut self, id: FileId, handle: &Handle) {
        while self.read_batch(id, true, handle) {}
        let Some(tailed) = self.files.get_mut(&id) else { return };
        let metadata = tailed.file.as_ref().and_then(|file| file.metadata().ok());
        let is_whole =
            metadata.as_ref().is_none_or(|metadata| metadata.len() <= tailed.identity.position);
        if is_whole || !self.context.stop.is_set() {
            tailed.is_deleted = metadata.is_some_and(|metadata| metadata.nlink() == 0);
            tailed.file = None;
        }
    }
}

/// The next events of a file that is open.
fn next_batch(
    settings: &Settings,
    multiline: Option<&Multiline>,
    tailed: &mut Tailed,
    takes_rest: bool,
) -> io::Result<FileBatch> {
    let position = tailed.identity.position;
    let (lines, line_bytes) = (settings.size("batchSize"), settings.size("maxLineLength"));
    let mut bounds = Bounds { lines, bytes: BATCH_BYTES, line_bytes };
    loop {
        let file: &File = tailed.file.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut batch = read_lines(file, position, bounds, takes_rest)?;
        let is_all = batch.is_all;
        // The end of a line that was delivered without it.
        if batch.lines.first().is_some_and(|line| line.line.is_empty()) && tailed.is_in_line() {
            batch.lines.remove(0);
        }
        let Some(multiline) = multiline else { return Ok(batch) };
        let is_quiet = tailed.quiet_for().is_some_and(|time| time >= multiline.timeout);
        let takes_last = is_all && (takes_rest || is_quiet);
        let gathered = multiline.gather(position, batch, takes_last);
        if gathered.end > position || is_all {
            return Ok(gathered);
        }
        // An event may be longer than a batch. It has bounds of its own, and what is beyond is another event.
        bounds.lines *= 2;
        bounds.bytes *= 2;
    }
}

/// The NULs that are there, at most as many as a batch has bytes; and whether there is something else behind them.
fn nuls_at(file: &File, offset: u64) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = vec![0; BATCH_BYTES];
    let count = file.read_at(&mut bytes, offset)?;
    let other = bytes[..count].iter().position(|byte| *byte != 0);
    bytes.truncate(other.unwrap_or(count));
    Ok((bytes, other.is_some()))
}

fn events(
    context: &SourceContext,
    path: &Path,
    headers: &[(String, String)],
    batch: &FileBatch,
) -> Vec<Event> {
    let settings = &context.settings;
    let has_offset = settings.flag("byteOffsetHeader");
    let file_header = settings.text_if("fileHeader", "fileHeaderKey");
    let event = |line: &FileLine| {
        if line.is_part {
            context.delivery.counters().malformed.add(1);
        }
        let mut event = Event::new(line.line.clone());
        for (name, value) in headers {
            event.headers.set(name.as_str(), value.as_str());
        }
        if let Some(header) = file_header {
            event.headers.set(header, path.display().to_string());
        }
        if has_offset {
            event.headers.set("byteoffset", line.offset.to_string());
        }
        event
    };
    batch.lines.iter().map(event).collect()
}
