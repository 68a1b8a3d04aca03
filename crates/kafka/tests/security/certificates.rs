//! Certificates of an authority that the tests make.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use logway_security::tls::client_config;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;

/// An authority with its files in a directory.
pub(crate) struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(dir: &Path) -> Authority {
        fs::create_dir_all(dir).expect("can be made");
        let mut params = params("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("is signed");
        fs::write(dir.join("ca.pem"), certificate.pem()).expect("can be written");
        Authority { dir: dir.to_owned(), issuer: Issuer::new(params, key) }
    }

    /// The file of its own certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// Makes a key and a certificate, in one file that appears at once.
    pub(crate) fn issue(&self, name: &str) -> PathBuf {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(name).signed_by(&key, &self.issuer).expect("is signed");
        let (next, path) = (self.dir.join("next"), self.dir.join(format!("{name}.pem")));
        fs::write(&next, key.serialize_pem() + &certificate.pem()).expect("can be written");
        fs::rename(next, &path).expect("can be renamed");
        path
    }

    /// What a client has that trusts it, perhaps with a certificate of its own.
    pub(crate) fn client(&self, identity: Option<PathBuf>) -> Arc<ClientConfig> {
        let identity: Vec<PathBuf> = identity.into_iter().collect();
        client_config(&[self.file()], &identity, SystemTime::now()).expect("can be used")
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("is a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
