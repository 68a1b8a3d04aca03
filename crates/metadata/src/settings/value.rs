//! The value of a setting.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use super::client_metrics::parse_match;
use super::definition::{JOIN_TOKENS_MAX, Kind};
use crate::join_token::JoinToken;
use crate::record::Endpoint;

/// The listener of addresses that have no name in front of them.
pub const UNNAMED_LISTENER: &str = "PLAINTEXT";

/// A checked value.
///
/// Its [`Display`](fmt::Display) is the canonical text, which parses to the same value again.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of a boolean setting.
    Boolean(bool),
    /// Of a 32-bit setting.
    Int(i32),
    /// Of a 64-bit setting.
    Long(i64),
    /// Of a floating-point setting.
    Double(f64),
    /// Of a setting that is a word or an address.
    Text(String),
    /// Of a setting that is a list.
    List(Vec<String>),
}

impl Value {
    /// Reads a value as Kafka does: spaces around it and around a list's items do not count, a
    /// number may have a sign. The error is what a value has to be.
    pub(super) fn parse(kind: &Kind, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let not_allowed = || format!("it must be {}", kind.allowed());
        let value = match *kind {
            Kind::Boolean if text.eq_ignore_ascii_case("true") => Some(Value::Boolean(true)),
            Kind::Boolean if text.eq_ignore_ascii_case("false") => Some(Value::Boolean(false)),
            Kind::Boolean => None,
            Kind::Int { min, max, special } => text
                .parse()
                .ok()
                .filter(|number| (min..=max).contains(number) || special == Some(*number))
                .map(Value::Int),
            Kind::Long { min, max } => {
                text.parse().ok().filter(|number| (min..=max).contains(number)).map(Value::Long)
            }
            Kind::Double { min, max } => {
                text.parse().ok().filter(|number| (min..=max).contains(number)).map(Value::Double)
            }
            Kind::Word(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::Address => parse_address(text).map(|address| Value::Text(address.to_string())),
            Kind::Listeners => named_addresses(text, |_| true),
            Kind::Reachable => named_addresses(text, is_reachable).filter(have_names_of_their_own),
            Kind::Text | Kind::Password if text.len() > LIST_MAX_BYTES => {
                return Err(format!("it must be no longer than {LIST_MAX_BYTES} bytes"));
            }
            // What is said of each protocol is checked with the listeners.
            Kind::Text | Kind::Password | Kind::Protocols => Some(Value::Text(text.to_owned())),
            Kind::Words(words) => {
                checked_list(text, |item| words.contains(&item).then(|| item.to_owned()))
            }
            Kind::Texts | Kind::ClientMatches | Kind::AddressLimits
                if text.len() > LIST_MAX_BYTES =>
            {
                return Err(format!("it must be no longer than {LIST_MAX_BYTES} bytes"));
            }
            Kind::AddressLimits => address_limits(text).map(|_| Value::Text(text.to_owned())),
            Kind::Texts => checked_list(text, |item| Some(item.to_owned())),
            Kind::ClientMatches => return parse_matches(text),
            Kind::LogLevels => {
                checked_list(text, |item| is_log_level(item).then(|| item.to_owned()))
                    .filter(|list| list.items().len() <= LOG_LEVELS_MAX)
            }
            Kind::ThrottledReplicas if text == "*" => Some(Value::List(vec!["*".to_owned()])),
            Kind::ThrottledReplicas => {
                checked_list(text, |item| is_replica(item).then(|| item.to_owned()))
            }
            Kind::Paths => checked_list(text, |item| is_path(item).then(|| item.to_owned()))
                .filter(|list| are_distinct_paths(list.items())),
            Kind::JoinTokens => checked_list(text, |item| {
                item.parse().ok().map(|token: JoinToken| token.to_string())
            })
            .filter(|list| list.items().len() <= JOIN_TOKENS_MAX),
            Kind::Addresses => {
                let to_text = |item: &str| Some(parse_address(item)?.to_string());
                checked_list(text, to_text).filter(|list| *list != Value::List(Vec::new()))
            }
        };
        value.ok_or_else(not_allowed)
    }

    /// The items of a list, as APPEND and SUBTRACT see them; none where there is no list.
    pub fn items(&self) -> &[String] {
        match self {
            Value::List(items) => items,
            _ => &[],
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(value) => value.fmt(f),
            Value::Int(value) => value.fmt(f),
            Value::Long(value) => value.fmt(f),
            Value::Double(value) => write!(f, "{value:?}"),
            Value::Text(value) => value.fmt(f),
            Value::List(items) => f.write_str(&items.join(",")),
        }
    }
}

/// The longest list of texts that somebody chose freely.
const LIST_MAX_BYTES: usize = 16 << 10;

/// How much a log tells, from nothing to everything.
pub(super) const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How many parts of the program may have a level of their own.
const LOG_LEVELS_MAX: usize = 64;

/// The longest name that a host can have.
const HOST_MAX_BYTES: usize = 255;

/// The patterns of a list, which must be valid.
fn parse_matches(text: &str) -> Result<Value, String> {
    let list = checked_list(text, |item| Some(item.to_owned())).unwrap_or(Value::List(Vec::new()));
    for item in list.items() {
        parse_match(item)?;
    }
    Ok(list)
}

/// The items of a list; an empty text is an empty list.
fn checked_list(text: &str, check: impl Fn(&str) -> Option<String>) -> Option<Value> {
    if text.is_empty() {
        return Some(Value::List(Vec::new()));
    }
    text.split(',').map(|item| check(item.trim())).collect::<Option<_>>().map(Value::List)
}

/// Whether a text can be a path, and a line of a file that lists paths.
fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_control)
}

/// Whether there are paths, and none comes twice.
fn are_distinct_paths(paths: &[String]) -> bool {
    let mut seen = BTreeSet::new();
    !paths.is_empty() && paths.iter().all(|path| seen.insert(Path::new(path)))
}

/// Whether a text is `level`, or `part=level` with a part as `crate::module`.
fn is_log_level(text: &str) -> bool {
    let (part, level) = text.split_once('=').unwrap_or(("root", text));
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    !part.is_empty() && part.bytes().all(is_legal) && LOG_LEVELS.contains(&level)
}

/// Reads `address:number, …`, as of `max.connections.per.ip.overrides`. Kafka takes names of hosts, too.
pub fn address_limits(text: &str) -> Option<Vec<(IpAddr, usize)>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let limit = |item: &str| {
        let (address, number) = item.trim().rsplit_once(':')?;
        let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
        Some((address.to_canonical(), usize::try_from(number.parse::<i32>().ok()?).ok()?))
    };
    text.split(',').map(limit).collect()
}

/// Whether a text is `partition:broker`.
fn is_replica(text: &str) -> bool {
    let is_number =
        |part: &str| part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<i32>().is_ok();
    text.split_once(':')
        .is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
}

/// Reads `host:port`; Kafka's form with the protocol in front is taken too, if the protocol is the
/// one there is. No host stands for every address of the machine, as in Kafka.
pub(super) fn parse_address(text: &str) -> Option<Endpoint> {
    let address = match text.split_once("://") {
        Some((protocol, address)) if protocol.eq_ignore_ascii_case("plaintext") => address,
        Some(_) => return None,
        None => text,
    };
    let Endpoint { host, port } = address.parse().ok()?;
    let host = if host.is_empty() { "0.0.0.0".to_owned() } else { host };
    let is_legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'%');
    let is_host = host.len() <= HOST_MAX_BYTES && host.bytes().all(is_legal);
    is_host.then_some(Endpoint { host, port })
}

/// An address with the name of its listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedAddress {
    /// In capitals.
    pub(super) name: String,
    pub(super) endpoint: Endpoint,
}

/// The longest name of a listener.
const LISTENER_NAME_MAX_BYTES: usize = 64;

/// Reads `NAME://host:port`, or `host:port`, which is of the listener without a name.
pub(super) fn parse_named_address(text: &str) -> Option<NamedAddress> {
    let (name, address) = text.split_once("://").unwrap_or((UNNAMED_LISTENER, text));
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_name = !name.is_empty() && name.len() <= LISTENER_NAME_MAX_BYTES;
    if !is_name || !name.bytes().all(is_legal) || address.contains("://") {
        return None;
    }
    Some(NamedAddress { name: name.to_ascii_uppercase(), endpoint: parse_address(address)? })
}

/// The items of a list of addresses, with the names that they were given.
fn named_addresses(text: &str, is_allowed: impl Fn(&Endpoint) -> bool) -> Option<Value> {
    let to_text = |item: &str| {
        let NamedAddress { name, endpoint } = parse_named_address(item)?;
        is_allowed(&endpoint).then(|| match item.contains("://") {
            true => format!("{name}://{endpoint}"),
            false => endpoint.to_string(),
        })
    };
    checked_list(text, to_text).filter(|list| !list.items().is_empty())
}

fn have_names_of_their_own(list: &Value) -> bool {
    let names = list.items().iter().filter_map(|item| parse_named_address(item));
    let mut seen = BTreeSet::new();
    names.map(|address| address.name).all(|name| seen.insert(name))
}

/// Whether clients can connect to an address as it stands.
fn is_reachable(address: &Endpoint) -> bool {
    address.port != 0 && !matches!(address.host.as_str(), "0.0.0.0" | "::")
}
