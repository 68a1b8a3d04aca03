//! TLS of those who connect.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::error::TlsError;
use super::key_and_chain::{KeyAndChain, read_authorities};

/// Where systems keep the authorities that everybody trusts.
const OF_THE_SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The file of the authorities that everybody trusts, where the system has one.
pub fn authorities_of_system() -> Option<PathBuf> {
    OF_THE_SYSTEM.iter().map(PathBuf::from).find(|path| Path::exists(path))
}

/// What a client needs: the authorities that it trusts, those of the system where none is given, and the files of its
/// own key and certificate, if it has some.
pub fn client_config(
    authorities: &[PathBuf],
    identity: &[PathBuf],
    now: SystemTime,
) -> Result<Arc<ClientConfig>, TlsError> {
    let files = match authorities.is_empty() {
        true => authorities_of_system().into_iter().collect(),
        false => authorities.to_vec(),
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(read_authorities(&files)?.into_iter().map(|(_, der)| der));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    let config = match identity.is_empty() {
        true => builder.with_no_client_auth(),
        false => {
            let KeyAndChain { key, chain, .. } = KeyAndChain::read(identity, &[], now)?;
            builder.with_client_auth_cert(chain, key)?
        }
    };
    Ok(Arc::new(config))
}
