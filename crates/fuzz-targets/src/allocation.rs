//! How much memory a thread has in use.
//!
//! The one place with `unsafe`: an allocator cannot be written without it. Every call is passed on as it came to the
//! system's allocator, which is sound wherever that is, since callers owe both the same. The counting beside it touches
//! nothing but two numbers of the thread, neither of which has to be made or destroyed at run time, so that it never
//! allocates itself.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static IN_USE_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTED: Counted = Counted;

struct Counted;

// SAFETY: each method does what `System`'s does, with the same arguments.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`, and `System` has allocated the block.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size as isize - layout.size() as isize);
        // SAFETY: the caller keeps the contract of `realloc`, and `System` has allocated the block.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

fn note(more_bytes: isize) {
    let in_use_bytes = IN_USE_BYTES.get() + more_bytes;
    IN_USE_BYTES.set(in_use_bytes);
    PEAK_BYTES.set(PEAK_BYTES.get().max(in_use_bytes));
}

/// Does `work`, which must at no moment have more than `bytes_max` in use beyond what this thread had before. What C
/// libraries allocate is not seen.
pub(crate) fn within<T>(bytes_max: usize, work: impl FnOnce() -> T) -> T {
    let before_bytes = IN_USE_BYTES.get();
    PEAK_BYTES.set(before_bytes);
    let outcome = work();
    let taken_bytes = PEAK_BYTES.get() - before_bytes;
    assert!(taken_bytes <= bytes_max as isize, "{taken_bytes} bytes were taken, of {bytes_max}");
    outcome
}
