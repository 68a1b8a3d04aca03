//! How sources and sinks reach a Kafka cluster.

use std::time::{Duration, SystemTime};

use logway_client::{BrokerAddress, Client, ClientOptions, ConnectionOptions, Password, Security};
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};
use logway_record::Compression;
use logway_security::tls::client_config;

use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::StartError;
use crate::settings::Settings;

/// The key for whom to speak to.
pub(crate) const BROKERS: &str = "kafka.bootstrap.servers";

/// The keys of all that speak to brokers.
pub(crate) const CLUSTER: &[Key] = &[
    key(
        BROKERS,
        Kind::Text,
        Fallback::Required,
        "Brokers to begin with, as `HOST:PORT,HOST:PORT`. In a broker's process (`serve --agent`) it is that broker, if nothing is said.",
    ),
    key("kafka.tls", Kind::Flag, Fallback::Is("false"), "Whether connections are encrypted."),
    key(
        "kafka.tls.ca",
        Kind::Text,
        Fallback::Nothing,
        "A PEM file with the authorities to trust, in place of the system's.",
    ),
    key(
        "kafka.tls.cert",
        Kind::Text,
        Fallback::Nothing,
        "A PEM file with a key and its certificates, to show to brokers.",
    ),
    key("kafka.user", Kind::Text, Fallback::Nothing, "Who to log in as."),
    key(
        "kafka.password",
        Kind::Text,
        Fallback::Nothing,
        "The password; `${env:NAME}` takes it from the environment.",
    ),
    key(
        "kafka.mechanism",
        Kind::Choice(&["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"]),
        Fallback::Is("SCRAM-SHA-512"),
        "How to log in.",
    ),
];

/// The key for how the consumer of a configuration of Flume connects.
pub(crate) const CONSUMER_PROTOCOL: Key = key(
    "kafka.consumer.security.protocol",
    Kind::Only(&["PLAINTEXT"], "use kafka.tls and kafka.user"),
    Fallback::Is("PLAINTEXT"),
    "How Flume's consumer connects.",
);

/// The key for how the producer of a configuration of Flume connects.
pub(crate) const PRODUCER_PROTOCOL: Key = key(
    "kafka.producer.security.protocol",
    Kind::Only(&["PLAINTEXT"], "use kafka.tls and kafka.user"),
    Fallback::Is("PLAINTEXT"),
    "How Flume's producer connects.",
);

/// The key for [`compression`].
pub(crate) const COMPRESSION: Key = key(
    "kafka.producer.compression.type",
    Kind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]),
    Fallback::Is("none"),
    "How batches are compressed.",
);

/// The key for the header that names the partition.
pub(crate) const PARTITION_HEADER: Key =
    key("partitionIdHeader", Kind::Text, Fallback::Nothing, "A header that names the partition.");

/// How long what a broker refuses for a reason that passes is tried again, before the events go back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A client; connects when it is first used.
pub(crate) fn client(settings: &Settings) -> Result<Client, StartError> {
    let text = settings.required(BROKERS);
    if text.contains('@') {
        // The text is not told: there may be a password in it.
        return Err(format!("{BROKERS} has an '@': say kafka.user and kafka.password"));
    }
    let addresses = BrokerAddress::parse_list(text);
    let addresses = addresses.map_err(|error| format!("{BROKERS}: {error}"))?;
    let connection =
        ConnectionOptions { security: security(settings)?, ..ConnectionOptions::default() };
    Ok(Client::new(addresses, ClientOptions { connection, ..ClientOptions::default() }))
}

/// What `kafka.producer.compression.type` says.
pub(crate) fn compression(settings: &Settings) -> Compression {
    match settings.required("kafka.producer.compression.type").trim().to_lowercase().as_str() {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::None,
    }
}

fn security(settings: &Settings) -> Result<Security, StartError> {
    let file = |key: &str| settings.text(key).map(|_| settings.path(key));
    let (authority, identity) =
        (Vec::from_iter(file("kafka.tls.ca")), Vec::from_iter(file("kafka.tls.cert")));
    let has_tls = settings.flag("kafka.tls") || !authority.is_empty() || !identity.is_empty();
    let config = || client_config(&authority, &identity, SystemTime::now());
    let tls = has_tls.then(config).transpose().map_err(|error| error.to_string())?;
    let Some(user) = settings.text("kafka.user") else {
        return Ok(Security { tls, password: None });
    };
    let password = settings.text("kafka.password").ok_or("kafka.user has no kafka.password")?;
    let mechanism = settings.required("kafka.mechanism").trim().to_uppercase();
    let mechanism = mechanism.parse().unwrap_or(SaslMechanism::Scram(ScramMechanism::Sha512));
    let (user, password) = (user.trim().to_owned(), password.to_owned());
    Ok(Security {
        tls,
        password: Some(Password { mechanism, user, password, is_delegation_token: false }),
    })
}
