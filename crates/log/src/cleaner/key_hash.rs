//! By what keys are known.

use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};

/// 128 bits that stand for a key: two halves of SipHash, each under a key of its own.
///
/// That two keys of 10^9 collide by chance has a probability of 10^-21, and nobody can make them:
/// Apache Kafka's MD5 is not keyed, so that whoever may write to a topic can prepare two keys of
/// which the cleaner takes one for the other, and drops its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyHash(pub(super) [u64; 2]);

/// Hashes keys, of which it sees a piece at a time. Its clones give the same hashes, and no other.
#[derive(Debug, Clone)]
pub(super) struct KeyHasher {
    states: [RandomState; 2],
    halves: [DefaultHasher; 2],
    /// What was not given to the halves yet. They get a key in blocks that begin with it, since
    /// they may tell two pieces from one.
    block: [u8; BLOCK_BYTES],
    block_len: usize,
}

const BLOCK_BYTES: usize = 64;

impl KeyHasher {
    /// One whose secrets are drawn by chance.
    pub(super) fn random() -> KeyHasher {
        let states = [RandomState::new(), RandomState::new()];
        let halves = states.each_ref().map(RandomState::build_hasher);
        KeyHasher { states, halves, block: [0; BLOCK_BYTES], block_len: 0 }
    }

    /// Takes the next piece of the key.
    pub(super) fn update(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            if self.block_len == BLOCK_BYTES {
                self.write_block();
            }
            let (front, rest) = piece.split_at(piece.len().min(BLOCK_BYTES - self.block_len));
            self.block[self.block_len..][..front.len()].copy_from_slice(front);
            self.block_len += front.len();
            piece = rest;
        }
    }

    /// The hash of the key, after which the next one begins.
    pub(super) fn finish(&mut self) -> KeyHash {
        self.write_block();
        let hash = KeyHash(self.halves.each_ref().map(DefaultHasher::finish));
        self.halves = self.states.each_ref().map(RandomState::build_hasher);
        hash
    }

    fn write_block(&mut self) {
        for half in &mut self.halves {
            half.write(&self.block[..self.block_len]);
        }
        self.block_len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_in_whatever_pieces_a_key_comes() {
        let mut hasher = KeyHasher::random();
        let key: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for len in [0, 1, 63, 64, 65, 128, 999] {
            hasher.update(&key[..len]);
            let whole = hasher.finish();
            for piece_bytes in [1, 7, 64, 100] {
                let mut other = hasher.clone();
                key[..len].chunks(piece_bytes).for_each(|piece| other.update(piece));
                assert_eq!(other.finish(), whole, "{len} bytes in pieces of {piece_bytes}");
            }
            hasher.update(&key[..len + 1]);
            assert_ne!(hasher.finish(), whole);
        }
        assert_ne!(KeyHasher::random().finish(), hasher.finish(), "secrets differ");
    }
}
