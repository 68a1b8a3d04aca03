//! The checksum of a batch: CRC-32C (Castagnoli; RFC 3720, appendix B.4).

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::Digest;

/// The CRC-32C of `first` and then `second`.
pub(crate) fn crc32c_of_both(first: &[u8], second: &[u8]) -> u32 {
    let mut digest = Digest::new(Crc32Iscsi);
    digest.update(first);
    digest.update(second);
    digest.finalize() as u32
}

/// The CRC-32C of a message of which the beginning has changed, but not its length.
///
/// `old` is the CRC of the message before; `old_prefix` and `new_prefix` are those of the
/// beginning before and after; `rest_bytes` is how much follows and is the same.
///
/// A CRC is linear: how those of two messages of one length differ depends only on how the
/// messages differ. The difference here is that of the prefixes, followed by zero bytes. It takes
/// less than a microsecond whatever the length, and does not look at the rest.
pub(crate) fn with_prefix_replaced(
    old: u32,
    old_prefix: u32,
    new_prefix: u32,
    rest_bytes: u64,
) -> u32 {
    old ^ multiply(old_prefix ^ new_prefix, x_to_the_8_times(rest_bytes))
}

/// The generator polynomial, bit-reflected, without its highest term.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The polynomial 1. The highest bit is the lowest term, as everywhere here.
const ONE: u32 = 1 << 31;

/// The polynomial x^8, by which a message is multiplied when a zero byte is added to it.
const X_TO_THE_8: u32 = ONE >> 8;

/// x^(8·`bytes`) modulo the generator, by repeated squaring.
fn x_to_the_8_times(bytes: u64) -> u32 {
    let mut power = ONE;
    let mut square = X_TO_THE_8;
    let mut left = bytes;
    while left != 0 {
        if left & 1 != 0 {
            power = multiply(power, square);
        }
        square = multiply(square, square);
        left >>= 1;
    }
    power
}

/// The product of two polynomials over GF(2), modulo the generator.
fn multiply(mut left: u32, mut right: u32) -> u32 {
    let mut product = 0;
    while left != 0 {
        if left & ONE != 0 {
            product ^= right;
        }
        left <<= 1;
        let carry = if right & 1 != 0 { POLYNOMIAL } else { 0 };
        right = (right >> 1) ^ carry;
    }
    product
}

#[cfg(test)]
mod tests {
    use crc_fast::crc32_iscsi;
    use proptest::prelude::*;

    use super::*;

    /// The check value of the algorithm, and the vectors of RFC 3720, appendix B.4.
    #[test]
    fn known_messages_have_known_checksums() {
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c_of_both(b"1234", b"56789"), 0xe306_9283);
        assert_eq!(crc32c_of_both(&[], &[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c_of_both(&[0xff; 32], &[]), 0x62a8_ab43);
        assert_eq!(crc32c_of_both(&ascending[..7], &ascending[7..]), 0x46dd_794e);
    }

    proptest! {
        #[test]
        fn replacing_a_prefix_is_as_good_as_summing_up_anew(
            old_prefix in any::<[u8; 40]>(),
            new_prefix in any::<[u8; 40]>(),
            rest in proptest::collection::vec(any::<u8>(), 0..5000),
        ) {
            let replaced = with_prefix_replaced(
                crc32c_of_both(&old_prefix, &rest),
                crc32_iscsi(&old_prefix),
                crc32_iscsi(&new_prefix),
                rest.len() as u64,
            );
            prop_assert_eq!(replaced, crc32c_of_both(&new_prefix, &rest));
        }
    }
}
