//! The sink `file_roll`: files, a new one after a while.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::rolling::{Extent, Rolling};
use super::{Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::codec::avro_file::{AVRO_BLOCK_BYTES, AVRO_CODECS, AvroFile};
use crate::codec::serializer::Serializer;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::{SinkError, StartError};
use crate::interceptor::now_ms;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "file_roll",
    aliases: &["org.apache.flume.sink.RollingFileSink"],
    doc: "Writes events into files of a directory. A batch is committed when it is on stable storage; if that fails, \
          what was written of it is cut off again. A file that somebody has deleted gets no more.",
    keys: &[
        key("sink.directory", Kind::Text, Fallback::Required, "The directory."),
        key(
            "sink.pathManager",
            Kind::Only(&["DEFAULT"], "others are Java's classes"),
            Fallback::Is("DEFAULT"),
            "How files are named.",
        ),
        key(
            "sink.pathManager.extension",
            Kind::Text,
            Fallback::Nothing,
            "What comes behind a dot in a file's name.",
        ),
        key(
            "sink.pathManager.prefix",
            Kind::Text,
            Fallback::Nothing,
            "What a file's name begins with.",
        ),
        key(
            "sink.rollInterval",
            Kind::Number(0, i64::MAX, "s"),
            Fallback::Is("30"),
            "After so long a new file is begun; 0 for never.",
        ),
        key(
            "sink.serializer",
            Kind::Choice(&["TEXT", "HEADER_AND_TEXT", "JSON", "AVRO_EVENT"]),
            Fallback::Is("TEXT"),
            "How events are written.",
        ),
        key(
            "sink.serializer.appendNewline",
            Kind::Flag,
            Fallback::Is("true"),
            "Whether a line feed follows each body.",
        ),
        key(
            "sink.serializer.compressionCodec",
            AVRO_CODECS,
            Fallback::Is("null"),
            "How blocks of `AVRO_EVENT` are compressed. Flume's bzip2 and xz are not there.",
        ),
        key(
            "sink.serializer.syncIntervalBytes",
            AVRO_BLOCK_BYTES,
            Fallback::Is("2048000"),
            "How large a block of `AVRO_EVENT` becomes; one also ends with each batch.",
        ),
        key(
            "sink.batchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("100"),
            "How many events are written at once.",
        ),
        key("batchSize", Kind::Number(1, 1_000_000, "events"), Fallback::Nothing, "The same."),
    ],
    shared: &[],
};

struct FileRoll {
    directory: PathBuf,
    prefix: String,
    extension: String,
    rolling: Rolling,
    serializer: Serializer,
    series: i64,
    index: u64,
    open: Option<Open>,
}

struct Open {
    file: File,
    path: PathBuf,
    length: u64,
    extent: Extent,
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let settings = &context.settings;
    let directory = settings.path("sink.directory");
    if !directory.is_dir() {
        return Err(format!("sink.directory {} is no directory", directory.display()));
    }
    let with_newline = settings.flag("sink.serializer.appendNewline");
    let serializer = Serializer::of(settings.required("sink.serializer").trim(), with_newline);
    let (codec, block) = ("sink.serializer.compressionCodec", "sink.serializer.syncIntervalBytes");
    let avro = AvroFile::of(settings, codec, block);
    let interval = settings.seconds("sink.rollInterval");
    let extension = settings.text("sink.pathManager.extension").map(|e| format!(".{}", e.trim()));
    Ok(Box::new(FileRoll {
        directory,
        prefix: settings.text("sink.pathManager.prefix").unwrap_or_default().trim().to_owned(),
        extension: extension.unwrap_or_default(),
        rolling: Rolling {
            interval: (!interval.is_zero()).then_some(interval),
            ..Rolling::default()
        },
        serializer: serializer.expect("it was checked").with_avro(avro),
        series: now_ms(),
        index: 0,
        open: None,
    }))
}

impl FileRoll {
    fn roll_in_time(&mut self) {
        if self.open.as_ref().is_some_and(|open| self.rolling.is_due(&open.extent)) {
            self.open = None;
        }
    }

    /// Names are as Flume's: when the series began, and a number.
    fn open(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            self.index += 1;
            let name = format!("{}{}-{}{}", self.prefix, self.series, self.index, self.extension);
            let path = self.directory.join(name);
            let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            File::open(&self.directory)?.sync_all()?;
            self.open = Some(Open { file, path, length: 0, extent: Extent::new() });
        }
        Ok(self.open.as_mut().expect("it was made"))
    }

    fn write(&mut self, batch: &Taken) -> io::Result<()> {
        self.roll_in_time();
        self.leave_deleted()?;
        self.append(batch)?;
        // Nobody would find the batch in a file that was deleted meanwhile.
        match self.leave_deleted()? {
            true => self.append(batch),
            false => Ok(()),
        }
    }

    /// Whether the open file was deleted by somebody: then it is closed.
    fn leave_deleted(&mut self) -> io::Result<bool> {
        let Some(open) = &self.open else { return Ok(false) };
        if open.file.metadata()?.nlink() > 0 {
            return Ok(false);
        }
        tracing::warn!(path = %open.path.display(), "a file was deleted while events were written into it; another is begun");
        self.open = None;
        Ok(true)
    }

    fn append(&mut self, batch: &Taken) -> io::Result<()> {
        let serializer = self.serializer;
        let open = self.open()?;
        let mut bytes = if open.length == 0 { serializer.begin() } else { Vec::new() };
        bytes.extend(serializer.events(&batch.events));
        if let Err(error) = open.file.write_all(&bytes).and_then(|()| open.file.sync_data()) {
            // Nobody knows what is there: it is cut off, and a new file is begun.
            let path = open.path.clone();
            let cut = open.file.set_len(open.length).and_then(|()| fs::metadata(&path));
            if let Err(error) = cut {
                tracing::error!(path = %path.display(), %error, "a file has a part of a batch, which will be in the next one");
            }
            self.open = None;
            return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
        }
        open.length += bytes.len() as u64;
        Ok(())
    }
}

impl Sink for FileRoll {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        // Waits for the disk: others have the runtime's other threads meanwhile.
        let written = tokio::task::block_in_place(|| self.write(batch));
        Box::pin(async move { written.map_err(SinkError::later) })
    }

    fn tend(&mut self) {
        self.roll_in_time();
    }
}
