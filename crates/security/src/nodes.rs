//! TLS between the nodes of a cluster.
//!
//! Each node has a key and a certificate of the cluster's authority. All these certificates are for one name, [`ANY_NODE`], by
//! which a node is told from whatever else has a certificate of the authority. Nodes
//! believe a certificate only together with the key by which the cluster knows the node. A node that was removed has the
//! authority's key, and can make certificates: that gets it nowhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use logway_metadata::join_token::Digest;
use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{
    CryptoProvider, ring as provider, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::tls::{KeyAndChain, TlsError, is_for_names, public_key_of};

/// The name that certificates of all nodes are for, and no other's.
pub const ANY_NODE: &str = "nodes.logway.internal";

/// The SHA-256 of a public key, a certificate or a secret.
pub fn digest_of(bytes: &[u8]) -> Digest {
    let digest = digest(&SHA256, bytes);
    Digest(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

/// Of the public key in the chain that a node has shown; `None` if it is no certificate of a node. Whether the node has
/// the key, and the certificate is the authority's, a handshake finds out before.
pub fn node_key_of(chain: &[CertificateDer<'_>]) -> Option<Digest> {
    let first = chain.first()?;
    is_for_names(first, &[ANY_NODE.to_owned()]).then_some(())?;
    Some(digest_of(&public_key_of(first)?))
}

/// What a node shows to others, and what it demands of them.
#[derive(Debug)]
pub struct NodeTls {
    path: PathBuf,
    current: ArcSwap<Current>,
}

#[derive(Debug)]
struct Current {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl NodeTls {
    /// Reads a file with a node's key, its certificate and that of the authority.
    pub fn load(path: &Path, now: SystemTime) -> Result<NodeTls, TlsError> {
        let current = ArcSwap::from_pointee(read(path, now)?);
        Ok(NodeTls { path: path.to_owned(), current })
    }

    /// Reads the file again, for sessions that begin from now on.
    pub fn reload(&self, now: SystemTime) -> Result<(), TlsError> {
        self.current.store(Arc::new(read(&self.path, now)?));
        Ok(())
    }

    /// For being called. Who has no certificate gets a session, too: a node that asks to be admitted has none.
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().server)
    }

    /// For calling.
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current.load().client)
    }
}

fn read(path: &Path, now: SystemTime) -> Result<Current, TlsError> {
    let unusable =
        |reason: &str| TlsError::Unusable { path: path.to_owned(), reason: reason.to_owned() };
    let KeyAndChain { key, chain, .. } = KeyAndChain::read(&[path.to_owned()], &[], now)?;
    node_key_of(&chain).ok_or_else(|| unusable("its certificate is not that of a node"))?;
    let (Some(authority), 2) = (chain.last().cloned(), chain.len()) else {
        return Err(unusable("it has to have a certificate and that of the authority"));
    };
    let mut roots = RootCertStore::empty();
    roots.add(authority)?;
    let (roots, provider) = (Arc::new(roots), Arc::new(provider::default_provider()));
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
    let clients = clients.allow_unauthenticated().build();
    let clients = clients.map_err(|error| unusable(&error.to_string()))?;
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain.clone(), key.clone_key())?;
    // Each session is a new look at the certificate, which may not be believed any more.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    client.resumption = Resumption::disabled();
    Ok(Current { server: Arc::new(server), client: Arc::new(client) })
}

/// For a node that has a join token and nothing else: it believes the authority whose certificate has this digest.
pub fn joining_client(authority: Digest) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(provider::default_provider());
    let verifier = OfAuthority { authority, provider: Arc::clone(&provider) };
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(client))
}

/// Looks for the authority in the chain that is shown, and then demands what is always demanded.
#[derive(Debug)]
struct OfAuthority {
    authority: Digest,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OfAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let authority = intermediates.iter().find(|der| digest_of(der) == self.authority);
        let authority =
            authority.ok_or(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let provider = Arc::clone(&self.provider);
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
