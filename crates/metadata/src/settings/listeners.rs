//! Where clients connect, and what each way in asks of them.
//!
//! A listener has a name, addresses and a protocol. `listener.name.NAME.SETTING` is a setting of that listener
//! alone and beats `SETTING`, which is that of all (KIP-103, KIP-226). Names of listeners are the same in any case
//! of letters.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::broker::{CONNECTION_RATE_SETTING, CONNECTIONS_SETTING};
use super::broker_settings::Fields;
use super::key_source::{KeyServer, KeySource};
use super::listener::LISTENER_SETTINGS;
use super::value::{NamedAddress, UNNAMED_LISTENER, parse_named_address};
use crate::error::{MetadataError, excerpt};
use crate::record::{Endpoint, NODE_LISTENER};
use crate::sasl::SaslMechanism;
use logway_model::TopicName;

/// The listener for Kinesis clients.
pub const KINESIS_LISTENER: &str = "KINESIS";

/// What stands before a listener's name where a setting is of that listener alone.
pub(super) const LISTENER_PREFIX: &str = "listener.name.";

/// One way in for clients.
#[derive(Debug, Clone, PartialEq)]
pub struct ListenerSettings {
    /// What it is called, in capitals.
    pub name: String,
    /// What is spoken there.
    pub protocol: SecurityProtocol,
    /// Where clients connect, at least one.
    pub addresses: Vec<Endpoint>,
    /// `advertised.listeners`, or `None` to tell each client the address it came by.
    pub advertised: Option<Endpoint>,
    /// What TLS needs, where the protocol has it.
    pub tls: Option<TlsSettings>,
    /// How clients say who they are, where the protocol has it.
    pub sasl: Option<SaslSettings>,
    /// `max.connections` of this listener alone.
    pub connections_max: Option<usize>,
    /// `max.connection.creation.rate` of this listener alone.
    pub connections_per_second_max: Option<u32>,
}

impl ListenerSettings {
    /// Whether it is encrypted, and nobody uses it who has not said and shown who he is.
    pub fn is_guarded(&self) -> bool {
        let Some(tls) = &self.tls else { return false };
        self.sasl.is_some() || tls.client_auth == ClientAuth::Required
    }

    /// Whether clients are asked who they are, or can show it.
    pub fn asks_clients(&self) -> bool {
        let may_show = |tls: &TlsSettings| tls.client_auth != ClientAuth::None;
        self.sasl.is_some() || self.tls.as_ref().is_some_and(may_show)
    }

    /// The address to give to a client that reached us at `local`: that one, unless another is configured. So what
    /// a client is told to connect to is what it could connect to.
    pub fn advertised_to(&self, local: SocketAddr) -> Endpoint {
        match &self.advertised {
            Some(endpoint) => endpoint.clone(),
            None => Endpoint { host: local.ip().to_canonical().to_string(), port: local.port() },
        }
    }
}

/// What is spoken on a listener, under Kafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Nothing is encrypted, and nobody is asked who he is.
    Plaintext,
    /// TLS. Who the client is, its certificate says.
    Ssl,
    /// Nothing is encrypted, and clients say who they are by SASL.
    SaslPlaintext,
    /// TLS, and SASL within it.
    SaslSsl,
}

impl SecurityProtocol {
    /// Every protocol.
    pub const ALL: [SecurityProtocol; 4] = [
        SecurityProtocol::Plaintext,
        SecurityProtocol::Ssl,
        SecurityProtocol::SaslPlaintext,
        SecurityProtocol::SaslSsl,
    ];

    /// Kafka's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            SecurityProtocol::Plaintext => "PLAINTEXT",
            SecurityProtocol::Ssl => "SSL",
            SecurityProtocol::SaslPlaintext => "SASL_PLAINTEXT",
            SecurityProtocol::SaslSsl => "SASL_SSL",
        }
    }

    /// Whether it is encrypted.
    pub const fn has_tls(self) -> bool {
        matches!(self, SecurityProtocol::Ssl | SecurityProtocol::SaslSsl)
    }

    /// Whether clients have to say who they are.
    pub const fn has_sasl(self) -> bool {
        matches!(self, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl)
    }
}

impl fmt::Display for SecurityProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads Kafka's name, in any case of letters.
impl FromStr for SecurityProtocol {
    type Err = ();

    fn from_str(text: &str) -> Result<SecurityProtocol, ()> {
        let found = SecurityProtocol::ALL.into_iter();
        found.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(text)).ok_or(())
    }
}

/// What TLS needs on one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// `ssl.keystore.location`: PEM files with one private key and its chain of certificates.
    pub keystore: Vec<PathBuf>,
    /// `ssl.truststore.location`: PEM files with the authorities of clients' certificates.
    pub truststore: Vec<PathBuf>,
    /// `ssl.client.auth`
    pub client_auth: ClientAuth,
    /// Whether `ssl.enabled.protocols` has `TLSv1.2`.
    pub has_tls12: bool,
    /// Whether `ssl.enabled.protocols` has `TLSv1.3`.
    pub has_tls13: bool,
    /// `ssl.principal.mapping.rules`
    pub principal_rules: String,
}

/// Whether clients show certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked for one.
    None,
    /// They are asked, and may have none.
    Requested,
    /// Without one there is no connection.
    Required,
}

/// How clients of one listener say who they are.
#[derive(Debug, Clone, PartialEq)]
pub struct SaslSettings {
    /// `sasl.enabled.mechanisms`, at least one.
    pub mechanisms: Vec<SaslMechanism>,
    /// `sasl.server.max.receive.size`
    pub receive_max_bytes: usize,
    /// `connections.max.reauth.ms`, or `None` where nobody has to say it again.
    pub session_max: Option<Duration>,
    /// `connection.failed.authentication.delay.ms`
    pub failure_delay: Duration,
    /// How tokens are judged, where OAUTHBEARER is one of the mechanisms.
    pub bearer: Option<BearerSettings>,
}

/// How tokens are judged that an authority has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BearerSettings {
    /// `sasl.oauthbearer.jwks.endpoint.url`: where the keys are.
    pub key_set: KeySource,
    /// `sasl.oauthbearer.expected.audience`
    pub audiences: Vec<String>,
    /// `sasl.oauthbearer.expected.issuer`
    pub issuer: Option<String>,
    /// `sasl.oauthbearer.sub.claim.name`
    pub user_claim: String,
    /// `sasl.oauthbearer.scope.claim.name`
    pub scope_claim: String,
    /// `sasl.oauthbearer.clock.skew.seconds`
    pub clock_skew: Duration,
}

/// The settings of single listeners: by the name of the listener, in capitals, and of the setting.
pub(super) type GivenOfListeners = BTreeMap<(String, &'static str), String>;

/// One of them.
pub(super) type GivenOfListener = ((String, &'static str), String);

/// Takes `listener.name.NAME.SETTING` apart, and checks the value; `None` if the name is not of that form.
pub(super) fn listener_setting(
    name: &str,
    text: &str,
) -> Option<Result<GivenOfListener, MetadataError>> {
    let rest = name.strip_prefix(LISTENER_PREFIX)?;
    let own = [CONNECTIONS_SETTING, CONNECTION_RATE_SETTING];
    let names = LISTENER_SETTINGS.iter().map(|setting| setting.name).chain(own);
    // The listener's own name may have dots.
    let found = names.into_iter().find_map(|setting| {
        let listener = rest.strip_suffix(setting)?.strip_suffix('.')?;
        (!listener.is_empty()).then_some((listener.to_uppercase(), setting))
    });
    Some(match found {
        Some((listener, setting)) => super::broker::broker_setting(setting)
            .and_then(|setting| setting.parse(text))
            .map(|value| ((listener, setting), value.to_string())),
        None => Err(MetadataError::UnknownSetting {
            scope: "listener",
            name: excerpt(name),
            nearest: None,
        }),
    })
}

/// The listeners of Kafka clients, those for health and metrics, and those of the log service's clients.
#[derive(Debug, Default)]
pub(super) struct AllListeners {
    /// `listeners`, in the order in which their names come first.
    pub(super) kafka: Vec<ListenerSettings>,
    /// `logway.http.listen`, likewise.
    pub(super) http: Vec<ListenerSettings>,
    /// `logservice.listen`, likewise.
    pub(super) log_service: Vec<ListenerSettings>,
    /// `logservice.logspec.listen`, with the topic of each.
    pub(super) logspec: Vec<LogspecSettings>,
}

/// A listener for clients of `logspec`, who know one log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogspecSettings {
    /// Where they connect.
    pub listener: ListenerSettings,
    /// The name of the topic.
    pub topic: String,
}

/// Every listener. Those of one name have their protocol and their own settings in common, whatever front door they are of.
///
/// Fails with [`MetadataError::InvalidSetting`] where a listener lacks what its protocol needs, or something is set
/// of a listener that there is not.
pub(super) fn listeners(fields: &Fields<'_>) -> Result<AllListeners, MetadataError> {
    let protocols = protocols(fields)?;
    let mut listeners = of_addresses(fields, &protocols, fields.named_addresses("listeners"))?;
    for NamedAddress { name, endpoint } in fields.named_addresses("advertised.listeners") {
        match listeners.iter_mut().find(|listener| listener.name == name) {
            Some(listener) => listener.advertised = Some(endpoint),
            None => return Err(no_listener("advertised.listeners", &name)),
        }
    }
    // Where there is health is not a matter of clients: it needs no place in their map.
    let mut of_http = protocols.clone();
    of_http.entry(UNNAMED_LISTENER.to_owned()).or_insert(SecurityProtocol::Plaintext);
    let all = AllListeners {
        kafka: listeners,
        http: of_addresses(fields, &of_http, fields.named_addresses("logway.http.listen"))?,
        log_service: of_addresses(fields, &protocols, fields.named_addresses("logservice.listen"))?,
        logspec: logspec(fields, &protocols)?,
    };
    let of_logspec = all.logspec.iter().map(|logspec| &logspec.listener);
    let every =
        || all.kafka.iter().chain(&all.http).chain(&all.log_service).chain(of_logspec.clone());
    let strange = fields.of_listeners.keys().map(|(name, _)| name);
    let is_kinesis = |name: &str| name == KINESIS_LISTENER && fields.has("kinesis.listen");
    let is_strange = |name: &&String| every().all(|it| it.name != **name) && !is_kinesis(name);
    match strange.into_iter().find(is_strange) {
        Some(name) => Err(no_listener("listeners", name)),
        None => Ok(all),
    }
}

fn of_addresses(
    fields: &Fields<'_>,
    protocols: &BTreeMap<String, SecurityProtocol>,
    addresses: Vec<NamedAddress>,
) -> Result<Vec<ListenerSettings>, MetadataError> {
    let mut listeners: Vec<ListenerSettings> = Vec::new();
    for NamedAddress { name, endpoint } in addresses {
        match listeners.iter_mut().find(|listener| listener.name == name) {
            Some(listener) => listener.addresses.push(endpoint),
            None => listeners.push(listener(fields, protocols, name, endpoint)?),
        }
    }
    Ok(listeners)
}

fn logspec(
    fields: &Fields<'_>,
    protocols: &BTreeMap<String, SecurityProtocol>,
) -> Result<Vec<LogspecSettings>, MetadataError> {
    const NAME: &str = "logservice.logspec.listen";
    let mut found = Vec::new();
    for item in fields.text(NAME).split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let parsed = item.rsplit_once('=').and_then(|(address, topic)| {
            Some((parse_named_address(address.trim())?, TopicName::new(topic.trim()).ok()?))
        });
        let Some((NamedAddress { name, endpoint }, topic)) = parsed else {
            let reason =
                "it must be a list of host:port=TOPIC or NAME://host:port=TOPIC".to_owned();
            return Err(MetadataError::InvalidSetting { name: NAME, value: excerpt(item), reason });
        };
        let listener = listener(fields, protocols, name, endpoint)?;
        found.push(LogspecSettings { listener, topic: topic.as_str().to_owned() });
    }
    Ok(found)
}

fn no_listener(setting: &'static str, name: &str) -> MetadataError {
    let reason = format!("`listeners` has no listener of the name {}", excerpt(name));
    MetadataError::InvalidSetting { name: setting, value: excerpt(name), reason }
}

/// What is spoken, by the name of the listener.
fn protocols(fields: &Fields<'_>) -> Result<BTreeMap<String, SecurityProtocol>, MetadataError> {
    const NAME: &str = "listener.security.protocol.map";
    let mut protocols = BTreeMap::new();
    for item in fields.text(NAME).split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let pair = item.rsplit_once(':');
        let parsed = pair.and_then(|(name, protocol)| {
            Some((name.trim().to_uppercase(), protocol.trim().parse().ok()?))
        });
        let Some((name, protocol)) = parsed else {
            let names = SecurityProtocol::ALL.map(SecurityProtocol::name).join(", ");
            let reason = format!("it must be a list of name:protocol; the protocols are {names}");
            return Err(MetadataError::InvalidSetting { name: NAME, value: excerpt(item), reason });
        };
        protocols.insert(name, protocol);
    }
    Ok(protocols)
}

fn listener(
    fields: &Fields<'_>,
    protocols: &BTreeMap<String, SecurityProtocol>,
    name: String,
    endpoint: Endpoint,
) -> Result<ListenerSettings, MetadataError> {
    let invalid = |setting: &'static str, reason: String| {
        Err(MetadataError::InvalidSetting { name: setting, value: name.clone(), reason })
    };
    let taken = [(NODE_LISTENER, "other nodes"), (KINESIS_LISTENER, "Kinesis clients")];
    if let Some((_, whom)) = taken.iter().find(|(taken, _)| *taken == name) {
        return invalid(
            "listeners",
            format!("{name} is the listener for {whom}; choose another name"),
        );
    }
    let Some(&protocol) = protocols.get(&name) else {
        let reason = format!(
            "what is spoken there? say it as listener.security.protocol.map={name}:SASL_SSL"
        );
        return invalid("listeners", reason);
    };
    let own = fields.of(&name);
    let tls = protocol.has_tls().then(|| own.checked_tls(&name, protocol.name())).transpose()?;
    let sasl = protocol.has_sasl().then(|| own.sasl(&name)).transpose()?;
    if sasl.as_ref().is_some_and(|sasl| sasl.mechanisms.is_empty()) {
        let reason = format!("{protocol} needs a mechanism at least");
        return invalid("sasl.enabled.mechanisms", reason);
    }
    let number = |setting| fields.of_listeners.get(&(name.clone(), setting))?.parse().ok();
    Ok(ListenerSettings {
        protocol,
        addresses: vec![endpoint],
        advertised: None,
        tls,
        sasl,
        connections_max: number(CONNECTIONS_SETTING).map(|max: u32| max as usize),
        connections_per_second_max: number(CONNECTION_RATE_SETTING),
        name,
    })
}

impl Fields<'_> {
    /// What TLS needs on the listener of a name. `what` needs it there.
    pub(super) fn checked_tls(&self, name: &str, what: &str) -> Result<TlsSettings, MetadataError> {
        let invalid = |setting: &'static str, reason: String| {
            Err(MetadataError::InvalidSetting { name: setting, value: name.to_owned(), reason })
        };
        let tls = self.tls();
        if tls.keystore.is_empty() {
            let reason = format!(
                "{what} needs a certificate: a PEM file with a private key and its certificates"
            );
            return invalid("ssl.keystore.location", reason);
        }
        if tls.client_auth != ClientAuth::None && tls.truststore.is_empty() {
            let reason =
                "ssl.client.auth needs a PEM file with the authorities of clients' certificates";
            return invalid("ssl.truststore.location", reason.to_owned());
        }
        Ok(tls)
    }

    fn tls(&self) -> TlsSettings {
        let versions = self.list("ssl.enabled.protocols");
        let has = |version: &str| versions.iter().any(|enabled| enabled == version);
        let paths = |name: &str| self.list(name).iter().map(PathBuf::from).collect();
        TlsSettings {
            keystore: paths("ssl.keystore.location"),
            truststore: paths("ssl.truststore.location"),
            client_auth: match &*self.text("ssl.client.auth") {
                "required" => ClientAuth::Required,
                "requested" => ClientAuth::Requested,
                _ => ClientAuth::None,
            },
            has_tls12: has("TLSv1.2"),
            has_tls13: has("TLSv1.3"),
            principal_rules: self.text("ssl.principal.mapping.rules"),
        }
    }

    fn sasl(&self, listener: &str) -> Result<SaslSettings, MetadataError> {
        let mechanisms = self.list("sasl.enabled.mechanisms");
        let mechanisms: Vec<SaslMechanism> =
            mechanisms.iter().filter_map(|name| name.parse().ok()).collect();
        let has_bearer = mechanisms.contains(&SaslMechanism::OauthBearer);
        let session_max = self.interval("connections.max.reauth.ms");
        Ok(SaslSettings {
            mechanisms,
            receive_max_bytes: self.size("sasl.server.max.receive.size"),
            session_max: Some(session_max).filter(|max| !max.is_zero()),
            failure_delay: self.interval("connection.failed.authentication.delay.ms"),
            bearer: has_bearer.then(|| self.bearer(listener)).transpose()?,
        })
    }

    fn bearer(&self, listener: &str) -> Result<BearerSettings, MetadataError> {
        let issuer = self.text("sasl.oauthbearer.expected.issuer");
        Ok(BearerSettings {
            key_set: self.key_set(listener)?,
            audiences: self.list("sasl.oauthbearer.expected.audience"),
            issuer: Some(issuer).filter(|issuer| !issuer.is_empty()),
            user_claim: self.text("sasl.oauthbearer.sub.claim.name"),
            scope_claim: self.text("sasl.oauthbearer.scope.claim.name"),
            clock_skew: self.seconds("sasl.oauthbearer.clock.skew.seconds"),
        })
    }

    fn key_set(&self, listener: &str) -> Result<KeySource, MetadataError> {
        const NAME: &str = "sasl.oauthbearer.jwks.endpoint.url";
        match KeySource::parse(&self.text(NAME)) {
            Some(KeySource::Server(server)) => Ok(KeySource::Server(KeyServer {
                refresh: self.interval("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
                retry_min: self.interval("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
                retry_max: self.interval("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
                truststore: self
                    .list("ssl.truststore.location")
                    .iter()
                    .map(PathBuf::from)
                    .collect(),
                ..server
            })),
            Some(file) => Ok(file),
            None => {
                let reason = "OAUTHBEARER needs the keys of who signs tokens, as https://HOST/PATH or file:///PATH";
                let (value, reason) = (listener.to_owned(), reason.to_owned());
                Err(MetadataError::InvalidSetting { name: NAME, value, reason })
            }
        }
    }
}
