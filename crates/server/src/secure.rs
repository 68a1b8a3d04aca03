//! `serve --secure`: TLS, users and permissions without a word about them.
//!
//! Below `secure` in the first log directory are an authority, the broker's certificate, and what clients need to connect as
//! `admin`, who may do everything. The directory and its files can be read by who runs the broker alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logway_metadata::controller::{AlterScramCredentials, ScramCredentialChange};
use logway_metadata::record::Endpoint;
use logway_metadata::sasl::ScramMechanism;
use logway_metadata::settings::broker::broker_setting;
use logway_metadata::settings::{BrokerSettings, Value};
use logway_node::cluster::way_out;
use logway_node::{Failure, Node};
use logway_security::authority::{AUTHORITY_FILE, Authority, AuthorityError, write_secret};
use logway_security::scram::{DEFAULT_ITERATIONS, NoRandomness, made_up_password, new_credential};
use rustix::system::uname;

/// Who may do everything.
const ADMIN: &str = "admin";

/// Beside the logs.
const DIRECTORY: &str = "secure";

const SERVER_FILE: &str = "server.pem";

const PASSWORD_FILE: &str = "admin.password";

const PROFILES_FILE: &str = "profiles.toml";

/// How often it is looked whether the certificate has time left.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Why a broker cannot be made secure.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    /// The authority or its files.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// No password can be made up.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The user cannot be made.
    #[error("cannot make the user '{ADMIN}': {reason}")]
    NoAdmin {
        /// Why.
        reason: String,
    },
}

/// What is made for a broker that is secure.
pub(crate) struct Secure {
    directory: PathBuf,
    authority: Authority,
    names: Vec<String>,
}

/// What `logway.secure` means for settings that are not given.
pub(crate) fn with_defaults(given: Vec<(String, String)>) -> Vec<(String, String)> {
    // As settings are read. What is wrong is said when they are.
    let value = |name: &str| {
        let setting = broker_setting(name).ok()?;
        match given.iter().rfind(|(it, _)| it == name) {
            Some((_, text)) => setting.parse(text).ok(),
            None => setting.default_value(),
        }
    };
    let (Some(Value::Boolean(true)), Some(listeners), Some(log_dirs)) =
        (value("logway.secure"), value("listeners"), value("log.dirs"))
    else {
        return given;
    };
    let listeners: Vec<String> =
        listeners.items().iter().map(|listener| with_protocol(listener)).collect();
    let directory = directory(Path::new(&log_dirs.items()[0]));
    let defaults = [
        ("ssl.keystore.location", directory.join(SERVER_FILE).to_string_lossy().into_owned()),
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned(),
        ),
        ("super.users", format!("User:{ADMIN}")),
    ];
    let defaults = defaults.into_iter().map(|(name, value)| (name.to_owned(), value));
    let listeners = ("listeners".to_owned(), listeners.join(","));
    // What is given comes later, and beats what is not. The listeners are those that were given.
    defaults.chain(given.clone()).chain([listeners]).collect()
}

/// A listener without a name is a secure one.
fn with_protocol(listener: &str) -> String {
    if listener.contains("://") { listener.to_owned() } else { format!("SASL_SSL://{listener}") }
}

fn directory(log_dir: &Path) -> PathBuf {
    log_dir.join(DIRECTORY)
}

impl Secure {
    /// Makes what is missing of the authority and the broker's certificate.
    pub(crate) fn prepare(settings: &BrokerSettings) -> Result<Secure, SecureError> {
        let directory = directory(&settings.log_dirs[0]);
        let authority = Authority::open_or_create(&directory)?;
        let secure = Secure { directory, authority, names: names(settings) };
        secure.renew()?;
        Ok(secure)
    }

    fn renew(&self) -> Result<bool, AuthorityError> {
        self.authority.renew(&self.directory.join(SERVER_FILE), &self.names)
    }

    /// Replaces the certificate when it has little time left. Listeners notice that their file is another one.
    pub(crate) async fn renew_in_time(self) {
        loop {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            if let Err(error) = self.renew() {
                tracing::error!(%error, "the certificate cannot be replaced");
            }
        }
    }

    /// Makes the user who may do everything, unless there is one, and writes what clients need to connect as that.
    pub(crate) async fn make_admin(
        &self,
        node: &Arc<Node>,
        addresses: &[Endpoint],
    ) -> Result<(), SecureError> {
        let path = self.directory.join(PASSWORD_FILE);
        let is_missing = node.image().users().credentials(ADMIN).is_none();
        let password = match is_missing {
            true => {
                let password = made_up_password()?;
                // First: nobody else knows it.
                write_secret(&path, &format!("{password}\n"))?;
                set_password(node, &password).await?;
                password
            }
            false => match std::fs::read_to_string(&path) {
                Ok(password) => password.trim_end().to_owned(),
                // Somebody has put it elsewhere.
                Err(_) => return Ok(()),
            },
        };
        self.write_for_clients(&password, addresses)?;
        if is_missing {
            let profiles = self.directory.join(PROFILES_FILE);
            let try_it = format!(
                "logway --profile-file {} --profile {ADMIN} cluster info",
                profiles.display()
            );
            tracing::info!(user = ADMIN, files = %self.directory.display(), try_it,
                "made an authority, a certificate and a user; settings for clients are in the files");
        }
        Ok(())
    }

    fn write_for_clients(
        &self,
        password: &str,
        addresses: &[Endpoint],
    ) -> Result<(), AuthorityError> {
        let brokers: Vec<String> = addresses.iter().map(Endpoint::to_string).collect();
        let brokers = brokers.join(",");
        let authority = self.directory.join(AUTHORITY_FILE);
        let authority = std::path::absolute(&authority).unwrap_or(authority);
        let authority = authority.display();
        let of_java = format!(
            "bootstrap.servers={brokers}\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n\
             sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
             username=\"{ADMIN}\" password=\"{password}\";\n\
             ssl.truststore.type=PEM\nssl.truststore.location={authority}\n"
        );
        let of_librdkafka = format!(
            "bootstrap.servers={brokers}\nsecurity.protocol=SASL_SSL\nsasl.mechanisms=SCRAM-SHA-512\n\
             sasl.username={ADMIN}\nsasl.password={password}\nssl.ca.location={authority}\n"
        );
        let profile = format!(
            "[{ADMIN}]\nbrokers = \"{brokers}\"\ntls-ca = \"{authority}\"\nuser = \"{ADMIN}\"\n\
             password = \"{password}\"\n"
        );
        write_secret(&self.directory.join("client.properties"), &of_java)?;
        write_secret(&self.directory.join("librdkafka.conf"), &of_librdkafka)?;
        write_secret(&self.directory.join(PROFILES_FILE), &profile)
    }
}

async fn set_password(node: &Arc<Node>, password: &str) -> Result<(), SecureError> {
    let mut changes = Vec::new();
    for mechanism in ScramMechanism::ALL {
        let credential = new_credential(mechanism, password, DEFAULT_ITERATIONS)?;
        changes.push(ScramCredentialChange {
            user: ADMIN.to_owned(),
            mechanism,
            credential: Some(credential),
        });
    }
    let no_admin = |reason| SecureError::NoAdmin { reason };
    let submitted = node.submit(AlterScramCredentials { changes }, None, None).await;
    let outcomes = submitted.map_err(|failure: Failure| no_admin(failure.message))?;
    match outcomes.into_iter().find_map(Result::err) {
        Some(error) => Err(no_admin(error.to_string())),
        None => Ok(()),
    }
}

/// What the certificate is for: this machine, where it listens, what it advertises, and what else is wanted.
fn names(settings: &BrokerSettings) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    names.extend(uname().nodename().to_str().ok().map(str::to_ascii_lowercase));
    for listener in &settings.listeners {
        let bound = listener.addresses.iter().map(|endpoint| &endpoint.host);
        let advertised = listener.advertised.iter().map(|endpoint| &endpoint.host);
        names.extend(bound.chain(advertised).cloned());
    }
    names.extend(settings.secure_names.iter().cloned());
    names.extend(way_out().map(|address| address.to_string()));
    let is_none = |name: &str| name.is_empty() || ["0.0.0.0", "::"].contains(&name);
    names.retain(|name| !is_none(name));
    names.sort();
    names.dedup();
    names
}
