//! The list of what can be requested.

use anyhow::{Context, bail, ensure};

use super::definition::Kind;
use super::emit_message::{api_name, header};
use super::jar::Artifact;
use super::schema::Message;
use super::versions::Versions;

/// `messages/api_key.rs`, before formatting.
pub fn emit_api_key(messages: &[Message]) -> anyhow::Result<String> {
    let mut apis = Vec::new();
    for message in messages.iter().filter(|message| message.kind == Kind::Request) {
        let id = message.api_key.with_context(|| format!("{} has no API key", message.name))?;
        let name = api_name(message).with_context(|| format!("{} is no request", message.name))?;
        apis.push((id, name, message));
    }
    apis.sort_by_key(|(id, ..)| *id);
    ensure!(apis.windows(2).all(|pair| pair[0].0 < pair[1].0), "two requests have one API key");
    let variants: String = apis
        .iter()
        .map(|(id, name, message)| format!("/// Versions {}.\n{name} = {id},\n", message.versions))
        .collect();
    let names: String = apis.iter().map(|(_, name, _)| format!("ApiKey::{name},\n")).collect();
    let facts = apis
        .iter()
        .map(|(_, name, message)| fact(name, message))
        .collect::<anyhow::Result<String>>()?;
    Ok(header("the request definitions", &[Artifact::Clients])
        + PROLOGUE
        + &format!("pub enum ApiKey {{\n{variants}}}\n\n")
        + &format!(
            "impl ApiKey {{\n/// Every API, by rising id.\npub const ALL: [ApiKey; {}] = [\n{names}];\n",
            apis.len()
        )
        + METHODS
        + &latest_is_unstable(&apis)
        + &format!("const fn facts(self) -> Facts {{\nmatch self {{\n{facts}}}\n}}\n}}\n\n")
        + EPILOGUE)
}

const PROLOGUE: &str = "\
//! The APIs of the protocol: what can be requested.

use crate::VersionRange;

/// A kind of listener, in Apache Kafka's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// One for clients and brokers.
    Broker,
    /// One for the metadata quorum.
    Controller,
}

/// What a request asks for; the number that its header begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
";

const METHODS: &str = "
/// The number on the wire.
pub const fn id(self) -> i16 {
    self as i16
}

/// The API of that number.
pub fn from_id(id: i16) -> Option<ApiKey> {
    let index = ApiKey::ALL.binary_search_by_key(&id, |api| api.id()).ok()?;
    Some(ApiKey::ALL[index])
}

/// Its name, such as `Produce`.
pub const fn name(self) -> &'static str {
    self.facts().name
}

/// The versions that the definitions know.
pub const fn versions(self) -> VersionRange {
    self.facts().versions
}

/// The oldest version that the definitions know.
pub const fn oldest(self) -> i16 {
    self.versions().min
}

/// The newest version that the definitions know, whether stable or not.
pub const fn latest(self) -> i16 {
    self.versions().max
}

/// The newest stable version; below [`ApiKey::oldest`] if none is.
pub const fn latest_stable(self) -> i16 {
    self.latest() - self.latest_is_unstable() as i16
}

/// The versions with compact lengths and tagged fields (KIP-482).
pub const fn flexible_versions(self) -> VersionRange {
    match self.facts().flexible_from {
        Some(min) => VersionRange::new(min, self.latest()),
        None => VersionRange::NONE,
    }
}

/// Whether that version is flexible; a version that does not exist counts as the nearest that does.
pub const fn is_flexible(self, version: i16) -> bool {
    matches!(self.facts().flexible_from, Some(min) if version >= min)
}

/// The kinds of listener that serve it in Apache Kafka.
pub const fn listeners(self) -> &'static [Listener] {
    self.facts().listeners
}

";

const EPILOGUE: &str = "\
const BROKER: &[Listener] = &[Listener::Broker];
const CONTROLLER: &[Listener] = &[Listener::Controller];
const BOTH: &[Listener] = &[Listener::Broker, Listener::Controller];

/// What the definition of a request says of its API.
struct Facts {
    name: &'static str,
    versions: VersionRange,
    flexible_from: Option<i16>,
    listeners: &'static [Listener],
}

const fn facts(
    name: &'static str,
    (min, max): (i16, i16),
    flexible_from: Option<i16>,
    listeners: &'static [Listener],
) -> Facts {
    Facts { name, versions: VersionRange::new(min, max), flexible_from, listeners }
}
";

/// One API: its number, its name, its request.
type Api<'a> = (i16, &'a str, &'a Message);

/// A match arm with what the definition says.
fn fact(name: &str, message: &Message) -> anyhow::Result<String> {
    let Versions { min, max } = message.versions;
    let flexible_from = (!message.flexible.is_empty()).then_some(message.flexible.min);
    let has = |name: &str| message.listeners.iter().any(|listener| listener == name);
    let listeners = match (has("broker"), has("controller")) {
        (true, false) => "BROKER",
        (false, true) => "CONTROLLER",
        (true, true) => "BOTH",
        (false, false) => bail!("{} has no listener", message.name),
    };
    Ok(format!(
        "ApiKey::{name} => facts({name:?}, ({min}, {max}), {flexible_from:?}, {listeners}),\n"
    ))
}

fn latest_is_unstable(apis: &[Api<'_>]) -> String {
    let unstable: Vec<_> = apis
        .iter()
        .filter(|(.., message)| message.latest_version_unstable)
        .map(|(_, name, _)| format!("ApiKey::{name}"))
        .collect();
    let value = match unstable.is_empty() {
        true => "false".to_owned(),
        false => format!("matches!(self, {})", unstable.join(" | ")),
    };
    format!(
        "/// Whether the newest version may still change, and so is not announced.\n\
         pub const fn latest_is_unstable(self) -> bool {{\n{value}\n}}\n\n"
    )
}
