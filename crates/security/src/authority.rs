//! A certificate authority of one's own, so that there is TLS without a word about certificates.
//!
//! It is a key and a certificate in a directory that only who runs the broker may read. Clients trust the certificate; with
//! the key it signs the broker's own certificates, which live for a year and are replaced before.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use logway_metadata::join_token::Digest;
use logway_metadata::settings::Secret;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};
use ring::hmac;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::getuid;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::nodes::{ANY_NODE, digest_of};
use crate::tls::{is_for_names, not_after_of, public_key_of};

/// Its certificate, which clients need.
pub const AUTHORITY_FILE: &str = "ca.crt";

const KEY_FILE: &str = "ca.key";

/// A node's own key, which stays the same when its certificate is replaced: by it others know the node.
const NODE_KEY_FILE: &str = "node.key";

const NODE_FILE: &str = "node.pem";

const LOCK_FILE: &str = "lock";

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
    /// Held, so that no second process changes files under this one.
    _lock: File,
}

impl Authority {
    /// The authority in a directory; a new one, where there is none.
    pub fn open_or_create(dir: &Path) -> Result<Authority, AuthorityError> {
        make_private(dir)?;
        let lock = lock(dir)?;
        let (key_path, certificate_path) = (dir.join(KEY_FILE), dir.join(AUTHORITY_FILE));
        let known = [&key_path, &certificate_path].map(fs::read_to_string);
        let is_missing = |read: &io::Result<String>| {
            read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        // Only where nothing is there: clients trust the one that was.
        if !known.iter().all(is_missing) {
            let [key, certificate] = known;
            let key = key.map_err(of_file(&key_path))?;
            let certificate = certificate.map_err(of_file(&certificate_path))?;
            return Authority::of_files(lock, (&key_path, &key), (&certificate_path, certificate));
        }
        let key = KeyPair::generate().map_err(unusable(&key_path))?;
        // The certificate last: where it is, the key is.
        write_secret(&key_path, &key.serialize_pem())?;
        let mut own = parameters();
        own.not_before = (SystemTime::now() - BEFORE).into();
        own.not_after = (SystemTime::now() + AUTHORITY_LIFETIME).into();
        let certificate = own.self_signed(&key).map_err(unusable(&certificate_path))?.pem();
        write_secret(&certificate_path, &certificate)?;
        Ok(Authority { issuer: Issuer::new(parameters(), key), certificate, _lock: lock })
    }

    /// Makes the authority of others that of a directory, which must have none.
    pub fn adopt(dir: &Path, key: &str, certificate: &str) -> Result<(), AuthorityError> {
        make_private(dir)?;
        let _lock = lock(dir)?;
        let (key_path, certificate_path) = (dir.join(KEY_FILE), dir.join(AUTHORITY_FILE));
        if is_there(&certificate_path) {
            let reason = "there is an authority already".to_owned();
            return Err(AuthorityError::Unusable { path: certificate_path, reason });
        }
        write_secret(&key_path, key)?;
        write_secret(&certificate_path, certificate)
    }

    /// Whether a directory has an authority.
    pub fn is_in(dir: &Path) -> bool {
        is_there(&dir.join(AUTHORITY_FILE))
    }

    /// Its key and its certificate, in PEM, for a node that is admitted.
    pub fn to_pem(&self) -> (String, String) {
        (self.issuer.key().serialize_pem(), self.certificate.clone())
    }

    /// A secret that each node of the cluster has, one for each purpose, because each has the authority's key.
    pub fn secret_for(&self, purpose: &str) -> Secret {
        let key = hmac::Key::new(hmac::HMAC_SHA512, &self.issuer.key().serialize_der());
        Secret::new(BASE64_STANDARD.encode(hmac::sign(&key, purpose.as_bytes())))
    }

    /// By which a join token names it.
    pub fn digest(&self) -> Result<Digest, AuthorityError> {
        digest_of_certificate(Path::new(AUTHORITY_FILE), &self.certificate)
    }

    /// Sees to it that a directory has a certificate for talking to other nodes, with time left; returns its file, and
    /// whether it was written anew.
    pub fn renew_node(&self, dir: &Path) -> Result<(PathBuf, bool), AuthorityError> {
        let path = dir.join(NODE_FILE);
        let names = vec![ANY_NODE.to_owned()];
        if self.is_current(&path, &names) {
            return Ok((path, false));
        }
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&path, &node_key(dir)?, names, "Logway node", usages)?;
        Ok((path, true))
    }

    /// Whether a file has a certificate of this authority for all these names, with time left.
    fn is_current(&self, path: &Path, names: &[String]) -> bool {
        let Ok(text) = fs::read_to_string(path) else { return false };
        let Ok(certificate) = CertificateDer::from_pem_slice(text.as_bytes()) else { return false };
        let until = SystemTime::now() + CERTIFICATE_LEFT_MIN;
        text.ends_with(&self.certificate)
            && not_after_of(&certificate).is_some_and(|end| end > until)
            && is_for_names(&certificate, names)
    }

    fn of_files(
        lock: File,
        (key_path, key): (&Path, &str),
        (certificate_path, certificate): (&Path, String),
    ) -> Result<Authority, AuthorityError> {
        let key = KeyPair::from_pem(key).map_err(unusable(key_path))?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes());
        let public_key = der.ok().and_then(|der| public_key_of(&der));
        if public_key.as_deref() != Some(&key.subject_public_key_info()[..]) {
            let reason = format!("it is not the certificate of {}", key_path.display());
            return Err(AuthorityError::Unusable { path: certificate_path.to_owned(), reason });
        }
        Ok(Authority { issuer: Issuer::new(parameters(), key), certificate, _lock: lock })
    }

    /// Sees to it that a file has a key and a certificate for these names of hosts and addresses, with time left. Whether it
    /// was written anew.
    pub fn renew(&self, path: &Path, names: &[String]) -> Result<bool, AuthorityError> {
        if self.is_current(path, names) {
            return Ok(false);
        }
        let key = KeyPair::generate().map_err(unusable(path))?;
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(path, &key, names.to_vec(), "Logway broker", usages)?;
        Ok(true)
    }

    /// Writes a key, a certificate of it and that of the authority.
    fn sign(
        &self,
        path: &Path,
        key: &KeyPair,
        names: Vec<String>,
        common_name: &str,
        usages: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<(), AuthorityError> {
        let failed = unusable(path);
        let mut certificate = CertificateParams::new(names).map_err(&failed)?;
        certificate.distinguished_name.push(DnType::CommonName, common_name);
        certificate.not_before = (SystemTime::now() - BEFORE).into();
        certificate.not_after = (SystemTime::now() + CERTIFICATE_LIFETIME).into();
        certificate.use_authority_key_identifier_extension = true;
        certificate.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        certificate.extended_key_usages = usages;
        let signed = certificate.signed_by(key, &self.issuer).map_err(&failed)?;
        let text = format!("{}{}{}", key.serialize_pem(), signed.pem(), self.certificate);
        write_secret(path, &text)
    }
}

/// Of the public key of the node that a directory is for; it gets a key where it has none.
pub fn node_key_digest(dir: &Path) -> Result<Digest, AuthorityError> {
    Ok(digest_of(&node_key(dir)?.subject_public_key_info()))
}

fn node_key(dir: &Path) -> Result<KeyPair, AuthorityError> {
    make_private(dir)?;
    let path = dir.join(NODE_KEY_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => KeyPair::from_pem(&text).map_err(unusable(&path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = KeyPair::generate().map_err(unusable(&path))?;
            write_secret(&path, &key.serialize_pem())?;
            Ok(key)
        }
        Err(error) => Err(of_file(&path)(error)),
    }
}

/// The digest of an authority's certificate, in PEM, of this file.
pub fn digest_of_certificate(path: &Path, text: &str) -> Result<Digest, AuthorityError> {
    let der = CertificateDer::from_pem_slice(text.as_bytes());
    let der = der.map_err(|error| AuthorityError::Unusable {
        path: path.to_owned(),
        reason: format!("it is no certificate: {error}"),
    })?;
    Ok(digest_of(&der))
}

/// Whether a directory has been that of a node which talks to others by TLS.
pub fn has_node_key(dir: &Path) -> bool {
    is_there(&dir.join(NODE_KEY_FILE))
}

fn is_there(path: &Path) -> bool {
    fs::exists(path).unwrap_or(true)
}

fn make_private(dir: &Path) -> Result<(), AuthorityError> {
    let mut maker = DirBuilder::new();
    maker.recursive(true).mode(0o700).create(dir).map_err(of_file(dir))?;
    check_private(dir)
}

/// Fails where another process has it.
fn lock(dir: &Path) -> Result<File, AuthorityError> {
    let path = dir.join(LOCK_FILE);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    let file = file.map_err(of_file(&path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => {
            let reason = "another process uses it".to_owned();
            Err(AuthorityError::Unusable { path, reason })
        }
        Err(error) => Err(of_file(&path)(error.into())),
    }
}

/// A directory that nobody else can read or write, which is ours.
fn check_private(dir: &Path) -> Result<(), AuthorityError> {
    let metadata = fs::metadata(dir).map_err(of_file(dir))?;
    let is_private = metadata.mode() & 0o077 == 0 && metadata.uid() == getuid().as_raw();
    match is_private {
        true => Ok(()),
        false => {
            let reason = "others can read or change what is in it (chmod 700)".to_owned();
            Err(AuthorityError::Unusable { path: dir.to_owned(), reason })
        }
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

/// Replaces a file by one that nobody else may read, whole or not at all.
pub fn write_secret(path: &Path, text: &str) -> Result<(), AuthorityError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let write = || {
        // What was left there may be of anybody, and lead anywhere.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
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
        let error = Authority::open_or_create(&secure).err().expect("is in use").to_string();
        assert!(error.contains("another process"), "{error}");
        let certificate = first.certificate.clone();
        drop(first);
        let again = Authority::open_or_create(&secure).expect("is there");
        assert_eq!(again.certificate, certificate);
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
        let dir = &dir.path().join("secure");
        drop(Authority::open_or_create(dir).expect("is made"));
        let certificate = fs::read_to_string(dir.join(AUTHORITY_FILE)).expect("is there");
        let refused = |expected: &str| {
            let error = Authority::open_or_create(dir).err().expect("is refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        fs::remove_file(dir.join(AUTHORITY_FILE)).expect("is removed");
        refused("ca.crt");
        let other = KeyPair::generate().expect("a key").serialize_pem();
        fs::write(dir.join(AUTHORITY_FILE), &certificate).expect("is written");
        fs::write(dir.join(KEY_FILE), other).expect("is written");
        refused("not the certificate of");
        fs::remove_file(dir.join(KEY_FILE)).expect("is removed");
        refused("ca.key");
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("is changed");
        refused("chmod 700");
    }
}
