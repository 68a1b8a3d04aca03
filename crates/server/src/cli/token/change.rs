//! `logway token renew` and `expire`.

use clap::Args;
use logway_client::{Client, DescribedToken};
use logway_model::TimestampMs;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};
use crate::cli::timestamp;

/// Let a delegation token live on
///
/// Its owner and its renewers may. Nobody renews one that has expired.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  logway token renew vD4kQbMfT5mAx0jp3sYb1w --for 6h")]
pub(in crate::cli) struct RenewArgs {
    /// Id of the token
    token: String,
    /// For how long from now on, e.g. 6h [default: as long as the broker allows]
    #[arg(long = "for", value_name = "PERIOD", value_parser = timestamp::parse_period_ms)]
    period: Option<i64>,
}

/// End a delegation token
///
/// Its owner and its renewers may. Nobody logs in with it any more; sessions that are open last until the time when it
/// would have expired.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExpireArgs {
    /// Id of the token
    token: String,
    /// In how long, e.g. 10m [default: at once]
    #[arg(long = "in", value_name = "PERIOD", value_parser = timestamp::parse_period_ms)]
    period: Option<i64>,
}

/// What became of a token.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Changed {
    token: String,
    /// When it expires now
    expires: String,
}

pub(super) async fn renew(args: RenewArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let token = find(&client, &args.token).await?;
    let expires = client.renew_token(&token, args.period).await?;
    tell("renewed", token, expires, global)
}

pub(super) async fn expire(args: ExpireArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let token = find(&client, &args.token).await?;
    let expires = client.expire_token(&token, args.period).await?;
    tell("ended", token, expires, global)
}

/// Brokers know a token by its HMAC, which is nothing to write on a command line. Who may change a token may see it.
async fn find(client: &Client, id: &str) -> Result<DescribedToken, CliError> {
    let tokens = client.describe_tokens(None).await?;
    tokens.into_iter().find(|token| token.id == id).ok_or_else(|| {
        CliError::Usage(format!("you see no token '{id}'"))
            .with_hint("'logway token list' shows the tokens that you may see")
    })
}

fn tell(
    done: &str,
    token: DescribedToken,
    expires: TimestampMs,
    global: &GlobalArgs,
) -> Result<(), CliError> {
    let changed = Changed { token: token.id, expires: timestamp::format(expires) };
    eprintln!("{done} token '{}'; it expires at {}", changed.token, changed.expires);
    if global.format == Format::Json { output::print_json(&changed) } else { Ok(()) }
}
