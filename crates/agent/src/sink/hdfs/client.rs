//! A file system of HDFS, asked within a time.

use std::time::Duration;

use bytes::Bytes;
use hdfs_native::client::IORuntime;
use hdfs_native::file::FileWriter;
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use tokio::runtime::Handle;

use crate::error::StartError;

/// The longest path (`dfs.namenode.fs-limits.max-path-length`, 8000 characters, is for the NameNode's memory).
pub(crate) const PATH_BYTES_MAX: usize = 4096;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// There is something of this name already, or somebody writes it.
    #[error("{0} is there already")]
    Exists(String),
    #[error("{0} is not there")]
    NotFound(String),
    #[error("{path}: {reason}")]
    Other { path: String, reason: String },
}

/// A file system.
#[derive(Debug, Clone)]
pub(crate) struct Hdfs {
    client: Client,
    call_timeout: Duration,
}

/// Where paths are: `hdfs://HOST:PORT`, and the path behind it.
pub(crate) type Located<'a> = (Option<&'a str>, &'a str);

/// Splits a file system's address from the path behind it. Without an address it is `fs.defaultFS` of Hadoop's
/// configuration.
///
/// # Errors
///
/// It is of another file system.
pub(crate) fn located(url: &str) -> Result<Located<'_>, StartError> {
    let Some((scheme, rest)) = url.split_once("://") else { return Ok((None, url)) };
    if !["hdfs", "viewfs"].contains(&scheme) {
        return Err(format!(
            "'{url}' is of {scheme}, and not of HDFS; the sink object_store writes into S3 and into files"
        ));
    }
    let path_at = rest.find('/').ok_or_else(|| format!("'{url}' has no path"))?;
    if path_at == 0 {
        return Ok((None, rest));
    }
    Ok((Some(&url[..scheme.len() + 3 + path_at]), &rest[path_at..]))
}

impl Hdfs {
    /// The file system of an address, whose NameNode need not be there yet. Hadoop's own configuration is read if
    /// `HADOOP_CONF_DIR` or `HADOOP_HOME` say where it is.
    ///
    /// # Errors
    ///
    /// The address or Hadoop's configuration makes no sense.
    pub(crate) fn new(
        address: Option<&str>,
        user: Option<&str>,
        call_timeout: Duration,
    ) -> Result<Hdfs, StartError> {
        let mut builder =
            ClientBuilder::new().with_io_runtime(IORuntime::Handle(Handle::current()));
        if let Some(address) = address {
            builder = builder.with_url(address);
        }
        if let Some(user) = user {
            builder = builder.with_user(user);
        }
        let client = builder.build().map_err(|error| {
            let address = address.unwrap_or("fs.defaultFS");
            format!("{address} is no file system: {error}")
        })?;
        Ok(Hdfs { client, call_timeout })
    }

    /// Begins a file, with the directories above it.
    pub(crate) async fn create(&self, path: &str, overwrites: bool) -> Result<FileWriter, Failure> {
        let options = WriteOptions::default().overwrite(overwrites);
        self.within(path, self.client.create(path, options)).await
    }

    /// Appends bytes. When this returns, they are on the disks of all DataNodes that the file has, and readers see them.
    pub(crate) async fn append(
        &self,
        path: &str,
        writer: &mut FileWriter,
        bytes: Bytes,
    ) -> Result<(), Failure> {
        let written = async {
            writer.write_bytes(bytes).await?;
            writer.hsync().await
        };
        self.within(path, written).await
    }

    /// Ends a file.
    pub(crate) async fn close(&self, path: &str, writer: &mut FileWriter) -> Result<(), Failure> {
        self.within(path, writer.close()).await
    }

    /// Has the NameNode end a file that nobody writes any more: before, others may not be able to read its end. Fails until it has
    /// ended, since a DataNode that has begun to end it may be gone.
    pub(crate) async fn recover(&self, path: &str) -> Result<(), Failure> {
        match self.within(path, self.client.recover_lease(path)).await? {
            true => Ok(()),
            false => {
                let reason = "the NameNode has not ended it yet".to_owned();
                Err(Failure::Other { path: path.to_owned(), reason })
            }
        }
    }

    pub(crate) async fn rename(
        &self,
        from: &str,
        to: &str,
        overwrites: bool,
    ) -> Result<(), Failure> {
        self.within(from, self.client.rename(from, to, overwrites)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.within(path, self.client.delete(path, false)).await.map(drop)
    }

    async fn within<T>(
        &self,
        path: &str,
        call: impl Future<Output = hdfs_native::Result<T>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.call_timeout, call).await {
            Ok(called) => called.map_err(|error| failure(path, &error)),
            Err(_) => {
                let reason = format!("no answer within {} ms", self.call_timeout.as_millis());
                Err(Failure::Other { path: path.to_owned(), reason })
            }
        }
    }
}

fn failure(path: &str, error: &HdfsError) -> Failure {
    let is_java = |class: &str, name: &str| class.rsplit('.').next() == Some(name);
    match error {
        HdfsError::AlreadyExists(what) => Failure::Exists(first_line(what)),
        HdfsError::FileNotFound(what) => Failure::NotFound(first_line(what)),
        HdfsError::RPCError(class, what) if is_java(class, "AlreadyBeingCreatedException") => {
            Failure::Exists(first_line(what))
        }
        HdfsError::RPCError(class, what) if is_java(class, "FileNotFoundException") => {
            Failure::NotFound(first_line(what))
        }
        error => Failure::Other { path: path.to_owned(), reason: first_line(&error.to_string()) },
    }
}

/// Java sends its stack with what went wrong.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split_from_its_path() {
        assert_eq!(located("hdfs://n:8020/a/%Y"), Ok((Some("hdfs://n:8020"), "/a/%Y")));
        assert_eq!(located("hdfs:///a"), Ok((None, "/a")));
        assert_eq!(located("/a/b"), Ok((None, "/a/b")));
        assert_eq!(located("a/%{b}"), Ok((None, "a/%{b}")));
        assert!(located("hdfs://n:8020").is_err_and(|error| error.contains("no path")));
        assert!(located("s3a://bucket/a").is_err_and(|error| error.contains("object_store")));
    }
}
