//! TLS of hops between agents, with Flume's keys. Keys and certificates are PEM files; Java's own formats are refused
//! with the commands that convert them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logway_metadata::settings::{ClientAuth, TlsSettings};
use logway_security::tls::{Reload, ServerTls, client_config};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::codec::deflated::Deflated;
use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::StartError;
use crate::settings::Settings;

/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How often to look whether the files of a source have changed.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

const ONLY_PEM: &str =
    "keys are PEM files here; convert others with keytool and openssl, as docs/AGENTS.md shows";

/// A socket, or TLS on one.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A socket, deflated if there is a level of compression. It lies below TLS, as Flume has it.
pub(crate) fn packed(socket: TcpStream, level: Option<u32>) -> Box<dyn Stream> {
    match level {
        Some(level) => Box::new(Deflated::new(socket, level)),
        None => Box::new(socket),
    }
}

/// What sources that listen for agents can be told.
pub(crate) const OF_SOURCE: &[Key] = &[
    key("ssl", Kind::Flag, Fallback::Is("false"), "Whether connections are TLS. Needs `keystore`."),
    key(
        "keystore",
        Kind::Text,
        Fallback::Nothing,
        "A PEM file with the source's private key and its certificates. It is read again when it changes.",
    ),
    key(
        "truststore",
        Kind::Text,
        Fallback::Nothing,
        "A PEM file with authorities: only clients with a certificate of theirs may connect. Flume has no such thing.",
    ),
    KEYSTORE_TYPE,
    KEYSTORE_PASSWORD,
    TRUSTSTORE_TYPE,
    TRUSTSTORE_PASSWORD,
    INCLUDED,
    EXCLUDED,
    CIPHERS_INCLUDED,
    CIPHERS_EXCLUDED,
];

/// What sinks to agents can be told.
pub(crate) const OF_SINK: &[Key] = &[
    key(
        "ssl",
        Kind::Flag,
        Fallback::Is("false"),
        "Whether the connection is TLS. The certificate has to be for `hostname`.",
    ),
    key(
        "truststore",
        Kind::Text,
        Fallback::Nothing,
        "A PEM file with the authorities to trust, in place of the system's.",
    ),
    key(
        "keystore",
        Kind::Text,
        Fallback::Nothing,
        "A PEM file with a private key and its certificates, for sources that ask for one. Flume has no such thing.",
    ),
    key(
        "trust-all-certs",
        Kind::Only(
            &["false"],
            "whom nobody knows is not sent events; put its certificate into truststore",
        ),
        Fallback::Is("false"),
        "Whether every certificate is good.",
    ),
    KEYSTORE_TYPE,
    KEYSTORE_PASSWORD,
    TRUSTSTORE_TYPE,
    TRUSTSTORE_PASSWORD,
    key(
        "include-protocols",
        Kind::Ignored("TLS 1.2 and 1.3 are spoken, and the source decides"),
        Fallback::Nothing,
        "Which ones Flume speaks.",
    ),
    key(
        "exclude-protocols",
        Kind::Ignored("TLS 1.2 and 1.3 are spoken, and the source decides"),
        Fallback::Nothing,
        "Which ones Flume does not speak.",
    ),
    CIPHERS_INCLUDED,
    CIPHERS_EXCLUDED,
];

const KEYSTORE_TYPE: Key = key(
    "keystore-type",
    Kind::Only(&["PEM"], ONLY_PEM),
    Fallback::Is("PEM"),
    "The format of `keystore`.",
);

const TRUSTSTORE_TYPE: Key = key(
    "truststore-type",
    Kind::Only(&["PEM"], ONLY_PEM),
    Fallback::Is("PEM"),
    "The format of `truststore`.",
);

const KEYSTORE_PASSWORD: Key = key(
    "keystore-password",
    Kind::Ignored("the file's permissions protect it"),
    Fallback::Nothing,
    "The password of Java's key store.",
);

const TRUSTSTORE_PASSWORD: Key = key(
    "truststore-password",
    Kind::Ignored("certificates are no secret"),
    Fallback::Nothing,
    "The password of Java's trust store.",
);

const INCLUDED: Key = key(
    "include-protocols",
    Kind::Names,
    Fallback::Nothing,
    "Of `TLSv1.2` and `TLSv1.3` those that are spoken; without it both.",
);

const EXCLUDED: Key = key(
    "exclude-protocols",
    Kind::Names,
    Fallback::Is("SSLv3"),
    "Of `TLSv1.2` and `TLSv1.3` those that are not spoken. Nothing older is.",
);

const CIPHERS_INCLUDED: Key = key(
    "include-cipher-suites",
    Kind::Ignored("there are only suites that are safe"),
    Fallback::Nothing,
    "Which ones Flume takes.",
);

const CIPHERS_EXCLUDED: Key = key(
    "exclude-cipher-suites",
    Kind::Ignored("there are only suites that are safe"),
    Fallback::Nothing,
    "Which ones Flume does not take.",
);

/// What sinks can be told that send to an address which begins with `https://`.
pub(crate) const OF_HTTPS: &[Key] = &[
    key(
        "truststore",
        Kind::Text,
        Fallback::Nothing,
        "A PEM file with the authorities to trust with `https://`, in place of the system's.",
    ),
    key(
        "keystore",
        Kind::Text,
        Fallback::Nothing,
        "A PEM file with a private key and its certificates, for servers that ask for one.",
    ),
];

/// What a source needs to answer in TLS; `None` if it is to answer without. Both sides agree on one of `protocols`, if
/// there are any (ALPN, RFC 7301).
pub(crate) fn of_source(
    settings: &Settings,
    protocols: &[&str],
) -> Result<Option<Arc<ServerTls>>, StartError> {
    if !settings.flag("ssl") {
        return Ok(None);
    }
    let keystore = pem(settings, "keystore")?;
    if keystore.is_empty() {
        return Err("ssl is true, and there is no keystore: a PEM file with a private key and its certificates".to_owned());
    }
    let truststore = pem(settings, "truststore")?;
    let client_auth = if truststore.is_empty() { ClientAuth::None } else { ClientAuth::Required };
    let (has_tls12, has_tls13) = (speaks(settings, "TLSv1.2"), speaks(settings, "TLSv1.3"));
    let settings = TlsSettings {
        keystore,
        truststore,
        client_auth,
        has_tls12,
        has_tls13,
        principal_rules: "DEFAULT".to_owned(),
    };
    let loaded = ServerTls::load(&settings, protocols, SystemTime::now());
    loaded.map(|tls| Some(Arc::new(tls))).map_err(|error| error.to_string())
}

fn speaks(settings: &Settings, version: &str) -> bool {
    let names = |key: &str, otherwise: bool| match settings.names(key) {
        names if names.is_empty() => otherwise,
        names => names.iter().any(|name| name.eq_ignore_ascii_case(version)),
    };
    names("include-protocols", true) && !names("exclude-protocols", false)
}

/// Looks whether files have changed, and says what came of it.
pub(crate) async fn reload(source: &str, tls: &Arc<ServerTls>) {
    let tls = Arc::clone(tls);
    let looked = tokio::task::spawn_blocking(move || tls.reload(SystemTime::now())).await;
    match looked {
        Ok(Reload::Done { subject }) => {
            tracing::info!(source, subject, "a new certificate is in force");
        }
        Ok(Reload::Refused(error)) => {
            tracing::error!(source, %error, "the new certificate cannot be used; the old one stays");
        }
        Ok(Reload::Unchanged) | Err(_) => {}
    }
}

/// Shakes hands with a client.
pub(crate) async fn accept(
    tls: &ServerTls,
    stream: Box<dyn Stream>,
) -> io::Result<Box<dyn Stream>> {
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    let shaken = timeout(HANDSHAKE_MAX, handshake).await;
    let shaken = shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let shaken = shaken
        .map_err(|error| io::Error::new(error.kind(), format!("no TLS handshake: {error}")))?;
    Ok(Box::new(shaken))
}

/// What a sink needs to speak TLS.
#[derive(Clone)]
pub(crate) struct SinkTls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// What a sink needs, if it is to speak TLS.
pub(crate) fn of_sink(settings: &Settings) -> Result<Option<SinkTls>, StartError> {
    if !settings.flag("ssl") {
        return Ok(None);
    }
    to_host(settings, settings.required("hostname").trim(), &[]).map(Some)
}

/// What a sink needs to speak TLS to a host, by the files of `truststore` and `keystore`. Both sides agree on one of
/// `protocols`, if there are any (ALPN, RFC 7301).
pub(crate) fn to_host(
    settings: &Settings,
    host: &str,
    protocols: &[&str],
) -> Result<SinkTls, StartError> {
    let (truststore, keystore) = (pem(settings, "truststore")?, pem(settings, "keystore")?);
    let config = client_config(&truststore, &keystore, SystemTime::now());
    let mut config = config.map_err(|error| error.to_string())?;
    Arc::make_mut(&mut config).alpn_protocols =
        protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        format!("'{host}' is neither a host's name nor an address, as TLS needs it")
    })?;
    Ok(SinkTls { connector: TlsConnector::from(config), name })
}

impl SinkTls {
    /// Shakes hands with a source.
    pub(crate) async fn connect(&self, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let shaken = self.connector.connect(self.name.clone(), stream).await;
        let shaken = shaken
            .map_err(|error| io::Error::new(error.kind(), format!("no TLS handshake: {error}")))?;
        Ok(Box::new(shaken))
    }
}

/// The file of a key, if it is set and is PEM.
fn pem(settings: &Settings, key: &str) -> Result<Vec<PathBuf>, StartError> {
    let Some(_) = settings.text(key) else { return Ok(Vec::new()) };
    let path = settings.path(key);
    let (option, wanted) = match key {
        "keystore" => ("-nodes", "private key and its certificates"),
        _ => ("-nokeys", "authorities' certificates"),
    };
    if let Some(format) =
        javas_format(&path).map_err(|error| format!("{key} {}: {error}", path.display()))?
    {
        return Err(format!(
            "{key} {path} is a {format} file, and here it is a PEM file with the {wanted}; convert it: \
             keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12 && \
             openssl pkcs12 -in {path}.p12 {option} -out {path}.pem",
            path = path.display()
        ));
    }
    Ok(vec![path])
}

/// Which of Java's formats a file has: by its first bytes.
fn javas_format(path: &Path) -> io::Result<Option<&'static str>> {
    let mut head = [0; 4];
    let mut read = 0;
    let mut file = File::open(path)?;
    while read < head.len() {
        match file.read(&mut head[read..])? {
            0 => break,
            count => read += count,
        }
    }
    Ok(match head {
        [0xfe, 0xed, 0xfe, 0xed] => Some("JKS"),
        [0xce, 0xce, 0xce, 0xce] => Some("JCEKS"),
        // A sequence in DER, longer than 127 bytes.
        [0x30, 0x80..=0x84, ..] => Some("PKCS12"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;

    fn source(more: &str) -> Settings {
        let text = format!(
            "[sources.r]\ntype = 'avro'\nbind = '127.0.0.1'\nport = 0\nchannels = ['c']\nssl = true\n{more}\n\
             [channels.c]\ntype = 'memory'\n"
        );
        let config = ConfigFile::Toml("agent.toml".into()).parse(&text).expect("makes sense");
        config.sources[0].settings.clone()
    }

    #[test]
    fn javas_stores_are_refused_by_name_with_the_way_out() {
        let folder = tempfile::tempdir().expect("is made");
        let refused = |head: &[u8]| {
            let path = folder.path().join("store");
            std::fs::write(&path, head).expect("is written");
            of_source(&source(&format!("keystore = '{}'", path.display())), &[])
                .expect_err("it is no PEM file")
        };
        let error = refused(&[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2]);
        assert!(error.contains("store is a JKS file"), "{error}");
        assert!(error.contains("keytool -importkeystore -srckeystore"), "{error}");
        assert!(refused(&[0x30, 0x82, 9, 9]).contains("is a PKCS12 file"));
        assert!(refused(b"text").contains("store"), "{}", refused(b"text"));
        let error = of_source(&source(""), &[]).expect_err("there is no key");
        assert!(error.contains("there is no keystore"), "{error}");
    }

    #[test]
    fn versions_are_included_and_excluded() {
        let speaks = |more: &str| {
            let settings = source(more);
            (speaks(&settings, "TLSv1.2"), speaks(&settings, "TLSv1.3"))
        };
        assert_eq!(speaks(""), (true, true));
        assert_eq!(speaks("include-protocols = 'TLSv1.3'"), (false, true));
        assert_eq!(speaks("exclude-protocols = 'SSLv3 TLSv1.3'"), (true, false));
    }
}
