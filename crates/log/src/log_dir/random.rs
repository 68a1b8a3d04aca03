//! Bits that nobody else has.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Bits for an id: the standard library's hash keys come from the operating system's generator.
pub(super) fn random_bits() -> [u8; 16] {
    let mut bits = [0; 16];
    for half in bits.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().build_hasher().finish().to_be_bytes());
    }
    bits
}
