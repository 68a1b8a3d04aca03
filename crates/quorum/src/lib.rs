//! The metadata quorum: openraft with its log and snapshots on disk.
