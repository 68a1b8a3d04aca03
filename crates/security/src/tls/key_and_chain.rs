//! A private key and its certificates, out of PEM files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::verify_server_name;
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
    ServerName,
};
use rustls::server::ParsedCertificate;
use x509_cert::Certificate;
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::name::Name;

use super::distinguished_name;
use super::error::TlsError;

/// No key or chain is that long. A device or a log is not read by mistake.
const FILE_MAX_BYTES: u64 = 1 << 20;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What the files of a listener hold.
#[derive(Debug)]
pub(crate) struct KeyAndChain {
    pub(crate) key: PrivateKeyDer<'static>,
    /// The key's own certificate, and then each one's issuer.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// What the first certificate is for.
    pub(super) subject: String,
    /// Until when the whole chain is valid.
    pub(super) not_after: SystemTime,
}

/// A certificate that was parsed.
pub(super) struct Parsed {
    subject: Name,
    issuer: Name,
    not_before: SystemTime,
    not_after: SystemTime,
}

impl Parsed {
    fn of(path: &Path, der: &CertificateDer<'_>) -> Result<Parsed, TlsError> {
        let parsed = Certificate::from_der(der).map_err(|error| TlsError::Unusable {
            path: path.to_owned(),
            reason: format!("it has a certificate that is none: {error}"),
        })?;
        let body = parsed.tbs_certificate;
        let at = |time: x509_cert::time::Time| UNIX_EPOCH + time.to_unix_duration();
        let (not_before, not_after) = (at(body.validity.not_before), at(body.validity.not_after));
        Ok(Parsed { subject: body.subject, issuer: body.issuer, not_before, not_after })
    }

    fn subject(&self) -> String {
        distinguished_name::to_text(&self.subject)
    }

    fn check_time(&self, now: SystemTime) -> Result<(), TlsError> {
        let days = |time: Duration| time.as_secs().div_ceil(DAY.as_secs());
        if let Ok(over) = now.duration_since(self.not_after) {
            return Err(TlsError::Expired { subject: self.subject(), days: days(over) });
        }
        match self.not_before.duration_since(now) {
            Ok(left) if !left.is_zero() => {
                Err(TlsError::NotYetValid { subject: self.subject(), days: days(left) })
            }
            _ => Ok(()),
        }
    }
}

/// The subject of a certificate that a client has shown, as text.
pub(super) fn subject_of(der: &CertificateDer<'_>) -> Option<String> {
    let parsed = Certificate::from_der(der).ok()?;
    Some(distinguished_name::to_text(&parsed.tbs_certificate.subject))
}

/// Until when a certificate is valid, if it is one.
pub(crate) fn not_after_of(der: &CertificateDer<'_>) -> Option<SystemTime> {
    let parsed = Certificate::from_der(der).ok()?;
    Some(UNIX_EPOCH + parsed.tbs_certificate.validity.not_after.to_unix_duration())
}

/// The public key of a certificate, if it is one.
pub(crate) fn public_key_of(der: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let parsed = Certificate::from_der(der).ok()?;
    parsed.tbs_certificate.subject_public_key_info.to_der().ok()
}

/// Whether a certificate is for all these names of hosts and addresses.
pub(crate) fn is_for_names(der: &CertificateDer<'_>, names: &[String]) -> bool {
    let Ok(parsed) = ParsedCertificate::try_from(der) else { return false };
    names.iter().all(|name| {
        let name = ServerName::try_from(name.as_str());
        name.is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
    })
}

/// The authorities in some files, each with its subject.
pub(super) fn read_authorities(
    paths: &[PathBuf],
) -> Result<Vec<(Name, CertificateDer<'static>)>, TlsError> {
    let mut authorities = Vec::new();
    for path in paths {
        for (kind, der) in sections(path)? {
            if kind == SectionKind::Certificate {
                let der = CertificateDer::from(der);
                authorities.push((Parsed::of(path, &der)?.subject, der));
            }
        }
    }
    match authorities.is_empty() && !paths.is_empty() {
        true => Err(TlsError::NoCertificate { files: listed(paths) }),
        false => Ok(authorities),
    }
}

impl KeyAndChain {
    /// Reads the files of a listener and judges what they hold. The chain has to reach one of the authorities, if
    /// there are any.
    pub(crate) fn read(
        paths: &[PathBuf],
        authorities: &[(Name, CertificateDer<'static>)],
        now: SystemTime,
    ) -> Result<KeyAndChain, TlsError> {
        let (mut keys, mut chain, mut parsed) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            for (kind, der) in sections(path)? {
                match kind {
                    SectionKind::Certificate => {
                        let der = CertificateDer::from(der);
                        parsed.push(Parsed::of(path, &der)?);
                        chain.push(der);
                    }
                    SectionKind::PrivateKey => keys.push(PrivatePkcs8KeyDer::from(der).into()),
                    SectionKind::RsaPrivateKey => keys.push(PrivatePkcs1KeyDer::from(der).into()),
                    SectionKind::EcPrivateKey => keys.push(PrivateSec1KeyDer::from(der).into()),
                    _ => {}
                }
            }
        }
        let files = || listed(paths);
        let first = parsed.first().ok_or_else(|| TlsError::NoCertificate { files: files() })?;
        let not_after = parsed.iter().map(|one| one.not_after).min().unwrap_or(now);
        if keys.len() > 1 {
            return Err(TlsError::TwoKeys { files: files() });
        }
        let key = keys.pop().ok_or_else(|| TlsError::NoKey { files: files() })?;
        parsed.iter().try_for_each(|one| one.check_time(now))?;
        check_chain(&parsed, authorities)?;
        Ok(KeyAndChain { key, chain, subject: first.subject(), not_after })
    }
}

/// Each certificate has to be followed by that of its issuer, up to one that the issuer has issued itself or that an
/// authority has.
fn check_chain(
    parsed: &[Parsed],
    authorities: &[(Name, CertificateDer<'static>)],
) -> Result<(), TlsError> {
    for pair in parsed.windows(2) {
        let [one, next] = pair else { continue };
        if one.issuer != next.subject {
            return Err(TlsError::BrokenChain {
                subject: one.subject(),
                issuer: distinguished_name::to_text(&one.issuer),
                next: next.subject(),
            });
        }
    }
    let Some(last) = parsed.last() else { return Ok(()) };
    let is_root = last.issuer == last.subject;
    let is_known = authorities.iter().any(|(subject, _)| *subject == last.issuer);
    if is_root || is_known || authorities.is_empty() {
        return Ok(());
    }
    let issuer = distinguished_name::to_text(&last.issuer);
    Err(TlsError::IncompleteChain { subject: last.subject(), issuer })
}

/// What a PEM file holds, in order.
fn sections(path: &Path) -> Result<Vec<(SectionKind, Vec<u8>)>, TlsError> {
    let read = |source| TlsError::Read { path: path.to_owned(), source };
    let unusable = |reason: String| TlsError::Unusable { path: path.to_owned(), reason };
    let metadata = fs::metadata(path).map_err(read)?;
    if !metadata.is_file() || metadata.len() > FILE_MAX_BYTES {
        return Err(unusable(format!("it is no file of up to {FILE_MAX_BYTES} bytes")));
    }
    let text = fs::read(path).map_err(read)?;
    let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    if has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED") {
        return Err(TlsError::EncryptedKey { path: path.to_owned() });
    }
    if !has(b"-----BEGIN ") {
        return Err(unusable("it is no PEM file".to_owned()));
    }
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(&text);
    sections
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(format!("it is no PEM file: {error}")))
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
