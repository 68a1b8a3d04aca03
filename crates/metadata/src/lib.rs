//! commands into records, and the table of settings.
//!
//! Everything here is synchronous and pure: no files, clocks, tasks or randomness. The
//! `quorum` crate commits the records and publishes the images.

pub mod record;

pub mod image;

pub mod settings;

mod error;

pub mod controller;

pub use controller::{Command, ControllerError, Decision};
pub use error::MetadataError;
pub use image::{MetadataImage, Overrides, PartitionImage, TopicImage};
pub use record::{ConfigResource, MetadataRecord};
