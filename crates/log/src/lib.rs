//! The storage engine: the only crate that touches partition data files.
