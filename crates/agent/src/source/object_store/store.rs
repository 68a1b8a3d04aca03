//! Where objects are: a list of them, and what is in each.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::{HeaderValue, Method, header};
use bytes::{Buf, Bytes};
use logway_security::signature_v4::percent_encode;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use super::progress::Id;
use crate::error::StartError;
use crate::s3::{ANSWER_BYTES_MAX, Bucket, Call, Refused, element};
use crate::settings::Settings;
use crate::sink::object_store::{PART, of_no_store};
use crate::stop::Stop;

/// So much of an object is asked for at once.
const PIECE_BYTES: usize = 8 << 20;

/// A list of 1,000 objects whose keys are as long as they may be, with each letter escaped, has less.
const LIST_BYTES_MAX: usize = 16 << 20;

/// How often a piece is asked for before the object is given up for now.
const TRIES: u32 = 4;

/// The pause before the second try; each other one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);

/// How deep directories below are looked into.
const DEPTH_MAX: usize = 32;

/// An object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its key, or the path of a file.
    pub(super) key: String,
    /// Another one with the same key has another tag.
    pub(super) tag: String,
    pub(super) bytes: u64,
}

/// A part of a list, and what the next part is asked for with.
pub(super) struct Page {
    pub(super) objects: Vec<Found>,
    pub(super) next: Option<String>,
}

/// An object, or a piece of it, did not come.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(super) struct Unread {
    pub(super) reason: Reason,
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is not there any more, as it was.
    Gone,
    /// It is not for us, or not now: it is in an archive.
    Refused,
    /// The store cannot be asked, or does not answer as one.
    Failed,
}

pub(super) enum Store {
    S3 { bucket: Box<Bucket>, prefix: String, stop: Stop },
    Files { directory: PathBuf },
}

impl Found {
    pub(super) fn id(&self) -> Id {
        let mut hash = Sha256::new();
        hash.update((self.key.len() as u64).to_le_bytes());
        hash.update(&self.key);
        // Not every store makes an object and its tag at once.
        hash.update(self.bytes.to_le_bytes());
        hash.update(&self.tag);
        hash.finalize()[..16].try_into().expect("there are 32")
    }

    fn of_file(path: &Path) -> io::Result<Option<Found>> {
        let metadata = fs::metadata(path)?;
        let Some(key) = path.to_str().filter(|_| metadata.is_file()) else { return Ok(None) };
        let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
        let tag = format!("{seconds}.{nanos:09}");
        Ok(Some(Found { key: key.to_owned(), tag, bytes: metadata.len() }))
    }
}

impl Unread {
    pub(super) fn error(reason: Reason, message: String) -> io::Error {
        io::Error::other(Unread { reason, message })
    }

    /// Why an object did not come; `None` if it came, and is damaged.
    pub(super) fn of(error: &io::Error) -> Option<&Unread> {
        error.get_ref()?.downcast_ref()
    }

    fn of_file(path: &str, error: &io::Error) -> io::Error {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => Reason::Gone,
            io::ErrorKind::PermissionDenied => Reason::Refused,
            _ => Reason::Failed,
        };
        Unread::error(reason, format!("{path}: {error}"))
    }
}

impl Store {
    pub(super) fn new(settings: &Settings, url: &str, stop: &Stop) -> Result<Store, StartError> {
        match url.split_once("://") {
            Some(("s3", rest)) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                let bucket = Box::new(Bucket::new(settings, bucket, None)?);
                Ok(Store::S3 { bucket, prefix: prefix.to_owned(), stop: stop.clone() })
            }
            Some(("file", path)) if path.starts_with('/') => {
                let directory = PathBuf::from(path);
                if !directory.is_dir() {
                    return Err(format!("url names {path}, which is no directory"));
                }
                Ok(Store::Files { directory })
            }
            _ => Err(of_no_store(url, "neither with s3:// nor with file:///")),
        }
    }

    /// The next objects, in the order of their names.
    pub(super) fn list(&mut self, behind: Option<&str>, handle: &Handle) -> Result<Page, String> {
        match self {
            Store::S3 { bucket, prefix, .. } => handle.block_on(list(bucket, prefix, behind)),
            Store::Files { directory } => {
                let mut objects = Vec::new();
                look_into(directory, 0, &mut objects)
                    .map_err(|error| format!("{}: {error}", directory.display()))?;
                objects.sort_by(|a, b| a.key.cmp(&b.key));
                Ok(Page { objects, next: None })
            }
        }
    }

    /// What patterns see of an object's key.
    pub(super) fn name_of<'a>(&self, object: &'a Found) -> &'a str {
        match self {
            Store::S3 { .. } => &object.key,
            Store::Files { directory } => {
                let below = Path::new(&object.key).strip_prefix(directory).ok();
                below.and_then(Path::to_str).unwrap_or(&object.key)
            }
        }
    }

    /// What is in an object. Errors are [`Unread`].
    pub(super) fn open<'a>(
        &'a mut self,
        object: &'a Found,
        handle: &'a Handle,
    ) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Store::S3 { bucket, stop, .. } => {
                let path = bucket.path_of(&object.key);
                let piece = Bytes::new();
                Box::new(Pieces { bucket, path, object, offset: 0, piece, stop, handle })
            }
            Store::Files { .. } => {
                let failed = |error| Unread::of_file(&object.key, &error);
                let path = Path::new(&object.key);
                let now = Found::of_file(path).map_err(failed)?;
                if now.as_ref() != Some(object) {
                    let message = format!("{} has changed", object.key);
                    return Err(Unread::error(Reason::Gone, message));
                }
                let file = File::open(path).map_err(failed)?;
                Box::new(WholeFile { file, path: &object.key })
            }
        })
    }

    pub(super) fn delete(&mut self, object: &Found, handle: &Handle) -> Result<(), String> {
        match self {
            Store::S3 { bucket, .. } => {
                let path = &bucket.path_of(&object.key);
                let call = call(Method::DELETE, path, "", &[], ANSWER_BYTES_MAX);
                match handle.block_on(bucket.call(call)) {
                    Ok(_) | Err(Refused { status: Some(404), .. }) => Ok(()),
                    Err(refused) => Err(refused.to_string()),
                }
            }
            Store::Files { .. } => {
                fs::remove_file(&object.key).map_err(|error| format!("{}: {error}", object.key))
            }
        }
    }
}

fn call<'a>(
    method: Method,
    path: &'a str,
    query: &'a str,
    headers: &'a [(&'static str, HeaderValue)],
    answer_bytes_max: usize,
) -> Call<'a> {
    Call { method, path, query, headers, body: Bytes::new(), answer_bytes_max }
}

/// By `ListObjectsV2`.
async fn list(bucket: &mut Bucket, prefix: &str, behind: Option<&str>) -> Result<Page, String> {
    // In the order of names, as they are signed.
    let mut query = String::new();
    if let Some(token) = behind {
        query += "continuation-token=";
        percent_encode(token.as_bytes(), &mut query);
        query.push('&');
    }
    query += "list-type=2&prefix=";
    percent_encode(prefix.as_bytes(), &mut query);
    let path = &bucket.path();
    let answer = bucket.call(call(Method::GET, path, &query, &[], LIST_BYTES_MAX)).await?;
    let strange = |what: &str| format!("{}: the store's list {what}", bucket.named(path));
    if answer.is_cut {
        return Err(strange("is longer than 16 MiB"));
    }
    let xml = answer.text();
    let mut objects = Vec::new();
    for part in xml.split("<Contents>").skip(1) {
        let part = part.split("</Contents>").next().unwrap_or_default();
        let bytes = element(part, "Size").and_then(|size| size.parse().ok());
        let (Some(key), Some(tag), Some(bytes)) =
            (element(part, "Key"), element(part, "ETag"), bytes)
        else {
            return Err(strange(&format!("has an entry without Key, ETag and Size: {part}")));
        };
        // Consoles make empty objects in place of directories.
        if bytes > 0 {
            objects.push(Found { key, tag, bytes });
        }
    }
    let is_cut = element(&xml, "IsTruncated").is_some_and(|text| text == "true");
    let next = element(&xml, "NextContinuationToken").filter(|_| is_cut);
    if is_cut && next.is_none() {
        return Err(strange("goes on, and does not say where"));
    }
    Ok(Page { objects, next })
}

fn look_into(directory: &Path, depth: usize, found: &mut Vec<Found>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') || name.ends_with(PART) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            if depth < DEPTH_MAX {
                look_into(&path, depth + 1, found)?;
            }
            continue;
        }
        match Found::of_file(&path) {
            // It went meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            object => found.extend(object?.filter(|object| object.bytes > 0)),
        }
    }
    Ok(())
}

/// Reads an object piece by piece, all of the same version.
struct Pieces<'a> {
    bucket: &'a mut Bucket,
    path: String,
    object: &'a Found,
    /// Where the next piece begins.
    offset: u64,
    piece: Bytes,
    stop: &'a Stop,
    handle: &'a Handle,
}

impl Pieces<'_> {
    fn next(&mut self) -> io::Result<()> {
        let (mut tries, mut pause) = (1, PAUSE);
        loop {
            let refused = match self.handle.block_on(self.ask()) {
                Ok(piece) => {
                    self.offset += piece.len() as u64;
                    self.piece = piece;
                    return Ok(());
                }
                Err(refused) => refused,
            };
            let reason = match refused.status {
                Some(404 | 412) => Reason::Gone,
                Some(403) => Reason::Refused,
                _ => Reason::Failed,
            };
            let is_last = reason != Reason::Failed || tries == TRIES;
            if is_last || self.handle.block_on(self.stop.sleep(pause)) {
                return Err(Unread::error(reason, refused.into()));
            }
            tries += 1;
            pause *= 2;
        }
    }

    async fn ask(&mut self) -> Result<Bytes, Refused> {
        let named = self.bucket.named(&self.path);
        let strange = |what: &str| Refused::new(format!("{named}: {what}"));
        let end = self.object.bytes.min(self.offset + PIECE_BYTES as u64);
        let range = format!("bytes={}-{}", self.offset, end - 1);
        let value =
            |text: &str| HeaderValue::from_str(text).map_err(|error| strange(&error.to_string()));
        let headers = [
            (header::RANGE.as_str(), value(&range)?),
            (header::IF_MATCH.as_str(), value(&self.object.tag)?),
        ];
        let call = call(Method::GET, &self.path, "", &headers, PIECE_BYTES);
        let answer = self.bucket.call(call).await?;
        // A store that knows no ranges sends all of it.
        let is_whole = !answer.is_cut && answer.body.len() as u64 == end - self.offset;
        if !is_whole || (answer.status != 206 && self.offset > 0) {
            return Err(strange(&format!("the store sent something else than {range}")));
        }
        Ok(answer.body)
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && self.offset < self.object.bytes {
            self.next()?;
        }
        let count = into.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}

struct WholeFile<'a> {
    file: File,
    path: &'a str,
}

impl Read for WholeFile<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read(into).map_err(|error| Unread::of_file(self.path, &error))
    }
}
