//! How a client is known: its certificate, and its password.

use std::fmt;
use std::sync::Arc;

use logway_metadata::sasl::SaslMechanism;
use rustls::ClientConfig;

/// How connections are encrypted, and who the client is.
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// TLS, unless bytes travel as they are.
    pub tls: Option<Arc<ClientConfig>>,
    /// Who the client says that it is by SASL, if it is asked.
    pub password: Option<Password>,
}

/// A user, by name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    /// How it is told.
    pub mechanism: SaslMechanism,
    /// The user, or the id of a delegation token.
    pub user: String,
    /// The password, or the HMAC of the delegation token, in Base64.
    pub password: String,
    /// Whether it is a delegation token (KIP-48). Then it is told by SCRAM.
    pub is_delegation_token: bool,
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Password { mechanism, user, .. } = self;
        write!(f, "Password({user} by {mechanism})")
    }
}
