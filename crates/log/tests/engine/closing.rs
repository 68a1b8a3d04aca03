//! Closing a directory while others use it, and with a disk that fails.

use std::sync::Arc;
use std::thread;

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{LogDir, LogError, NewLog};
use logway_model::Offset;

use crate::support::*;

fn new_log(disk: &TestDisk, number: i32) -> NewLog {
    let config = Arc::new(disk.config.clone());
    NewLog { partition: partition(number), topic_id: topic_id(), config }
}

/// A log in a directory that was not closed, which cannot be opened at first; and another.
fn log_to_try_again() -> (TestDisk, LogDir) {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    append_records(&disk.log(&dir), 5, 100);
    disk.log_of(&dir, 1);
    drop(dir);
    disk.fs.inject(Fault::new(SimOperation::ReadDir, Failure::NoDescriptors).in_path("t-0"));
    let dir = disk.open();
    disk.fs.heal();
    assert_eq!(dir.recovery_report().failed.len(), 1);
    (disk, dir)
}

#[test]
fn a_close_waits_for_a_log_that_is_being_opened() {
    let (disk, dir) = log_to_try_again();
    let other = dir.log(&partition(1)).expect("it could be opened");
    disk.fs.hold_syncs_in("t-0/");
    thread::scope(|scope| {
        let opened = scope.spawn(|| dir.try_again(&new_log(&disk, 0)));
        // Its end is being put on stable storage.
        disk.fs.wait_for_held_syncs(1);
        let closed = scope.spawn(|| dir.close());
        // The writer goes on as long as the directory is not closed; if it closes too early, it
        // does so long before it has done all this.
        let went_on = (0..2000).all(|_| append(&other, batch(1, 10)).is_ok());
        disk.fs.release_syncs();
        let log = opened.join().expect("it does not panic").expect("it is opened");
        assert!(went_on, "the directory was closed although a log of it was being opened");
        closed.join().expect("it does not panic").expect("it closes");
        let error = append(&log, batch(1, 10)).expect_err("the directory is closed");
        assert!(matches!(error, LogError::Closed { .. }), "{error}");
    });
    let disk = disk.crash();
    let dir = disk.open();
    assert!(dir.recovery_report().was_clean, "the log was closed with the others");
    assert_eq!(read_records(&disk.log(&dir), Offset(0)).len(), 5);
}

#[test]
fn nothing_is_changed_in_a_directory_that_is_closed() {
    let (disk, dir) = log_to_try_again();
    dir.close().expect("it closes");
    // As the next one to open it finds it.
    let changes = disk.fs.changes();
    let closed = |error: LogError| assert!(matches!(error, LogError::Closed { .. }), "{error}");
    for new in [0, 1, 2].map(|number| new_log(&disk, number)) {
        closed(dir.create_logs(std::slice::from_ref(&new))[0].clone().expect_err("it is closed"));
        closed(dir.try_again(&new).expect_err("it is closed"));
        closed(dir.delete_log(&new.partition).expect_err("it is closed"));
        closed(dir.set_aside(&new.partition).expect_err("it is closed"));
    }
    closed(dir.close().expect_err("it is closed already"));
    assert_eq!(disk.fs.changes(), changes, "files were changed after the close");
    let next = disk.open();
    assert!(dir.log(&partition(1)).is_some(), "what was open can be read");
    assert_eq!(disk.log(&next).log_end_offset(), Offset(5));
}
