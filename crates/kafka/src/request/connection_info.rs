//! What is known of the connection that a request came by.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use logway_node::access::{AccessMemory, Principal};
use logway_node::append::Appender;

use crate::authentication::Authentication;
use logway_node::listener::Listener;

use super::hurry::Hurry;
use super::mute::Mute;

/// What a handler knows of the connection that a request came by.
#[derive(Debug)]
pub(crate) struct ConnectionInfo {
    /// The client's end.
    pub(crate) peer: SocketAddr,
    /// Our end: the address that the client reached us by, and so the one to advertise to it.
    pub(crate) local: SocketAddr,
    /// The listener that it came by.
    pub(crate) listener: Arc<Listener>,
    /// Asks requests that wait to answer.
    pub(crate) hurry: Hurry,
    /// Whether it is read.
    pub(crate) mute: Mute,
    /// Hands its batches over.
    pub(crate) appender: Appender,
    /// What it has said of who it is, on listeners that ask.
    pub(crate) authentication: Option<Authentication>,
    /// What it was told that it may do.
    pub(crate) access_memory: AccessMemory,
    /// Whom the client was authenticated as. It is said once at most: who changes it connects anew (KIP-368).
    pub(crate) authenticated: OnceLock<Principal>,
    /// What the client is, if it said so in time (KIP-511).
    pub(crate) software: OnceLock<ClientSoftware>,
}

impl ConnectionInfo {
    /// Whether the client was not believed, so that the connection has to be closed.
    pub(crate) fn is_refused(&self) -> bool {
        self.authentication.as_ref().is_some_and(Authentication::is_refused)
    }

    /// Whether the client has proved that it is the user itself: neither a stranger nor a program with a token.
    pub(crate) fn is_user_itself(&self) -> bool {
        let is_delegate = self.authentication.as_ref().is_some_and(Authentication::is_delegate);
        self.authenticated.get().is_some() && !is_delegate
    }

    /// Who makes the requests of the connection.
    pub(crate) fn principal(&self) -> &Principal {
        self.authenticated.get().unwrap_or(Principal::anonymous())
    }
}

/// A client library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientSoftware {
    /// Its name, e.g. `apache-kafka-java`.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
}

impl fmt::Display for ClientSoftware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use logway_metadata::settings::BrokerSettings;

    use super::*;

    #[test]
    fn a_client_is_anonymous_until_it_was_authenticated_once() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let settings = BrokerSettings::default();
        let connection = ConnectionInfo {
            peer: address,
            local: address,
            listener: Arc::new(
                Listener::new(&settings, &settings.listeners[0], &[]).expect("needs no TLS"),
            ),
            hurry: Hurry::default(),
            mute: Mute::default(),
            appender: Appender::default(),
            authentication: None,
            access_memory: AccessMemory::default(),
            authenticated: OnceLock::new(),
            software: OnceLock::new(),
        };
        assert_eq!(connection.principal(), Principal::anonymous());
        let (alice, bob) = (Principal::user("alice"), Principal::user("bob"));
        assert!(connection.authenticated.set(alice.clone()).is_ok());
        assert!(connection.authenticated.set(bob).is_err());
        assert_eq!(connection.principal(), &alice);
    }
}
