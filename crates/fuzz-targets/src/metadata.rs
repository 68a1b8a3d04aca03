//! The records of the cluster's metadata.

use logway_metadata::{MetadataImage, MetadataRecord};

use crate::allocation::within;

/// Records in their form on disk, one a line: what is read is written as it reads, and an image can be made anew from
/// its own records.
pub fn metadata_records(bytes: &[u8]) {
    // An image shares little at this size: a record may take some nodes of several maps.
    within((1 << 20) + 1_000 * bytes.len(), || {
        let mut image = MetadataImage::default();
        for line in bytes.split(|&byte| byte == b'\n') {
            let Ok(record) = serde_json::from_slice::<MetadataRecord>(line) else { continue };
            let written = serde_json::to_vec(&record).expect("a record has a form");
            let again = serde_json::from_slice(&written);
            assert_eq!(again.ok().as_ref(), Some(&record));
            if let Ok(next) = image.apply(&[record]) {
                image = next;
            }
        }
        let again = MetadataImage::default().apply(&image.to_records());
        assert_eq!(again.as_ref(), Ok(&image));
    });
}
