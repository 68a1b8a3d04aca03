//! What front doors need to know who somebody is: TLS, SASL mechanisms, password credentials, signed tokens, delegation
//! tokens, AWS's signatures, and seals of what clients bring back.
//!
//! No sockets, no tasks and no metadata that changes: bytes in, values out. Who asks brings the users' credentials
//! and the time.

pub mod authority;
pub mod bearer;
pub mod delegation_token;
pub mod join_token;
pub mod nodes;
pub mod sasl;
pub mod scram;
pub mod seal;
pub mod signature_v4;
pub mod tls;
mod watched_files;

pub use tls::{ServerTls, TlsError};
