//! `serve --secure`: TLS, users and permissions without a word about them.
//!
//! Below `secure` in the first log directory are an authority, the broker's certificate, and what clients need to connect as
//! `admin`, who may do everything. The directory and its files can be read by who runs the broker alone.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logway_metadata::controller::{AlterScramCredentials, ScramCredentialChange};
use logway_metadata::join_token::Digest;
use logway_metadata::record::Endpoint;
use logway_metadata::sasl::ScramMechanism;
use logway_metadata::settings::broker::broker_setting;
use logway_metadata::settings::{BrokerSettings, Secret, Value};
use logway_model::DirectoryId;
use logway_node::cluster::{
    AdmissionError, AuthorityPem, FirstDirectory, KnownNodes, SecureNodes, be_admitted, way_out,
};
use logway_node::{Failure, Node, NodeError};
use logway_peers::PeerTls;
use logway_security::TlsError;
use logway_security::authority::{
    AUTHORITY_FILE, Authority, AuthorityError, has_node_key, node_key_digest, write_secret,
};
use logway_security::join_token::IssuedJoinToken;
use logway_security::nodes::NodeTls;
use logway_security::scram::{DEFAULT_ITERATIONS, NoRandomness, made_up_password, new_credential};
use rustix::system::uname;

use crate::nodes::next_port;

/// Who may do everything.
const ADMIN: &str = "admin";

/// Beside the logs.
const DIRECTORY: &str = "secure";

const SERVER_FILE: &str = "server.pem";

/// Where health and metrics are.
const HTTP_LISTEN: &str = "logway.http.listen";

const PASSWORD_FILE: &str = "admin.password";

/// By which keys the nodes were known that have admitted this one.
const NODES_FILE: &str = "nodes";

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
    /// The certificate for talking to other nodes.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The data directory, when it was asked for the node's name.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The cluster has not admitted the node.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// A node joins a cluster whose nodes talk by TLS with a token alone.
    #[error("a secure node joins a cluster with a join token, and was given none")]
    NoToken,
    /// What was given is none.
    #[error("logway.join.token is no join token, nor '@' and a file that has one")]
    NotAToken,
    /// The file that has the token.
    #[error("cannot read the join token in {}: {source}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The node belongs to another cluster already.
    #[error("{} has another authority than the join token names: this node belongs to another cluster", directory.display())]
    OtherAuthority {
        /// Where it is.
        directory: PathBuf,
    },
    /// A node with data joins nothing.
    #[error("{} has the data of a node already: only an empty directory joins a cluster", directory.display())]
    HasData {
        /// Where it is.
        directory: PathBuf,
    },
    /// The first node cannot be made known.
    #[error("the cluster's nodes cannot be made to know each other: {reason}")]
    NotFounded {
        /// Why.
        reason: String,
    },
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
    /// For talking to other nodes.
    node_tls: Arc<NodeTls>,
    known: Arc<KnownNodes>,
    token: Option<IssuedJoinToken>,
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
    let others =
        ["advertised.listeners", "logservice.listen", "logservice.logspec.listen", HTTP_LISTEN];
    let others = others.into_iter().filter_map(|name| {
        let given = given.iter().rfind(|(it, _)| it == name)?;
        let items = given.1.split(',').map(str::trim).map(|item| match name {
            HTTP_LISTEN if is_loopback(item) => item.to_owned(),
            _ => with_protocol(item),
        });
        Some((name.to_owned(), items.collect::<Vec<_>>().join(",")))
    });
    let others: Vec<(String, String)> = others.collect();
    let directory = directory(Path::new(&log_dirs.items()[0]));
    let defaults = [
        ("ssl.keystore.location", directory.join(SERVER_FILE).to_string_lossy().into_owned()),
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned(),
        ),
        ("super.users", format!("User:{ADMIN}")),
        ("kinesis.signatures", "true".to_owned()),
        ("kinesis.tls", "true".to_owned()),
    ];
    let defaults = defaults.into_iter().map(|(name, value)| (name.to_owned(), value));
    let listeners = ("listeners".to_owned(), listeners.join(","));
    // What is given comes later, and beats what is not. The listeners are those that were given.
    defaults.chain(given.clone()).chain([listeners]).chain(others).collect()
}

/// Who can reach it is on this machine, as probes and what collects metrics often are. They are not asked who they are.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|host: IpAddr| host.is_loopback())
}

/// A listener without a name is a secure one.
fn with_protocol(listener: &str) -> String {
    if listener.contains("://") { listener.to_owned() } else { format!("SASL_SSL://{listener}") }
}

pub(crate) fn directory(log_dir: &Path) -> PathBuf {
    log_dir.join(DIRECTORY)
}

impl Secure {
    /// Makes what is missing of the authority and the node's certificates. A node with a join token gets the authority of the
    /// cluster that admits it.
    pub(crate) async fn prepare(settings: &BrokerSettings) -> Result<Secure, SecureError> {
        let directory = directory(&settings.log_dirs[0]);
        let first = FirstDirectory::look(settings).await?;
        if first.is_joining && settings.cluster.join_token.is_none() {
            return Err(SecureError::NoToken);
        }
        let token = match token(settings) {
            Ok(token) => token,
            // It has been admitted, and does not need it any more.
            Err(error) if Authority::is_in(&directory) => {
                tracing::warn!(%error, "the join token cannot be read");
                None
            }
            Err(error) => return Err(error),
        };
        if !Authority::is_in(&directory) {
            join(settings, first, token.as_ref(), &directory).await?;
        }
        let authority = Authority::open_or_create(&directory)?;
        let own = authority.digest()?;
        if token.as_ref().is_some_and(|token| token.authority != own) {
            return Err(SecureError::OtherAuthority { directory });
        }
        let (node_file, _) = authority.renew_node(&directory)?;
        let node_tls = Arc::new(NodeTls::load(&node_file, SystemTime::now())?);
        let known = KnownNodes::new(read_nodes(&directory.join(NODES_FILE))?);
        let names = names(settings);
        let secure = Secure { directory, authority, names, node_tls, known, token };
        secure.renew()?;
        Ok(secure)
    }

    fn renew(&self) -> Result<(), SecureError> {
        self.authority.renew(&self.directory.join(SERVER_FILE), &self.names)?;
        if let (_, true) = self.authority.renew_node(&self.directory)? {
            self.node_tls.reload(SystemTime::now())?;
        }
        Ok(())
    }

    /// For the carrier of calls between nodes.
    pub(crate) fn peer_tls(&self) -> PeerTls {
        PeerTls { tls: Arc::clone(&self.node_tls), admission: self.known.clone() }
    }

    /// Where the join token says that nodes are; nowhere without one.
    pub(crate) fn addresses_of_token(&self) -> Vec<String> {
        self.token.iter().flat_map(|token| token.addresses.clone()).collect()
    }

    /// What delegation tokens are made with, where no other key is given: the same on all nodes.
    pub(crate) fn token_key(&self) -> Secret {
        self.authority.secret_for("delegation tokens")
    }

    /// For the node.
    pub(crate) fn nodes(&self) -> SecureNodes {
        let (key, certificate) = self.authority.to_pem();
        SecureNodes { known: Arc::clone(&self.known), authority: AuthorityPem { key, certificate } }
    }

    /// Has the node known by its key, if it is the first one.
    pub(crate) async fn found(&self, node: &Arc<Node>) -> Result<(), SecureError> {
        if node.image().node_keys().next().is_some() {
            return Ok(());
        }
        let key = node_key_digest(&self.directory)?;
        let founded = node.found_node_keys(key, self.authority.digest()?).await;
        founded.map_err(|failure| SecureError::NotFounded { reason: failure.message })
    }

    /// Replaces the certificate when it has little time left. Listeners notice that their file is another one.
    pub(crate) async fn renew_in_time(self) {
        loop {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            if let Err(error) = self.renew() {
                tracing::error!(%error, "certificates cannot be replaced");
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

/// Has this node admitted by its join token, if it has one.
async fn join(
    settings: &BrokerSettings,
    first: FirstDirectory,
    token: Option<&IssuedJoinToken>,
    directory: &Path,
) -> Result<(), SecureError> {
    let Some(token) = token else {
        return match settings.cluster.join.is_empty() {
            true => Ok(()),
            false => Err(SecureError::NoToken),
        };
    };
    let given = &settings.cluster.join;
    let of_nodes = given.iter().filter_map(|address| next_port(address));
    let given = given.iter().cloned().chain(of_nodes);
    let addresses: Vec<String> = token.addresses.iter().cloned().chain(given).collect();
    // Before anybody is asked: a directory with data is another cluster's, unless it has been of a node of this kind.
    if !first.is_new && !has_node_key(directory) {
        return Err(SecureError::HasData { directory: settings.log_dirs[0].clone() });
    }
    first.begin_to_join(settings).await?;
    let admitted = be_admitted(token, &addresses, first.id, node_key_digest(directory)?).await?;
    let nodes = admitted.nodes.iter().map(|(directory, key)| format!("{directory} {key}\n"));
    // Before the authority: where that is, a node is not admitted again.
    write_secret(&directory.join(NODES_FILE), &nodes.collect::<String>())?;
    Ok(Authority::adopt(directory, &admitted.authority_key, &admitted.authority)?)
}

/// The token that was given, itself or in a file.
fn token(settings: &BrokerSettings) -> Result<Option<IssuedJoinToken>, SecureError> {
    let Some(given) = &settings.cluster.join_token else { return Ok(None) };
    let text = match given.reveal().strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|source| SecureError::TokenFile { path: path.into(), source })?,
        None => given.reveal().to_owned(),
    };
    text.parse().map(Some).map_err(|_| SecureError::NotAToken)
}

/// What the cluster told of its nodes when it admitted this one.
fn read_nodes(path: &Path) -> Result<Vec<(DirectoryId, Digest)>, SecureError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = read_file(path)?;
    let node = |line: &str| {
        let (directory, key) = line.split_once(' ')?;
        Some((DirectoryId(directory.parse().ok()?), key.parse().ok()?))
    };
    text.lines().map(node).collect::<Option<_>>().ok_or_else(|| {
        let reason = "it is not a list of nodes".to_owned();
        AuthorityError::Unusable { path: path.to_owned(), reason }.into()
    })
}

fn read_file(path: &Path) -> Result<String, SecureError> {
    std::fs::read_to_string(path)
        .map_err(|source| AuthorityError::File { path: path.to_owned(), source }.into())
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
    let of_log_service = settings.log_service.listeners.iter();
    let of_logspec = settings.log_service.logspec.iter().map(|logspec| &logspec.listener);
    let others = settings.http.iter().chain(of_log_service).chain(of_logspec);
    for listener in settings.listeners.iter().chain(others) {
        let bound = listener.addresses.iter().map(|endpoint| &endpoint.host);
        let advertised = listener.advertised.iter().map(|endpoint| &endpoint.host);
        names.extend(bound.chain(advertised).cloned());
    }
    names.extend(settings.kinesis.listen.iter().map(|endpoint| endpoint.host.clone()));
    names.extend(settings.secure_names.iter().cloned());
    names.extend(way_out().map(|address| address.to_string()));
    let is_none = |name: &str| name.is_empty() || ["0.0.0.0", "::"].contains(&name);
    names.retain(|name| !is_none(name));
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advertised_without_a_name_is_the_secure_listener() {
        let given = [
            ("logway.secure", "true"),
            ("listeners", "0.0.0.0:9092"),
            ("advertised.listeners", "node-1.example:9092"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = BrokerSettings::new(with_defaults(given.to_vec())).expect("are valid");
        let told: Vec<_> =
            settings.listeners.iter().map(|listener| listener.advertised.clone()).collect();
        let expected = Endpoint { host: "node-1.example".to_owned(), port: 9092 };
        assert_eq!(told, [Some(expected)]);
    }

    #[test]
    fn the_certificate_is_for_every_address_that_is_listened_on() {
        let settings = [
            ("listeners", "kafka:9092"),
            ("kinesis.listen", "kinesis:4567"),
            ("logservice.listen", "log:4572"),
            ("logservice.logspec.listen", "logspec:4573=t"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names = names(&BrokerSettings::new(settings).expect("the settings are valid"));
        for name in ["kafka", "kinesis", "log", "logspec"] {
            assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
        }
    }
}
