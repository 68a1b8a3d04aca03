//! Bits that nobody else has.

use logway_model::Uuid;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// A fresh id for a topic, a directory or a cluster. Its text does not begin with `-`, which
/// command lines would take for an option; Kafka's do not either.
pub fn random_uuid() -> Uuid {
    loop {
        let id = Uuid::from_random(random_bits());
        if !id.to_string().starts_with('-') {
            return id;
        }
    }
}

/// Bits from the operating system's generator.
pub(crate) fn random_bits() -> [u8; 16] {
    let mut bits = [0; 16];
    let mut filled = 0;
    while filled < bits.len() {
        match getrandom(&mut bits[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no randomness: {error}"),
        }
    }
    bits
}
