//! Certificates on disk: which can be used, what is said of those that cannot, and how they are replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logway_metadata::settings::{ClientAuth, TlsSettings};
use logway_security::tls::Reload;
use logway_security::{ServerTls, TlsError};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// An authority, perhaps one below another.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("is a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    params
}

fn authority(name: &str, above: Option<&Authority>) -> Authority {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = match above {
        Some(above) => params.signed_by(&key, &above.issuer),
        None => params.self_signed(&key),
    };
    Authority { pem: certificate.expect("is signed").pem(), issuer: Issuer::new(params, key) }
}

/// A certificate and its key, as PEM.
fn server(params: CertificateParams, by: &Authority) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &by.issuer).expect("is signed");
    (certificate.pem(), key.serialize_pem())
}

fn write(dir: &Path, name: &str, parts: &[&str]) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, parts.concat()).expect("can be written");
    path
}

fn settings(keystore: Vec<PathBuf>, truststore: Vec<PathBuf>) -> TlsSettings {
    TlsSettings {
        keystore,
        truststore,
        client_auth: ClientAuth::None,
        has_tls12: true,
        has_tls13: true,
        principal_rules: "DEFAULT".to_owned(),
    }
}

fn load(settings: &TlsSettings) -> Result<ServerTls, TlsError> {
    ServerTls::load(settings, &[], SystemTime::now())
}

fn dir() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn key_and_chain_may_be_in_one_file_or_several() {
    let (dir, root) = (dir(), authority("root", None));
    let (certificate, key) = server(params("server"), &root);
    let one = write(dir.path(), "one.pem", &[&key, &certificate]);
    let chain = write(dir.path(), "chain.pem", &[&certificate, &root.pem]);
    let key = write(dir.path(), "key.pem", &[&key]);
    for files in [vec![one], vec![chain.clone(), key.clone()], vec![key, chain]] {
        let tls = load(&settings(files, Vec::new())).expect("can be used");
        assert_eq!(tls.subject(), "CN=server");
        assert!(tls.not_after() > SystemTime::now());
    }
}

#[test]
fn what_cannot_be_used_is_said() {
    let (dir, root) = (dir(), authority("root", None));
    let between = authority("between", Some(&root));
    let write = |name: &str, parts: &[&str]| write(dir.path(), name, parts);
    let (certificate, key) = server(params("server"), &between);
    let (_, other_key) = server(params("other"), &root);
    let mut old = params("old");
    old.not_after = date_time_ymd(2020, 6, 1);
    let (old, old_key) = server(old, &root);
    let mut young = params("young");
    young.not_before = date_time_ymd(2099, 6, 1);
    let (young, young_key) = server(young, &root);
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let known = write("root.pem", &[&root.pem]);
    let only = |parts: &[&str], name: &str| settings(vec![write(name, parts)], Vec::new());
    for (settings, part) in [
        (settings(vec![dir.path().join("absent.pem")], Vec::new()), "cannot read"),
        (only(&["no PEM"], "text.pem"), "it is no PEM file"),
        (only(&[&certificate], "1.pem"), "there is no private key"),
        (only(&[&key], "2.pem"), "there is no certificate"),
        (only(&[&certificate, &other_key], "3.pem"), "is not that of the certificate of CN=server"),
        (only(&[&certificate, &key, &other_key], "4.pem"), "more than one private key"),
        (only(&[&certificate, encrypted], "5.pem"), "is encrypted"),
        (only(&[&old, &old_key], "6.pem"), "the certificate of CN=old expired"),
        (only(&[&young, &young_key], "7.pem"), "the certificate of CN=young is not valid yet"),
        (only(&[&certificate, &root.pem, &key], "8.pem"), "issued by CN=between"),
        (
            settings(vec![write("9.pem", &[&certificate, &key])], vec![known]),
            "CN=between, which has issued the certificate of CN=server, is neither behind it",
        ),
    ] {
        let error = load(&settings).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    let whole = write("10.pem", &[&certificate, &between.pem, &key]);
    load(&settings(vec![whole], vec![dir.path().join("root.pem")])).expect("can be used");
}

#[test]
fn a_new_certificate_comes_into_force_and_a_broken_one_does_not() {
    let (dir, root) = (dir(), authority("root", None));
    let (certificate, key) = server(params("first"), &root);
    let path = write(dir.path(), "server.pem", &[&certificate, &key]);
    let tls = load(&settings(vec![path.clone()], Vec::new())).expect("can be used");
    let now = SystemTime::now();
    let first = tls.config();
    assert!(matches!(tls.reload(now), Reload::Unchanged));

    // As a half-written file is.
    write(dir.path(), "server.pem", &[&certificate[..200]]);
    assert!(matches!(tls.reload(now), Reload::Refused(_)));
    assert!(matches!(tls.reload(now), Reload::Unchanged), "it is said once");
    assert!(Arc::ptr_eq(&first, &tls.config()));
    fs::remove_file(&path).expect("is there");
    assert!(matches!(tls.reload(now), Reload::Refused(TlsError::Read { .. })));

    let (certificate, key) = server(params("second"), &root);
    let next = write(dir.path(), "next.pem", &[&certificate, &key]);
    fs::rename(next, &path).expect("is renamed");
    let Reload::Done { subject } = tls.reload(now) else { panic!("it is new") };
    assert_eq!((&*subject, &*tls.subject()), ("CN=second", "CN=second"));
    assert!(!Arc::ptr_eq(&first, &tls.config()));
}

#[test]
fn a_certificate_is_judged_by_the_time_of_the_look() {
    let (dir, root) = (dir(), authority("root", None));
    let (certificate, key) = server(params("server"), &root);
    let path = write(dir.path(), "server.pem", &[&certificate, &key]);
    let century = Duration::from_secs(100 * 366 * 24 * 60 * 60);
    let late = ServerTls::load(&settings(vec![path], Vec::new()), &[], SystemTime::now() + century);
    assert!(matches!(late, Err(TlsError::Expired { .. })));
}
