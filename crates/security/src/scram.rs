//! Passwords as SCRAM keeps them (RFC 5802, RFC 7677).

use std::num::NonZeroU32;

use logway_metadata::credential::{Bytes, ScramCredential};
use logway_metadata::sasl::ScramMechanism;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// How often a password is hashed where nobody says otherwise: the least that is allowed (KIP-554).
pub const DEFAULT_ITERATIONS: u32 = 4_096;

/// The salt of a new password, in bytes.
const SALT_BYTES: usize = 24;

/// The system gives no random numbers.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandomness;

/// Bytes that nobody can guess.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// A new password of letters and digits that are hard to confuse; 120 bits.
pub fn made_up_password() -> Result<String, NoRandomness> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let letters = random_bytes::<24>()?.map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    Ok(letters.iter().collect())
}

/// What is stored of a new password.
pub fn new_credential(
    mechanism: ScramMechanism,
    password: &str,
    iterations: u32,
) -> Result<ScramCredential, NoRandomness> {
    let salt = random_bytes::<SALT_BYTES>()?.to_vec();
    let salted = salted_password(mechanism, password.as_bytes(), &salt, iterations);
    Ok(credential_of(mechanism, &salted, salt, iterations))
}

/// What is stored of a password that was hashed elsewhere.
pub fn credential_of(
    mechanism: ScramMechanism,
    salted_password: &[u8],
    salt: Vec<u8>,
    iterations: u32,
) -> ScramCredential {
    let client_key = mac(mechanism, salted_password, b"Client Key");
    let stored_key = digest::digest(digest_of(mechanism), &client_key).as_ref().to_vec();
    let server_key = mac(mechanism, salted_password, b"Server Key");
    ScramCredential {
        salt: Bytes(salt),
        iterations,
        stored_key: Bytes(stored_key),
        server_key: Bytes(server_key),
    }
}

/// A password as it is hashed with a salt. It takes milliseconds, on purpose.
pub fn salted_password(
    mechanism: ScramMechanism,
    password: &[u8],
    salt: &[u8],
    iterations: u32,
) -> Vec<u8> {
    let algorithm = match mechanism {
        ScramMechanism::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
        ScramMechanism::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
    };
    let iterations = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
    let mut salted = vec![0; digest_of(mechanism).output_len()];
    pbkdf2::derive(algorithm, iterations, salt, password, &mut salted);
    salted
}

/// Whether a password is the one that a credential is of.
pub fn is_password(
    mechanism: ScramMechanism,
    password: &str,
    credential: &ScramCredential,
) -> bool {
    let ScramCredential { salt, iterations, stored_key, .. } = credential;
    let salted = salted_password(mechanism, password.as_bytes(), &salt.0, *iterations);
    let of_password = credential_of(mechanism, &salted, Vec::new(), *iterations);
    is_equal(&of_password.stored_key.0, &stored_key.0)
}

pub(crate) fn digest_of(mechanism: ScramMechanism) -> &'static digest::Algorithm {
    match mechanism {
        ScramMechanism::Sha256 => &digest::SHA256,
        ScramMechanism::Sha512 => &digest::SHA512,
    }
}

pub(crate) fn mac(mechanism: ScramMechanism, key: &[u8], message: &[u8]) -> Vec<u8> {
    let algorithm = match mechanism {
        ScramMechanism::Sha256 => hmac::HMAC_SHA256,
        ScramMechanism::Sha512 => hmac::HMAC_SHA512,
    };
    hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec()
}

/// Compares secrets in a time that depends on their length alone.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |found, (a, b)| found | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_again_and_no_other_is() {
        for mechanism in ScramMechanism::ALL {
            let credential = new_credential(mechanism, "secret", 4_096).expect("is made");
            assert!(is_password(mechanism, "secret", &credential));
            for wrong in ["", "Secret", "secret "] {
                assert!(!is_password(mechanism, wrong, &credential), "{wrong}");
            }
            let shown = format!("{credential:?}");
            assert_eq!(shown, "ScramCredential { iterations: 4096, .. }");
        }
    }

    #[test]
    fn each_password_has_a_salt_of_its_own() {
        let make = || new_credential(ScramMechanism::Sha256, "same", 4_096).expect("is made");
        assert_ne!(make().salt, make().salt);
    }
}
