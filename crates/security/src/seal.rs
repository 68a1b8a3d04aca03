//! Seals: by them a server knows again what it has handed out.
//!
//! | bytes | what is hashed |
//! |---|---|
//! | 1 | how long the purpose is |
//! | N | the purpose: what is sealed for one is nothing for another |
//! | N | the content |
//!
//! The seal is the first half of HMAC-SHA-256 over that.

use hmac::{Hmac, Mac as _};
use logway_model::Uuid;
use sha2::Sha256;

use crate::signature_v4::mac;

/// The size of a seal, in bytes.
pub const SEAL_BYTES: usize = 16;

/// Makes seals for a purpose, and knows those that were made for it with the same key.
#[derive(Clone, Copy)]
pub struct Sealer {
    key: [Uuid; 2],
    purpose: &'static str,
}

impl Sealer {
    /// With the key of the cluster, for a purpose of at most 255 bytes that nothing else has.
    pub fn new(key: [Uuid; 2], purpose: &'static str) -> Sealer {
        Sealer { key, purpose }
    }

    /// The seal of some content. Whose parts vary in length has to be told apart by the content itself.
    pub fn seal(&self, content: &[u8]) -> [u8; SEAL_BYTES] {
        let whole = self.mac(content).finalize().into_bytes();
        std::array::from_fn(|index| whole[index])
    }

    /// Whether this is the seal of the content. Takes the same time wherever they differ.
    pub fn is_seal(&self, seal: &[u8; SEAL_BYTES], content: &[u8]) -> bool {
        self.mac(content).verify_truncated_left(seal).is_ok()
    }

    fn mac(&self, content: &[u8]) -> Hmac<Sha256> {
        let key = [self.key[0].0, self.key[1].0].concat();
        let purpose_bytes = u8::try_from(self.purpose.len()).expect("a purpose is short");
        mac(&key, &[purpose_bytes]).chain_update(self.purpose).chain_update(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [Uuid; 2] = [Uuid([1; 16]), Uuid([2; 16])];

    #[test]
    fn a_seal_is_of_its_key_its_purpose_and_its_content_alone() {
        let sealer = Sealer::new(KEY, "a");
        let seal = sealer.seal(b"content");
        assert!(sealer.is_seal(&seal, b"content"));
        assert!(!sealer.is_seal(&seal, b"contents"));
        assert!(!Sealer::new(KEY, "b").is_seal(&seal, b"content"));
        assert!(!Sealer::new(KEY, "ac").is_seal(&seal, b"ontent"), "the parts do not run together");
        assert!(!Sealer::new([KEY[0], KEY[0]], "a").is_seal(&seal, b"content"));
        for bit in 0..SEAL_BYTES * 8 {
            let mut altered = seal;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(!sealer.is_seal(&altered, b"content"), "{bit}");
        }
    }
}
