//! `logway token create`.

use clap::Args;
use logway_client::NewToken;

use super::Token;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};
use crate::cli::timestamp;

/// Create a delegation token
///
/// A program logs in with it by SCRAM for the user that owns it, until it expires: its user name is the token's id, its
/// password the HMAC, and the extension tokenauth is true. The HMAC is printed on stdout, the rest on stderr.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway token create --user alice --max-lifetime 12h --renewer scheduler
  logway token create --user admin --owner alice --format json")]
pub(in crate::cli) struct CreateArgs {
    /// The user that programs are, if not yourself; it takes the permission CreateTokens of that user
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    /// A user who may renew the token; can be given several times
    #[arg(long = "renewer", value_name = "USER")]
    renewers: Vec<String>,
    /// How long it can be renewed, e.g. 12h [default: as long as the broker allows]
    #[arg(long, value_name = "PERIOD", value_parser = timestamp::parse_period_ms)]
    max_lifetime: Option<i64>,
}

pub(super) async fn run(args: CreateArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let CreateArgs { owner, renewers, max_lifetime } = args;
    let new = NewToken { owner, renewers, lifetime_max_ms: max_lifetime };
    let token = Token::new(global.client()?.create_token(new).await?, true);
    let Token { token: id, owner, expires, max, .. } = &token;
    eprintln!(
        "created token '{id}' of user '{owner}'; it expires at {expires}, renewed at {max} at the latest"
    );
    match global.format {
        Format::Json => output::print_json(&token),
        Format::Text => output::print(&format!("{}\n", token.hmac.unwrap_or_default())),
    }
}
