//! openraft's own tests of a storage, on ours.

use std::path::Path;
use std::sync::Arc;

use logway_log::fs::SimFs;
use logway_model::BrokerId;
use openraft::testing::{StoreBuilder, Suite};

use super::log_store::LogStore;
use super::state_machine::StateMachine;
use super::{StorageError, TypeConfig};
use crate::directory::Directory;
use crate::log_file::LogFile;
use crate::options::{DiskWork, Start};
use crate::published::Published;

/// Makes a storage on a new simulated disk for each test.
struct OnSimulatedDisk;

impl StoreBuilder<TypeConfig, LogStore, StateMachine> for OnSimulatedDisk {
    async fn build(&self) -> Result<((), LogStore, StateMachine), StorageError> {
        let fs = Arc::new(SimFs::new(1));
        let (directory, _) = Directory::open(fs, Path::new("metadata")).expect("opens");
        let log = LogFile::open(directory.clone(), BrokerId(1), Start::Found).expect("opens");
        let (log, published) = (LogStore::new(log, DiskWork::Threads), Arc::new(Published::new()));
        let machine = StateMachine::open(directory, published, log.clone(), DiskWork::Threads);
        Ok(((), log, machine.expect("opens")))
    }
}

#[test]
fn the_storage_does_what_openraft_expects() {
    Suite::test_all(OnSimulatedDisk).expect("passes");
}
