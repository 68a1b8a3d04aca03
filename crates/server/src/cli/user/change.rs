//! `logway user create`, `passwd` and `delete`.

use clap::Args;
use logway_client::Client;
use logway_metadata::sasl::ScramMechanism;
use schemars::JsonSchema;
use serde::Serialize;

use super::new_password;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// Create a user
///
/// The password is a line of stdin; without one it is made up and printed, once. It can be told by SCRAM-SHA-256,
/// SCRAM-SHA-512 and PLAIN. What the user may do, ACLs say.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway user create alice
  logway user create alice < password.txt")]
pub(in crate::cli) struct CreateArgs {
    /// Name of the user
    user: String,
}

/// Give a user another password
///
/// As of `logway user create`. Connections that are open go on until their sessions end.
#[derive(Debug, Args)]
pub(in crate::cli) struct PasswdArgs {
    /// Name of the user
    user: String,
}

/// Delete a user
///
/// What ACLs say of the user stays. Connections that are open go on until their sessions end.
#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// Name of the user
    user: String,
}

/// What became of a user.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Changed {
    user: String,
    /// `created` or `changed`
    status: &'static str,
    /// The password, if it was made up
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
}

/// What became of a user.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Deleted {
    user: String,
    /// `deleted`
    status: &'static str,
}

pub(super) async fn create(args: CreateArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    if mechanisms_of(&client, &args.user).await?.is_some() {
        let user = &args.user;
        return Err(CliError::Usage(format!("there is a user '{user}' already"))
            .with_hint("'logway user passwd' gives a user another password"));
    }
    set_password(&client, args.user, "created", global).await
}

pub(super) async fn passwd(args: PasswdArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    if mechanisms_of(&client, &args.user).await?.is_none() {
        return Err(no_user(&args.user));
    }
    set_password(&client, args.user, "changed", global).await
}

pub(super) async fn delete(args: DeleteArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let Some(mechanisms) = mechanisms_of(&client, &args.user).await? else {
        return Err(no_user(&args.user));
    };
    client.delete_password(&args.user, &mechanisms).await?;
    let deleted = Deleted { user: args.user, status: "deleted" };
    eprintln!("deleted user '{}'", deleted.user);
    if global.format == Format::Json { output::print_json(&deleted) } else { Ok(()) }
}

async fn mechanisms_of(
    client: &Client,
    user: &str,
) -> Result<Option<Vec<ScramMechanism>>, CliError> {
    let users = client.describe_users().await?;
    let found = users.into_iter().find(|known| known.name == user);
    Ok(found.map(|user| user.mechanisms.into_keys().collect()))
}

async fn set_password(
    client: &Client,
    user: String,
    status: &'static str,
    global: &GlobalArgs,
) -> Result<(), CliError> {
    let (password, is_made_up) = new_password()?;
    client.set_password(&user, &password, &ScramMechanism::ALL).await?;
    tell(Changed { user, status, password: is_made_up.then_some(password) }, global)
}

fn no_user(user: &str) -> CliError {
    CliError::Usage(format!("there is no user '{user}'"))
        .with_hint("'logway user list' shows all that have a password")
}

fn tell(changed: Changed, global: &GlobalArgs) -> Result<(), CliError> {
    eprintln!("{} user '{}'", changed.status, changed.user);
    match (global.format, &changed.password) {
        (Format::Json, _) => output::print_json(&changed),
        (Format::Text, Some(password)) => output::print(&format!("{password}\n")),
        (Format::Text, None) => Ok(()),
    }
}
