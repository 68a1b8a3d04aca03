//! `logway token list`.

use clap::Args;

use super::Token;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// List the delegation tokens that you may see
///
/// These are your own, those that you asked for or may renew, and those that ACLs let you describe.
#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Only tokens that this user has to do with; can be given several times
    #[arg(long = "owner", value_name = "USER")]
    owners: Vec<String>,
    /// Show what programs log in with, too
    #[arg(long)]
    hmac: bool,
}

pub(super) async fn run(args: ListArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let owners = Some(&args.owners[..]).filter(|owners| !owners.is_empty());
    let tokens = global.client()?.describe_tokens(owners).await?.into_iter();
    let tokens: Vec<Token> = tokens.map(|token| Token::new(token, args.hmac)).collect();
    if global.format == Format::Json {
        return output::print_json(&tokens);
    }
    let columns = ["TOKEN", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "MAX", "HMAC"];
    let count = columns.len() - usize::from(!args.hmac);
    let mut table = Table::new(&columns[..count]);
    for token in tokens {
        let Token { token, hmac, owner, requester, renewers, issued, expires, max } = token;
        let cells = [token, owner, requester, renewers.join(","), issued, expires, max];
        table.row(cells.into_iter().chain(hmac));
    }
    output::print(&table.render())
}
