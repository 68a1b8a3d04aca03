//! What a world ends with when a promise is broken.

/// A promise that was broken, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    pub(crate) fn new(what: impl Into<String>) -> Violation {
        Violation(what.into())
    }
}

/// A violation unless `holds`.
pub(crate) fn ensure(holds: bool, broken: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(broken())) }
}
