//! Writing many pieces at once.

use std::fs::File;
use std::io::{self, IoSlice};

use anyhow::Context;
use rustix::io::{Errno, pwritev};

/// More than so many the system does not take in one call.
const SLICES_MAX: usize = 1024;

/// Writes all slices, one behind the other.
pub(super) fn write_at(
    file: &File,
    mut slices: &mut [IoSlice<'_>],
    mut position: u64,
) -> anyhow::Result<()> {
    // Empty ones at the front would look like an end.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match pwritev(file, &slices[..slices.len().min(SLICES_MAX)], position) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)).context("cannot write"),
            Ok(written) => {
                position += written as u64;
                IoSlice::advance_slices(&mut slices, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot store what was sent"),
        }
    }
    Ok(())
}
