//! Disks that are unmounted, and logs that somebody put where they are.

use std::path::Path;
use std::sync::Arc;

use logway_log::fs::Fs;
use logway_log::{LogError, NewLog};
use logway_model::Offset;

use crate::support::*;

#[test]
fn no_log_is_made_on_the_disk_below_one_that_was_unmounted() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    append_records(&disk.log(&dir), 1, 10);
    disk.fs.rename(Path::new("/data"), Path::new("/unmounted")).expect("is there");
    for is_there in [false, true] {
        if is_there {
            disk.fs.create_dir_all(Path::new("/data")).expect("is made");
        }
        let config = Arc::new(disk.config.clone());
        let error = dir.create_log(partition(1), topic_id(), Arc::clone(&config));
        let error = error.expect_err("it would be on another disk");
        assert!(matches!(error, LogError::DirectoryEmptied { .. }), "{error}");
        assert!(error.is_device_failure());
        let new = NewLog { partition: partition(2), topic_id: topic_id(), config };
        let copy = dir.create_copy(&new, Offset(0), dir.directory_id());
        assert!(matches!(copy, Err(LogError::DirectoryEmptied { .. })));
        assert_eq!(disk.fs.exists(Path::new("/data")).expect("can be looked for"), is_there);
    }
    assert_eq!(disk.fs.read_dir(Path::new("/data")).expect("is there"), []);
}
