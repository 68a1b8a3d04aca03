//! The configuration of TLS in force, and the next one when its files change.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use logway_metadata::settings::{ClientAuth, TlsSettings};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use super::error::TlsError;
use super::key_and_chain::{KeyAndChain, read_authorities, subject_of};
use super::principal_rules::PrincipalRules;
use crate::watched_files::WatchedFiles;

/// TLS of one listener.
///
/// Its configuration is made of files, which may change while it is in use: who begins a session takes the
/// configuration in force, and keeps it for as long as the session lives.
#[derive(Debug)]
pub struct ServerTls {
    settings: TlsSettings,
    protocols: Vec<Vec<u8>>,
    rules: PrincipalRules,
    current: ArcSwap<Current>,
    watched: WatchedFiles,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    subject: String,
    not_after: SystemTime,
}

/// What became of a look at the files.
#[derive(Debug)]
pub enum Reload {
    /// They are as before.
    Unchanged,
    /// A new certificate is in force, of this subject.
    Done {
        /// What the certificate is for.
        subject: String,
    },
    /// They have changed and cannot be used: what was in force stays.
    Refused(TlsError),
}

impl ServerTls {
    /// Reads the files that the settings name, and judges them as of `now`. Client and server agree on one of `protocols` by its
    /// name, if there are any (ALPN, RFC 7301): the first of ours that the client has.
    pub fn load(
        settings: &TlsSettings,
        protocols: &[&str],
        now: SystemTime,
    ) -> Result<ServerTls, TlsError> {
        let protocols: Vec<Vec<u8>> =
            protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let files = settings.keystore.iter().chain(&settings.truststore);
        let watched = WatchedFiles::new(files.cloned().collect());
        Ok(ServerTls {
            rules: PrincipalRules::parse(&settings.principal_rules)?,
            current: ArcSwap::from_pointee(read(settings, &protocols, now)?),
            watched,
            protocols,
            settings: settings.clone(),
        })
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// Until when the certificate in force is valid.
    pub fn not_after(&self) -> SystemTime {
        self.current.load().not_after
    }

    /// What the certificate in force is for.
    pub fn subject(&self) -> String {
        self.current.load().subject.clone()
    }

    /// Looks whether files have changed, and puts what they hold in force. It reads files, so it must not run where
    /// others would wait for it.
    pub fn reload(&self, now: SystemTime) -> Reload {
        if !self.watched.have_changed() {
            return Reload::Unchanged;
        }
        match read(&self.settings, &self.protocols, now) {
            Ok(next) => {
                let subject = next.subject.clone();
                self.current.store(Arc::new(next));
                Reload::Done { subject }
            }
            Err(error) => Reload::Refused(error),
        }
    }

    /// The name of the user whom a chain of certificates belongs to. The error is the subject that no rule fits.
    pub fn user_of(&self, chain: &[CertificateDer<'_>]) -> Result<Option<String>, String> {
        let Some(subject) = chain.first().and_then(subject_of) else { return Ok(None) };
        match self.rules.apply(&subject) {
            Some(name) => Ok(Some(name)),
            None => Err(subject),
        }
    }
}

fn read(
    settings: &TlsSettings,
    protocols: &[Vec<u8>],
    now: SystemTime,
) -> Result<Current, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let authorities = read_authorities(&settings.truststore)?;
    let KeyAndChain { key, chain, subject, not_after } =
        KeyAndChain::read(&settings.keystore, &authorities, now)?;
    let versions = [(settings.has_tls13, &TLS13), (settings.has_tls12, &TLS12)];
    let versions: Vec<_> = versions.into_iter().filter(|(on, _)| *on).map(|(_, it)| it).collect();
    if versions.is_empty() {
        return Err(TlsError::NoVersion);
    }
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(&versions)?;
    let builder = match settings.client_auth {
        ClientAuth::None => builder.with_no_client_auth(),
        asks => {
            let authorities = authorities.into_iter().map(|(_, der)| der);
            builder.with_client_cert_verifier(verifier(authorities, asks, provider)?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::WrongKey { subject: subject.clone() },
        error => error.into(),
    })?;
    config.alpn_protocols = protocols.to_vec();
    Ok(Current { config: Arc::new(config), subject, not_after })
}

fn verifier(
    authorities: impl Iterator<Item = CertificateDer<'static>>,
    asks: ClientAuth,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match asks {
        ClientAuth::Required => verifier,
        _ => verifier.allow_unauthenticated(),
    };
    verifier.build().map_err(|error| TlsError::Library(rustls::Error::General(error.to_string())))
}
