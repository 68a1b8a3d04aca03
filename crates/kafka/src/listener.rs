//! A listener that is open: what each connection to it has in common.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logway_metadata::settings::{BrokerSettings, ListenerSettings};
use logway_node::quotas::ListenerLimits;
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
}

impl Listener {
    /// One to which nobody has connected. Fails where it cannot have TLS.
    pub(crate) fn new(
        settings: &BrokerSettings,
        listener: &ListenerSettings,
    ) -> Result<Listener, TlsError> {
        let load = |tls| ServerTls::load(tls, SystemTime::now());
        Ok(Listener {
            settings: listener.clone(),
            limits: ListenerLimits::new(settings, listener),
            tls: listener.tls.as_ref().map(load).transpose()?,
        })
    }
}

/// How often it is looked whether a certificate was replaced.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Puts new certificates in force while the listener is open. Connections keep what they have begun with.
pub(crate) async fn follow_files(listener: Arc<Listener>, mut stopping: watch::Receiver<bool>) {
    while timeout(LOOK_INTERVAL, stopping.wait_for(|&stop| stop)).await.is_err() {
        let looked = Arc::clone(&listener);
        let look = move || looked.tls.as_ref().map(|tls| tls.reload(SystemTime::now()));
        let name = &listener.settings.name;
        match tokio::task::spawn_blocking(look).await {
            Ok(Some(Reload::Done { subject })) => {
                tracing::info!(listener = name, subject, "a new certificate is in force");
            }
            Ok(Some(Reload::Refused(error))) => {
                tracing::error!(listener = name, %error,
                    "the new certificate cannot be used, and the one before stays in force");
            }
            // A look that panicked has said so.
            Ok(Some(Reload::Unchanged) | None) | Err(_) => {}
        }
    }
}
