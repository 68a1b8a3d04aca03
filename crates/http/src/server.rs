//! Listening and serving.

use std::net::SocketAddr;

use logway_metadata::settings::BrokerSettings;
use logway_node::listener::{Bound, ListenError, follow_files};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connections::serve_connections;
use crate::{HttpState, router};

/// What clients can agree on by ALPN.
const PROTOCOLS: &[&str] = &["http/1.1"];

/// Addresses that are bound. Connections to them wait until they are served.
#[derive(Debug)]
pub struct HttpListeners(Vec<Bound>);

impl HttpListeners {
    /// Binds the configured addresses. To be done before a node starts, so that a port in use is known before any file is
    /// touched.
    pub async fn bind(settings: &BrokerSettings) -> Result<HttpListeners, ListenError> {
        Bound::bind(settings, &settings.http, PROTOCOLS).await.map(HttpListeners)
    }

    /// What other machines can reach without a guard, by name and address.
    pub fn exposed(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(Bound::exposed)
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|bound| bound.address).collect()
    }
}

/// Serves until it is dropped, and all connections with it.
pub async fn serve(HttpListeners(bound): HttpListeners, state: HttpState) {
    let router = router(state);
    let mut tasks = JoinSet::new();
    // It never turns true: what is dropped ends at once.
    let (_stopping, stop) = watch::channel(false);
    follow_files(bound.iter(), &stop, &mut tasks);
    for Bound { socket, listener, .. } in bound {
        tasks.spawn(serve_connections(socket, listener, router.clone(), stop.clone()));
    }
    while tasks.join_next().await.is_some() {}
}
