//! `logway token`: what programs log in with for users.

mod change;
mod create;
mod list;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use logway_client::DescribedToken;
use schemars::JsonSchema;
use serde::Serialize;

use super::GlobalArgs;
use super::error::CliError;
use super::shapes::Shape;
use super::timestamp;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    Create(create::CreateArgs),
    List(list::ListArgs),
    Renew(change::RenewArgs),
    Expire(change::ExpireArgs),
}

/// Carries a command out.
pub(super) async fn run(command: TokenCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        TokenCommand::Create(args) => create::run(args, global).await,
        TokenCommand::List(args) => list::run(args, global).await,
        TokenCommand::Renew(args) => change::renew(args, global).await,
        TokenCommand::Expire(args) => change::expire(args, global).await,
    }
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<Token>("token create"),
        Shape::document::<Vec<Token>>("token list"),
        Shape::document::<change::Changed>("token renew"),
        Shape::document::<change::Changed>("token expire"),
    ]
}

/// A delegation token.
#[derive(Debug, Serialize, JsonSchema)]
struct Token {
    token: String,
    /// The password of a program that logs in with the token; in `token list` only with `--hmac`
    #[serde(skip_serializing_if = "Option::is_none")]
    hmac: Option<String>,
    /// The user that programs are
    owner: String,
    /// The user who asked for it
    requester: String,
    /// Further users who may renew it
    renewers: Vec<String>,
    issued: String,
    /// When it expires, unless it is renewed
    expires: String,
    /// How far it can be renewed
    max: String,
}

impl Token {
    fn new(token: DescribedToken, shows_hmac: bool) -> Token {
        Token {
            hmac: shows_hmac.then(|| STANDARD.encode(&token.hmac)),
            token: token.id,
            owner: token.owner,
            requester: token.requester,
            renewers: token.renewers,
            issued: timestamp::format(token.issued),
            expires: timestamp::format(token.expires),
            max: timestamp::format(token.max),
        }
    }
}
