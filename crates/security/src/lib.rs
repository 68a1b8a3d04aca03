//! What front doors need to know who somebody is: TLS, SASL mechanisms and password credentials.
//!
//! No sockets, no tasks and no metadata that changes: bytes in, values out. Who asks brings the users' credentials
//! and the time.

pub mod tls;

pub mod sasl;
pub mod scram;

pub use tls::{ServerTls, TlsError};
