//! What must hold of transactions.

pub(super) mod atomicity;
pub(super) mod fencing;
pub(super) mod isolation;
pub(super) mod offsets;
pub(super) mod stability;
#[cfg(test)]
mod tests;
