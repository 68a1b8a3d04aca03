//! Which build an executable is.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use crc_fast::{CrcAlgorithm, Digest};

/// How much of a file is read at a time.
const READ_BYTES: usize = 1 << 20;

/// CRC-32C of a file in eight hexadecimal digits. Two builds of one version say the same of themselves, and have
/// different bytes.
///
/// # Errors
///
/// It cannot be read.
pub(crate) fn checksum(path: &Path) -> anyhow::Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read =
            file.read(&mut buffer).with_context(|| format!("cannot read {}", path.display()))?;
        if read == 0 {
            return Ok(format!("{:08x}", digest.finalize()));
        }
        digest.update(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_told_apart_by_their_bytes() {
        let directory = tempfile::tempdir().expect("a directory");
        let checksum_of = |content: &[u8]| {
            let path = directory.path().join("logway");
            std::fs::write(&path, content).expect("is written");
            checksum(&path).expect("is read")
        };
        // The check value of CRC-32C.
        assert_eq!(checksum_of(b"123456789"), "e3069283");
        let long = vec![7; READ_BYTES + 1];
        assert_ne!(checksum_of(&long), checksum_of(&long[1..]));
        let error = checksum(&directory.path().join("nothing")).expect_err("there is none");
        assert!(error.to_string().contains("nothing"), "{error}");
    }
}
