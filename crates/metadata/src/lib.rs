//! Cluster metadata: records, the immutable image they build, the controller that turns admin
//! commands into records, and the tables of settings.
//!
//! Everything here is synchronous and pure: no files, clocks, tasks or randomness. The
//! `quorum` crate commits the records and publishes the images.

pub mod record;

mod level;

pub mod quota;

pub mod acl;
pub mod credential;
pub mod delegation_token;

pub mod join_token;

pub mod sasl;

pub mod image;

pub mod controller;

pub mod balance;

pub mod event;

pub mod settings;

mod error;

pub use controller::{Command, ControllerError, Decision};
pub use error::MetadataError;
pub use image::{
    Acls, ClientQuotas, DelegationTokens, Duty, Intake, MetadataImage, Overrides, PartitionImage,
    StreamImage, TopicImage, TopicsDifference, Users, is_internal,
};
pub use level::{METADATA_FEATURE, MetadataLevel, STREAMS_FEATURE, STREAMS_LEVEL};
pub use record::{ConfigResource, MetadataRecord};
