//! Objects as files of HDFS: written under another name, synced, and renamed.

use super::PART;
use crate::error::StartError;
use crate::sink::hdfs::client::Hdfs;

pub(super) struct HdfsFiles(Hdfs);

impl HdfsFiles {
    pub(super) fn new(
        address: Option<&str>,
        user: Option<&str>,
        call_timeout: std::time::Duration,
    ) -> Result<HdfsFiles, StartError> {
        Hdfs::new(address, user, call_timeout).map(HdfsFiles)
    }

    /// Writes a file. When this returns, it is on the disks of its DataNodes under its name.
    pub(super) async fn put(
        &mut self,
        directory: &str,
        name: &str,
        body: Vec<u8>,
    ) -> Result<(), String> {
        let path = format!("{directory}{name}");
        let part = format!("{path}{PART}");
        let put = async {
            let mut writer = self.0.create(&part, true).await?;
            self.0.append(&part, &mut writer, body.into()).await?;
            self.0.close(&part, &mut writer).await?;
            self.0.rename(&part, &path, true).await
        };
        put.await.map_err(|error| error.to_string())
    }
}
