//! `logway cluster token`: join tokens, by which nodes are admitted to a cluster whose nodes talk by TLS.

use clap::{Args, Subcommand};
use logway_client::{Client, ConfigChange, ConfigKind, ConfigResource};
use logway_metadata::join_token::{Digest, JoinToken};
use logway_metadata::record::NODE_LISTENER;
use logway_metadata::settings::broker::{JOIN_TOKENS_SETTING, NODE_AUTHORITY_SETTING};
use logway_model::TimestampMs;
use logway_security::join_token::IssuedJoinToken;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};
use crate::cli::timestamp;

/// A token is named by so much of its digest.
const ID_BYTES: usize = 4;

const MINUTE_MS: i64 = 60_000;

/// The commands.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TokenCommand {
    Create(CreateArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Create a join token, and print it, once
///
/// Who has it can add a node to the cluster: 'logway serve --secure --join-token TOKEN'. It says where the cluster is
/// and by which authority to know it. The cluster keeps a digest alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway cluster token create
  logway cluster token create --uses 2 --expires-in 10")]
pub(in crate::cli) struct CreateArgs {
    /// How many nodes can join by it
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    uses: u32,
    /// When it expires, in minutes from now
    #[arg(long, default_value_t = 60, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..=525_600))]
    expires_in: u32,
}

/// List the join tokens that can still be used
#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {}

/// Revoke a join token
///
/// Nodes that were admitted by it stay.
#[derive(Debug, Args)]
pub(in crate::cli) struct RevokeArgs {
    /// Its id, as 'logway cluster token list' has it
    id: String,
}

/// A join token.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    id: String,
    /// In milliseconds since 1970
    expires_at: i64,
    expired: bool,
    /// How many nodes can still join by it
    uses: u32,
    /// The token itself, if it was made just now
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// What became of a join token.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Revoked {
    id: String,
    /// `revoked`
    status: &'static str,
}

pub(super) async fn run(command: TokenCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        TokenCommand::Create(args) => create(args, global).await,
        TokenCommand::List(_args) => list(global).await,
        TokenCommand::Revoke(args) => revoke(&args.id, global).await,
    }
}

async fn create(args: CreateArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let authority = setting(&client, NODE_AUTHORITY_SETTING).await?;
    let authority = authority.and_then(|text| text.parse::<Digest>().ok()).ok_or_else(|| {
        CliError::Usage(
            "the nodes of this cluster do not talk by TLS: --join needs no token".to_owned(),
        )
        .with_hint("a cluster is secure if its first node was started with --secure")
    })?;
    let now = timestamp::now();
    for token in tokens(&client).await?.iter().filter(|token| has_expired(token, now)) {
        change(&client, ConfigChange::Subtract { name: name(), value: token.to_string() }).await?;
    }
    let quorum = client.describe_quorum().await?;
    let listeners = quorum.nodes.into_iter().flat_map(|node| node.listeners);
    let of_nodes = listeners.filter(|(name, _)| name == NODE_LISTENER);
    let addresses: Vec<String> = of_nodes.map(|(_, address)| address.to_string()).collect();
    let issued = IssuedJoinToken::new(authority, addresses)
        .map_err(|error| CliError::Other(error.into()))?;
    let kept = JoinToken {
        secret: issued.secret_digest(),
        expires_ms: now.0 + i64::from(args.expires_in) * MINUTE_MS,
        uses: args.uses,
    };
    change(&client, ConfigChange::Append { name: name(), value: kept.to_string() }).await?;
    let text = issued.to_text();
    if global.format == Format::Json {
        let row = Row { token: Some(text), ..row(&kept, now) };
        return output::print_json(&row);
    }
    let (uses, minutes) = (args.uses, args.expires_in);
    eprintln!("for {uses} nodes within {minutes} minutes; it is shown this once:");
    output::print(&format!("{text}\n"))
}

async fn list(global: &GlobalArgs) -> Result<(), CliError> {
    let (tokens, now) = (tokens(&global.client()?).await?, timestamp::now());
    let rows: Vec<Row> = tokens.iter().map(|token| row(token, now)).collect();
    if global.format == Format::Json {
        return output::print_json(&rows);
    }
    let mut table = Table::new(&["ID", "EXPIRES", "USES"]);
    for row in rows {
        let expires = timestamp::format(TimestampMs(row.expires_at));
        let expires = if row.expired { format!("{expires} (expired)") } else { expires };
        table.row([row.id, expires, row.uses.to_string()]);
    }
    output::print(&table.render())
}

async fn revoke(id: &str, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let tokens = tokens(&client).await?;
    let Some(token) = tokens.iter().find(|token| id_of(token) == id) else {
        return Err(CliError::Usage(format!("there is no join token '{id}'"))
            .with_hint("'logway cluster token list' shows all that can be used"));
    };
    change(&client, ConfigChange::Subtract { name: name(), value: token.to_string() }).await?;
    eprintln!("revoked join token '{id}'");
    match global.format {
        Format::Json => output::print_json(&Revoked { id: id.to_owned(), status: "revoked" }),
        Format::Text => Ok(()),
    }
}

fn row(token: &JoinToken, now: TimestampMs) -> Row {
    let JoinToken { expires_ms: expires_at, uses, .. } = *token;
    let expired = has_expired(token, now);
    Row { id: id_of(token), expires_at, expired, uses, token: None }
}

fn has_expired(token: &JoinToken, now: TimestampMs) -> bool {
    token.expires_ms <= now.0
}

fn id_of(token: &JoinToken) -> String {
    token.secret.0[..ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn name() -> String {
    JOIN_TOKENS_SETTING.to_owned()
}

fn all_brokers() -> ConfigResource {
    ConfigResource { kind: ConfigKind::Broker, name: String::new() }
}

async fn change(client: &Client, change: ConfigChange) -> Result<(), CliError> {
    Ok(client.alter_configs(&all_brokers(), &[change], false).await?)
}

async fn tokens(client: &Client) -> Result<Vec<JoinToken>, CliError> {
    let text = setting(client, JOIN_TOKENS_SETTING).await?.unwrap_or_default();
    Ok(JoinToken::parse_list(&text))
}

async fn setting(client: &Client, name: &str) -> Result<Option<String>, CliError> {
    let entries = client.describe_configs(&all_brokers()).await?;
    Ok(entries.into_iter().find(|entry| entry.name == name).and_then(|entry| entry.value))
}
