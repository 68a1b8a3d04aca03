//! A listener that is open: what each connection to it has in common.

use std::time::SystemTime;

use logway_metadata::settings::{BrokerSettings, ListenerSettings};
use logway_node::listener_files::look_at_certificate;
use logway_node::quotas::ListenerLimits;
use logway_security::bearer::{BearerError, BearerTokens, KeysReload};
use logway_security::{ServerTls, TlsError};

/// A listener that is open.
#[derive(Debug)]
pub(crate) struct Listener {
    /// What it is, as the settings say.
    pub(crate) settings: ListenerSettings,
    /// How many connections it may have.
    pub(crate) limits: ListenerLimits,
    /// Its certificate, where it has TLS.
    pub(crate) tls: Option<ServerTls>,
    /// Judges its clients' tokens, where they may have any.
    pub(crate) tokens: Option<BearerTokens>,
}

/// Why a listener cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// Its certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The keys of who signs tokens.
    #[error(transparent)]
    Bearer(#[from] BearerError),
}

impl Listener {
    /// One to which nobody has connected. Fails where files cannot be used that it needs.
    pub(crate) fn new(
        settings: &BrokerSettings,
        listener: &ListenerSettings,
    ) -> Result<Listener, ListenerError> {
        let bearer = listener.sasl.as_ref().and_then(|sasl| sasl.bearer.as_ref());
        let load = |tls| ServerTls::load(tls, SystemTime::now());
        Ok(Listener {
            settings: listener.clone(),
            limits: ListenerLimits::new(settings, listener),
            tls: listener.tls.as_ref().map(load).transpose()?,
            tokens: bearer.map(BearerTokens::load).transpose()?,
        })
    }
}

impl Listener {
    /// Whether anything of it is in files that may be replaced.
    pub(crate) fn has_files(&self) -> bool {
        self.tls.is_some() || self.tokens.is_some()
    }

    /// Puts new certificates and keys in force.
    pub(crate) fn look_at_files(&self) {
        let listener = &self.settings.name;
        if let Some(tls) = &self.tls {
            look_at_certificate(listener, tls);
        }
        match self.tokens.as_ref().map(BearerTokens::reload) {
            Some(KeysReload::Done(keys)) => {
                tracing::info!(listener, keys, "new keys of who signs tokens are in force");
            }
            Some(KeysReload::Refused(error)) => {
                tracing::error!(listener, %error,
                    "the new keys cannot be used, and those before stay in force");
            }
            Some(KeysReload::Unchanged) | None => {}
        }
    }
}
