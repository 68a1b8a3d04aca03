//! What can be wrong with a coordinator's record.

use logway_wire::DecodeError;

/// A record cannot be understood.
///
/// Records of kinds that are not served (those of other group types) are no error: see
/// [`GroupRecord::decode`](crate::GroupRecord::decode).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The record has no key, or one too short to say its type.
    #[error("a record without a key of at least two bytes")]
    NoKey,
    /// The key is not what its type says.
    #[error("the key of a record of type {record_type}: {source}")]
    Key {
        /// The type that the key begins with.
        record_type: i16,
        /// What is wrong.
        source: DecodeError,
    },
    /// The value is not what the key's type says, or of a version from the future.
    #[error("the value of a record about group '{group}': {source}")]
    Value {
        /// The group, shortened.
        group: String,
        /// What is wrong.
        source: DecodeError,
    },
    /// The same of the value of a record about a transactional id.
    #[error("the value of a record about transactional id '{transactional_id}': {source}")]
    TransactionValue {
        /// The id, shortened.
        transactional_id: String,
        /// What is wrong.
        source: DecodeError,
    },
    /// The value has something that no coordinator writes.
    #[error("the record about transactional id '{transactional_id}' has an unknown value: {what}")]
    UnknownIn {
        /// The id, shortened.
        transactional_id: String,
        /// What it is.
        what: String,
    },
}
