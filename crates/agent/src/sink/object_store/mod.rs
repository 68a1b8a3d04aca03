//! The sink `object_store`: objects in a store that speaks S3, or files of a directory or of HDFS.
//!
//! A batch grows until it is large or old enough, and becomes one object for each path in it. It is committed when all of
//! them are complete. An object's name says what is in it: the same events have the same name, others never.

mod files;
mod form;
mod hdfs;
mod names;
mod parquet;
mod s3;

use self::files::Files;
use self::form::Form;
use self::hdfs::HdfsFiles;
use self::names::Names;
use self::s3::S3;
use super::hdfs::client::{PATH_BYTES_MAX, located};
use super::{Gathering, Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::{SinkError, StartError};
use crate::s3::{KEY_BYTES_MAX, KEYS_IN_URL, OF_BUCKET};
use crate::tls;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "object_store",
    aliases: &["s3"],
    doc: "Writes events as objects into a store that speaks S3, or as files, also of HDFS. A batch grows up to `rollInterval`, `rollSize` or \
          `rollCount`, or half of what the channel holds, and becomes an object for each path. It is committed when all of its \
          objects are complete. The name of an object has a hash of its events in it: what is sent once more as the same \
          batch writes over the same object. After a kill a batch may end elsewhere, and events may be in two objects.",
    keys: &[
        key(
            "url",
            Kind::Text,
            Fallback::Required,
            "Where objects are: `s3://BUCKET/PATH`, `file:///DIRECTORY` or `hdfs://HOST:PORT/PATH`. Behind the bucket or the port, `%{NAME}` is the value of a \
             header and `%Y %m %d %H %M` and others are parts of the time in the header `timestamp`, or else of when the \
             batch began, in UTC; `%%` is a percent sign. Events whose path has a part `.` or `..` or control characters, \
             or makes a name that is too long, go to the dead letters.",
        ),
        key("filePrefix", Kind::Text, Fallback::Is("events"), "What names begin with. No `/`."),
        key(
            "format",
            Kind::Choice(&["json", "text", "header_and_text", "avro_event", "parquet"]),
            Fallback::Is("json"),
            "How events are written: an object in JSON a line, bodies a line, headers and bodies a line, an Avro \
             container file, or Parquet with the columns `offset`, `partition`, `timestamp`, `key`, `headers` and `body`.",
        ),
        key(
            "compression",
            Kind::Choice(&["none", "gzip", "zstd", "snappy"]),
            Fallback::Is("gzip"),
            "How objects are compressed; names end in `.gz` or `.zst`. Not for `avro_event`, whose readers want plain files. \
             `parquet` is compressed within, by `snappy` unless this is `none`; nothing else takes `snappy`.",
        ),
        key(
            "rollInterval",
            Kind::Number(1, 86_400, "s"),
            Fallback::Is("60"),
            "A batch is no older than this. Its events are in the channel until then.",
        ),
        key(
            "rollSize",
            Kind::Number(1, 1 << 30, "bytes"),
            Fallback::Is("67108864"),
            "A batch is complete with so many bytes of bodies and headers. In memory are so many, \
             and besides one object of them, plain and compressed.",
        ),
        key(
            "rollCount",
            Kind::Number(1, 10_000_000, "events"),
            Fallback::Is("1000000"),
            "A batch is complete with so many events.",
        ),
        key(
            "batchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("100"),
            "How many events are taken from the channel at once.",
        ),
        key(
            "partSize",
            Kind::Number(5 << 20, 5 << 30, "bytes"),
            Fallback::Is("67108864"),
            "An object in S3 that is larger is sent in parts of this size.",
        ),
        key(
            "user",
            Kind::Text,
            Fallback::Nothing,
            "The user whose files they are in HDFS. Without it that of `HADOOP_USER_NAME`, or the process's.",
        ),
        key(
            "requestTimeout",
            Kind::Number(1, i64::MAX, "ms"),
            Fallback::Is("60000"),
            "How long an object may take. Then it is sent again.",
        ),
    ],
    shared: &[OF_BUCKET, tls::OF_HTTPS],
};

/// What is at the end of the name of a file that is not complete. One that a kill leaves is written over by the same object.
pub(crate) const PART: &str = ".part";

struct ObjectStore {
    names: Names,
    form: Form,
    store: Store,
    gathering: Gathering,
}

enum Store {
    S3(Box<S3>),
    Files(Files),
    Hdfs(Box<HdfsFiles>),
}

/// Why a url is refused that begins otherwise than it should.
pub(crate) fn of_no_store(url: &str, otherwise: &str) -> StartError {
    match url.contains('@') {
        true => KEYS_IN_URL.to_owned(),
        false => format!("url '{url}' begins {otherwise}"),
    }
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let settings = &context.settings;
    let url = settings.required("url").trim();
    let form = Form::new(settings)?;
    let prefix = settings.required("filePrefix").trim();
    let (store, path, name_bytes_max) = match url.split_once("://") {
        Some(("s3", rest)) => {
            let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
            (Store::S3(Box::new(S3::new(&context, bucket)?)), path, KEY_BYTES_MAX)
        }
        Some(("file", path)) if path.starts_with('/') => {
            (Store::Files(Files), path, files::PATH_BYTES_MAX)
        }
        Some(("hdfs" | "viewfs", _)) => {
            let (address, path) = located(url)?;
            let user = settings.text("user").map(str::trim);
            let files = HdfsFiles::new(address, user, settings.millis("requestTimeout"))?;
            (Store::Hdfs(Box::new(files)), path, PATH_BYTES_MAX)
        }
        _ => {
            return Err(of_no_store(url, "neither with s3:// nor with file:/// nor with hdfs://"));
        }
    };
    let names = Names::new(path, prefix, form.extension(), name_bytes_max)?;
    let gathering = Gathering {
        interval: settings.seconds("rollInterval"),
        events_max: settings.size("rollCount"),
        bytes_max: settings.number("rollSize"),
    };
    Ok(Box::new(ObjectStore { names, form, store, gathering }))
}

impl ObjectStore {
    async fn write(&mut self, batch: &Taken) -> Result<(), SinkError> {
        for (directory, events) in self.names.objects(batch)? {
            let name = self.names.name(batch, &events);
            let places: Vec<_> = events.iter().map(|index| batch.place(*index)).collect();
            let events: Vec<_> = events.iter().map(|index| batch.events[*index].clone()).collect();
            let body = self.form.body(&events, &places).map_err(SinkError::later)?;
            let put = match &mut self.store {
                Store::S3(s3) => s3.put(&directory, &name, body).await,
                Store::Files(files) => files.put(&directory, &name, &body),
                Store::Hdfs(files) => files.put(&directory, &name, body).await,
            };
            put.map_err(SinkError::Later)?;
        }
        Ok(())
    }
}

impl Sink for ObjectStore {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        Box::pin(self.write(batch))
    }

    fn gathering(&self) -> Option<Gathering> {
        Some(self.gathering)
    }
}
