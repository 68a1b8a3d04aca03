//! Writing many pieces at once.

use std::fs::File;
use std::io::{self, IoSlice};

use anyhow::Context;
use rustix::io::{Errno, pwritev};

/// More than so many the system does not take in one call.
const SLICES_MAX: usize = 1024;

/// More than this is written in parts that end at multiples of it in the file, as brokers do that know what larger
/// parts cost: for a part of 32 KiB Linux has memory at hand.
const PART_BYTES: u64 = 32 << 10;

/// Writes all slices, one behind the other.
pub(crate) fn write_at(
    file: &File,
    mut slices: &mut [IoSlice<'_>],
    mut position: u64,
) -> anyhow::Result<()> {
    // Empty ones at the front would look like an end.
    IoSlice::advance_slices(&mut slices, 0);
    let size_bytes: usize = slices.iter().map(|slice| slice.len()).sum();
    let is_small = size_bytes as u64 <= PART_BYTES;
    while !slices.is_empty() {
        let many = &slices[..slices.len().min(SLICES_MAX)];
        let written = match is_small {
            true => pwritev(file, many, position),
            false => pwritev(file, &beginning(many, PART_BYTES - position % PART_BYTES), position),
        };
        match written {
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

/// The first bytes of the slices, `bytes` at most.
fn beginning<'a>(slices: &'a [IoSlice<'_>], bytes: u64) -> Vec<IoSlice<'a>> {
    let mut room = bytes as usize;
    let mut beginning = Vec::new();
    for slice in slices {
        let taken = &slice[..slice.len().min(room)];
        beginning.push(IoSlice::new(taken));
        room -= taken.len();
        if room == 0 {
            break;
        }
    }
    beginning
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn parts_of_any_shape_make_up_what_was_given() {
        let pieces = [&[1; 7][..], &[], &[2; 100_000], &[3; 5], &[4; 40_000], &[]];
        let whole = pieces.concat();
        let file = tempfile::tempfile().expect("a file");
        let mut slices = pieces.map(IoSlice::new);
        write_at(&file, &mut slices, 12_345).expect("write");
        let mut read = vec![0; whole.len()];
        file.read_exact_at(&mut read, 12_345).expect("read");
        assert!(read == whole);
        assert_eq!(file.metadata().expect("metadata").len(), 12_345 + whole.len() as u64);
    }
}
