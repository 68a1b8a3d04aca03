//! Why a listener cannot have TLS.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::principal_rules::WrongRule;

/// Why files are no configuration of TLS. Each names the file or the subject that it is about.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not PEM, or what is in it is no certificate.
    #[error("{} cannot be used: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no private key.
    #[error("there is no private key in {files} (a PEM section PRIVATE KEY)")]
    NoKey {
        /// Where it was looked for.
        files: String,
    },
    /// There are several private keys.
    #[error("there is more than one private key in {files}")]
    TwoKeys {
        /// Where they are.
        files: String,
    },
    /// The private key has a passphrase.
    #[error(
        "the private key in {} is encrypted: take its passphrase away with \
         `openssl pkey -in KEY -out NEW-KEY`, and let nobody else read the file",
        path.display()
    )]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
    /// There is no certificate.
    #[error("there is no certificate in {files} (a PEM section CERTIFICATE)")]
    NoCertificate {
        /// Where it was looked for.
        files: String,
    },
    /// The key is that of another certificate.
    #[error("the private key is not that of the certificate of {subject}")]
    WrongKey {
        /// The certificate that comes first.
        subject: String,
    },
    /// A certificate of the chain is not valid any more.
    #[error("the certificate of {subject} expired {days} days ago")]
    Expired {
        /// Which one.
        subject: String,
        /// For how long it has been so.
        days: u64,
    },
    /// A certificate of the chain is not valid yet.
    #[error(
        "the certificate of {subject} is not valid yet, but in {days} days; is the clock right?"
    )]
    NotYetValid {
        /// Which one.
        subject: String,
        /// For how long it will be so.
        days: u64,
    },
    /// Two certificates that should follow from each other do not.
    #[error(
        "the chain is broken: the certificate of {subject} was issued by {issuer}, and behind it comes that of {next}"
    )]
    BrokenChain {
        /// The certificate.
        subject: String,
        /// Who has issued it.
        issuer: String,
        /// What comes instead of the issuer's.
        next: String,
    },
    /// The chain ends before an authority that is known.
    #[error(
        "the chain is incomplete: {issuer}, which has issued the certificate of {subject}, is neither behind it nor \
         in ssl.truststore.location; clients could not follow it"
    )]
    IncompleteChain {
        /// The last certificate.
        subject: String,
        /// Who has issued it.
        issuer: String,
    },
    /// A rule of `ssl.principal.mapping.rules` is none.
    #[error(transparent)]
    Rule(#[from] WrongRule),
    /// What the library says of it.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
    /// No version of TLS is enabled.
    #[error("ssl.enabled.protocols names no version of TLS")]
    NoVersion,
}
