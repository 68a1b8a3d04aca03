//! A certificate authority of one's own, so that there is TLS without a word about certificates.
//!
//! It is a key and a certificate in a directory that only who runs the broker may read. Clients trust the certificate; with
//! the key it signs the broker's own certificates, which live for a year and are replaced before.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::tls::{is_for_names, not_after_of};

/// Its certificate, which clients need.
pub const AUTHORITY_FILE: &str = "ca.crt";

const KEY_FILE: &str = "ca.key";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3_650);

const CERTIFICATE_LIFETIME: Duration = DAY.saturating_mul(365);

/// With less time left a certificate is replaced.
const CERTIFICATE_LEFT_MIN: Duration = DAY.saturating_mul(120);

/// Clocks of clients may be behind by so much.
const BEFORE: Duration = DAY;

/// Why there is no authority, or no certificate of it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be, or names are none.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// Which one.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// An authority, with its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// In PEM.
    certificate: String,
}

impl Authority {
    /// The authority in a directory; a new one, where there is none.
    pub fn open_or_create(dir: &Path) -> Result<Authority, AuthorityError> {
        let mut maker = DirBuilder::new();
        maker.recursive(true).mode(0o700).create(dir).map_err(of_file(dir))?;
        let (key_path, certificate_path) = (dir.join(KEY_FILE), dir.join(AUTHORITY_FILE));
        if let Ok(certificate) = fs::read_to_string(&certificate_path) {
            let key = fs::read_to_string(&key_path).map_err(of_file(&key_path))?;
            let key = KeyPair::from_pem(&key).map_err(unusable(&key_path))?;
            return Ok(Authority { issuer: Issuer::new(parameters(), key), certificate });
        }
        let key = KeyPair::generate().map_err(unusable(&key_path))?;
        // The certificate last: where it is, the key is.
        write_secret(&key_path, &key.serialize_pem())?;
        let mut own = parameters();
        own.not_before = (SystemTime::now() - BEFORE).into();
        own.not_after = (SystemTime::now() + AUTHORITY_LIFETIME).into();
        let certificate = own.self_signed(&key).map_err(unusable(&certificate_path))?.pem();
        write_secret(&certificate_path, &certificate)?;
        Ok(Authority { issuer: Issuer::new(parameters(), key), certificate })
    }

    /// Sees to it that a file has a key and a certificate for these names of hosts and addresses, with time left. Whether it
    /// was written anew.
    pub fn renew(&self, path: &Path, names: &[String]) -> Result<bool, AuthorityError> {
        if is_current(path, names) {
            return Ok(false);
        }
        let failed = unusable(path);
        let mut certificate = CertificateParams::new(names).map_err(&failed)?;
        certificate.distinguished_name.push(DnType::CommonName, "Logway broker");
        certificate.not_before = (SystemTime::now() - BEFORE).into();
        certificate.not_after = (SystemTime::now() + CERTIFICATE_LIFETIME).into();
        certificate.use_authority_key_identifier_extension = true;
        certificate.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(&failed)?;
        let signed = certificate.signed_by(&key, &self.issuer).map_err(&failed)?;
        let text = format!("{}{}{}", key.serialize_pem(), signed.pem(), self.certificate);
        write_secret(path, &text)?;
        Ok(true)
    }
}

/// What the authority is called; its key tells it from others of the name.
fn parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "Logway authority");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn is_current(path: &Path, names: &[String]) -> bool {
    let Ok(certificate) = CertificateDer::from_pem_file(path) else { return false };
    let until = SystemTime::now() + CERTIFICATE_LEFT_MIN;
    not_after_of(&certificate).is_some_and(|end| end > until) && is_for_names(&certificate, names)
}

/// Replaces a file by one that nobody else may read, whole or not at all.
pub fn write_secret(path: &Path, text: &str) -> Result<(), AuthorityError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(of_file(path))
}

fn of_file(path: &Path) -> impl Fn(io::Error) -> AuthorityError {
    move |source| AuthorityError::File { path: path.to_owned(), source }
}

fn unusable(path: &Path) -> impl Fn(rcgen::Error) -> AuthorityError {
    move |error| AuthorityError::Unusable { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn it_stays_the_same_and_signs_when_it_is_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let (secure, server) = (dir.path().join("secure"), dir.path().join("secure/server.pem"));
        let first = Authority::open_or_create(&secure).expect("is made");
        let of_host = names(&["localhost", "127.0.0.1", "::1"]);
        assert!(first.renew(&server, &of_host).expect("is signed"));
        let again = Authority::open_or_create(&secure).expect("is there");
        assert_eq!(again.certificate, first.certificate);
        assert!(!again.renew(&server, &of_host).expect("is current"));
        assert!(!again.renew(&server, &names(&["localhost"])).expect("has more than that"));
        assert!(again.renew(&server, &names(&["localhost", "10.0.0.7"])).expect("is signed"));
        fs::write(&server, "no certificate").expect("is written");
        assert!(again.renew(&server, &of_host).expect("is signed anew"));
        for file in ["ca.key", "ca.crt", "server.pem"] {
            let mode = fs::metadata(secure.join(file)).expect("is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        let mode = fs::metadata(&secure).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_certificate_without_its_key_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(Authority::open_or_create(dir.path()).expect("is made"));
        fs::remove_file(dir.path().join(KEY_FILE)).expect("is removed");
        let error = Authority::open_or_create(dir.path()).err().expect("has no key");
        assert!(error.to_string().contains("ca.key"), "{error}");
    }
}
