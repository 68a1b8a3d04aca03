//! What the tables of [`shapes`](crate::shapes) are made of.

use crate::shapes::OperationName;

/// A type of AWS's model, with what its values must obey.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Its name in the model.
    pub(crate) name: &'static str,
    /// What its values are.
    pub(crate) kind: Kind,
    /// The least number, or the least length: bytes of a blob, characters of a text, entries of a list or map.
    pub(crate) min: Option<i64>,
    /// The greatest, likewise.
    pub(crate) max: Option<i64>,
    /// A regular expression that the whole of a text matches.
    pub(crate) pattern: Option<&'static str>,
}

/// What values are.
#[derive(Debug)]
pub(crate) enum Kind {
    /// True or false.
    Boolean,
    /// A number of 32 bits.
    Integer,
    /// A number of 64 bits.
    Long,
    /// A number with a fraction.
    Double,
    /// A text.
    Text,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// Bytes.
    Blob,
    /// A point in time.
    Timestamp,
    /// Values of one shape.
    List(&'static Shape),
    /// Keys and values.
    Map(&'static Shape, &'static Shape),
    /// Members by name.
    Structure(&'static [Member]),
}

/// A member of a structure.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) shape: &'static Shape,
    /// Whether it must be there.
    pub(crate) required: bool,
}

/// An operation that is served.
#[derive(Debug)]
pub(crate) struct Operation<Name = OperationName> {
    /// Which.
    pub(crate) name: Name,
    /// Its name as text.
    pub(crate) text: &'static str,
    /// What a request holds.
    pub(crate) input: &'static Shape,
    /// What a response holds, if it holds anything.
    pub(crate) output: Option<&'static Shape>,
}
