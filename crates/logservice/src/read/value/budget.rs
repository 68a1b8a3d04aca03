//! The bound on what one value may become: a few bytes can describe far more than they are.

use super::{DEPTH_MAX, Misfit};

/// What all parts of a value may take together.
const BYTES_MAX: usize = 8 << 20;

/// What a part takes beside its name and its text.
pub(super) const PART_BYTES: usize = 80;

/// What may still be made.
#[derive(Debug)]
pub(super) struct Budget {
    left_bytes: usize,
    depth: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { left_bytes: BYTES_MAX, depth: 0 }
    }
}

impl Budget {
    /// Counts a part, with so many bytes of names and texts.
    pub(super) fn part(&mut self, bytes: usize) -> Result<(), Misfit> {
        let left = self.left_bytes.checked_sub(bytes.saturating_add(PART_BYTES));
        self.left_bytes = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Misfit::Large)
    }

    /// What is within a part, and so is deeper.
    pub(super) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Budget) -> Result<T, Misfit>,
    ) -> Result<T, Misfit> {
        if self.depth == DEPTH_MAX {
            return Err(Misfit::Deep);
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    pub(super) fn used_bytes(&self) -> usize {
        BYTES_MAX - self.left_bytes
    }
}
