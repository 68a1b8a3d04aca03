//! What holds of everything that decodes bytes from outside, whatever the bytes are.
//!
//! A target takes bytes and panics where a promise is broken: what was decoded is lost by encoding it, two readers
//! disagree, memory is taken beyond a bound. The directory `fuzz` has a libFuzzer program for each, and its README says
//! how to run them. `cargo test -p logway-fuzz-targets` gives each the inputs of its corpus, `fuzz/corpus/NAME`.
//!
//! | target | the bytes |
//! |---|---|
//! | [`request`] | a frame, its size taken off: header and request of any API at any version |
//! | [`response`] | API key and version (two bytes each), then a frame as a client gets it |
//! | [`consumer_protocol`] | what a member of a group says of itself, and is assigned |
//! | [`batches`] | record batches in a row |
//! | [`packed_records`] | a codec, a record count (a byte each), then records, which are packed by that codec |
//! | [`group_records`] | [parts]: keys and values of `__consumer_offsets`, in turns |
//! | [`metadata_records`] | a metadata record a line |
//! | [`offset_index`], [`time_index`] | a base offset (8 bytes), then the file |
//! | [`checkpoint`] | which of seven formats (a byte), then the file |
//! | [`journal`] | the file, but for the CRCs of its entries, which are put right |
//! | [`producer_snapshot`] | the file, but for its CRC, which is put right |
//! | [`partition`] | [parts]: the files of a partition that a broker finds at its start |
//! | [`telemetry`] | what a client pushes of its own metrics |
//! | [`log_fields`] | a message of a client of the log service, as Protocol Buffers |
//! | [`sasl`] | a mechanism (a byte), then [parts]: what a client says of who it is |
//!
//! [parts]: parts::pack

mod allocation;
mod batches;
mod checkpoints;
mod disk;
mod groups;
mod indexes;
mod journal;
mod log_fields;
mod messages;
mod metadata;
mod partition;
pub mod parts;
mod producers;
mod sasl;
mod telemetry;

/// A property of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name, also that of its corpus.
    pub name: &'static str,
    /// Panics where the property does not hold.
    pub check: fn(&[u8]),
}

macro_rules! targets {
    ($($module:ident::$name:ident)*) => {
        $(pub use $module::$name;)*

        /// All targets.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), check: $module::$name }),*];
    };
}

targets! {
    messages::request
    messages::response
    groups::consumer_protocol
    batches::batches
    batches::packed_records
    groups::group_records
    metadata::metadata_records
    indexes::offset_index
    indexes::time_index
    checkpoints::checkpoint
    journal::journal
    producers::producer_snapshot
    partition::partition
    telemetry::telemetry
    log_fields::log_fields
    sasl::sasl
}
