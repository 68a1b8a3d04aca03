//! Operations that a test makes wait.

use std::path::Path;

use super::fault::SimOperation;

/// Which operations wait, and how many do.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// Operations on paths that contain the text.
    held: Vec<(SimOperation, String)>,
    /// No sync of a file begins.
    pub(super) syncs_hang: bool,
    waiting: Vec<SimOperation>,
}

impl Holds {
    /// Has such operations wait from now on, on paths that contain `part`.
    pub(super) fn hold(&mut self, operation: SimOperation, part: &str) {
        self.held.push((operation, part.to_owned()));
    }

    /// Has no such operation wait any more.
    pub(super) fn release(&mut self, operation: SimOperation) {
        self.held.retain(|(held, _)| *held != operation);
    }

    /// Whether an operation on `path` must wait.
    pub(super) fn is_held(&self, operation: SimOperation, path: &Path) -> bool {
        let path = path.to_string_lossy();
        self.held.iter().any(|(held, part)| *held == operation && path.contains(part))
    }

    /// Counts one that begins to wait.
    pub(super) fn begin_wait(&mut self, operation: SimOperation) {
        self.waiting.push(operation);
    }

    /// Counts one that waits no more.
    pub(super) fn end_wait(&mut self, operation: SimOperation) {
        let index = self.waiting.iter().position(|&waiting| waiting == operation);
        self.waiting.swap_remove(index.expect("it was counted when it began to wait"));
    }

    /// How many of them wait.
    pub(super) fn waiting(&self, operation: SimOperation) -> usize {
        self.waiting.iter().filter(|&&waiting| waiting == operation).count()
    }
}
