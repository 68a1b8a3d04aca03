//! Files that listeners are made of: what takes their place is put in force while the listener is open.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logway_security::ServerTls;
use logway_security::tls::Reload;
use tokio::sync::watch;
use tokio::time::timeout;

/// How often it is looked whether files were replaced.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Has somebody look at files now and then, until a listener closes. Looking may take a moment: it reads files.
pub async fn follow_files(
    look: impl Fn() + Send + Sync + 'static,
    mut stopping: watch::Receiver<bool>,
) {
    let look = Arc::new(look);
    while timeout(LOOK_INTERVAL, stopping.wait_for(|&stop| stop)).await.is_err() {
        let look = Arc::clone(&look);
        // A look that panics has said so.
        let _ = tokio::task::spawn_blocking(move || look()).await;
    }
}

/// Puts a new certificate in force. Connections keep what they have begun with.
pub fn look_at_certificate(listener: &str, tls: &ServerTls) {
    match tls.reload(SystemTime::now()) {
        Reload::Done { subject } => {
            tracing::info!(listener, subject, "a new certificate is in force");
        }
        Reload::Refused(error) => {
            tracing::error!(listener, %error,
                "the new certificate cannot be used, and the one before stays in force");
        }
        Reload::Unchanged => {}
    }
}
