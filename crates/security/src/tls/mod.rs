//! TLS of one listener: its certificate, the authorities of its clients, and the names of these.
//!
//! | file | what it is about |
//! |---|---|
//! | [`server_tls`] | the configuration in force, and the next one when files change |
//! | [`client_tls`] | the other side, for the command line |
//! | [`key_and_chain`] | a private key and its certificates, out of PEM files |
//! | [`distinguished_name`] | a subject as text (RFC 2253) |
//! | [`principal_rules`] | users' names out of subjects |

mod client_tls;
mod distinguished_name;
mod error;
mod key_and_chain;
mod principal_rules;
mod server_tls;

pub use client_tls::{authorities_of_system, client_config};
pub use error::TlsError;
pub(crate) use key_and_chain::{KeyAndChain, is_for_names, not_after_of, public_key_of};
pub use principal_rules::{PrincipalRules, WrongRule};
pub use server_tls::{Reload, ServerTls};
