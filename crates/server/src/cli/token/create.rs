//! `logway token create`.

use clap::{Args, ValueEnum};
use logway_client::NewToken;
use serde::Serialize;

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
  logway token create --user admin --owner alice --format json
  logway token create --owner alice --aws env")]
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
    /// Print it as an access key for Kinesis clients: as variables, or for credential_process in ~/.aws/config
    #[arg(long, value_name = "HOW", value_enum)]
    aws: Option<AwsForm>,
}

/// How programs of AWS take an access key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum AwsForm {
    /// Variables, as a shell takes them
    Env,
    /// A document of JSON, which names the time after which a program asks again
    Process,
}

/// What `credential_process` of `~/.aws/config` prints (AWS, "Sourcing credentials with an external process").
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AwsCredentials<'a> {
    version: u32,
    access_key_id: &'a str,
    secret_access_key: &'a str,
    expiration: &'a str,
}

impl AwsForm {
    fn print(self, token: &Token) -> Result<(), CliError> {
        let secret = token.hmac.as_deref().unwrap_or_default();
        match self {
            AwsForm::Env => output::print(&format!(
                "export AWS_ACCESS_KEY_ID='{}'\nexport AWS_SECRET_ACCESS_KEY='{secret}'\n",
                token.token
            )),
            AwsForm::Process => output::print_json(&AwsCredentials {
                version: 1,
                access_key_id: &token.token,
                secret_access_key: secret,
                expiration: &token.expires,
            }),
        }
    }
}

pub(super) async fn run(args: CreateArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let CreateArgs { owner, renewers, max_lifetime, aws } = args;
    let new = NewToken { owner, renewers, lifetime_max_ms: max_lifetime };
    let token = Token::new(global.client()?.create_token(new).await?, true);
    let Token { token: id, owner, expires, max, .. } = &token;
    eprintln!(
        "created token '{id}' of user '{owner}'; it expires at {expires}, renewed at {max} at the latest"
    );
    if let Some(form) = aws {
        return form.print(&token);
    }
    match global.format {
        Format::Json => output::print_json(&token),
        Format::Text => output::print(&format!("{}\n", token.hmac.unwrap_or_default())),
    }
}
