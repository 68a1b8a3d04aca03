//! A listener that is open: what each connection to it has in common.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logway_metadata::settings::{BrokerSettings, ListenerSettings};
use logway_node::quotas::ListenerLimits;
use logway_security::bearer::{BearerError, BearerTokens, KeysReload};
use logway_security::tls::Reload;
use logway_security::{ServerTls, TlsError};
use tokio::sync::watch;
use tokio::time::timeout;

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

/// How often it is looked whether files were replaced.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Puts new certificates and keys in force while the listener is open. Connections keep what they have begun with.
pub(crate) async fn follow_files(listener: Arc<Listener>, mut stopping: watch::Receiver<bool>) {
    while timeout(LOOK_INTERVAL, stopping.wait_for(|&stop| stop)).await.is_err() {
        let looked = Arc::clone(&listener);
        // A look that panics has said so.
        let _ = tokio::task::spawn_blocking(move || looked.look_at_files()).await;
    }
}

impl Listener {
    /// Whether anything of it is in files that may be replaced.
    pub(crate) fn has_files(&self) -> bool {
        self.tls.is_some() || self.tokens.is_some()
    }

    fn look_at_files(&self) {
        let listener = &self.settings.name;
        match self.tls.as_ref().map(|tls| tls.reload(SystemTime::now())) {
            Some(Reload::Done { subject }) => {
                tracing::info!(listener, subject, "a new certificate is in force");
            }
            Some(Reload::Refused(error)) => {
                tracing::error!(listener, %error,
                    "the new certificate cannot be used, and the one before stays in force");
            }
            Some(Reload::Unchanged) | None => {}
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
