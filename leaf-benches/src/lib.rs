//! The leaf functions: those that run for each batch, request or look-up, and call nothing that
//! waits.
//!
//! `cargo bench -p logway-leaf-benches --bench instructions` counts what each executes and holds it
//! against `instructions.tsv`; `--bench time` times the same functions with criterion. Instructions
//! guard against regressions because they hardly vary from one run to the next, whatever else the machine does;
//! time shows what a cache miss or a slow instruction costs.

mod batches;
mod messages;
mod tables;

/// One function with an input.
#[derive(Clone, Copy)]
pub struct Leaf {
    /// What it is called in the baseline.
    pub name: &'static str,
    prepare: fn() -> Work,
}

/// A call of a leaf function; it must do the same at each call.
pub type Work = Box<dyn FnMut()>;

impl Leaf {
    const fn new(name: &'static str, prepare: fn() -> Work) -> Leaf {
        Leaf { name, prepare }
    }

    /// Makes the input.
    pub fn prepare(&self) -> Work {
        (self.prepare)()
    }
}

/// All leaf functions, by what they work on.
pub fn leaves() -> impl Iterator<Item = Leaf> {
    [batches::LEAVES, messages::LEAVES, tables::LEAVES].into_iter().flatten().copied()
}
