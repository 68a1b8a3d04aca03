//! `logway user`: who has a password.

mod change;
mod list;

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Subcommand;
use logway_security::scram::made_up_password;

use super::GlobalArgs;
use super::error::CliError;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    Create(change::CreateArgs),
    List(list::ListArgs),
    Passwd(change::PasswdArgs),
    Delete(change::DeleteArgs),
}

/// Carries a command out.
pub(super) async fn run(command: UserCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        UserCommand::Create(args) => change::create(args, global).await,
        UserCommand::List(args) => list::run(args, global).await,
        UserCommand::Passwd(args) => change::passwd(args, global).await,
        UserCommand::Delete(args) => change::delete(args, global).await,
    }
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<Vec<list::Row>>("user list"),
        Shape::document::<change::Changed>("user create"),
        Shape::document::<change::Changed>("user passwd"),
        Shape::document::<change::Deleted>("user delete"),
    ]
}

/// A new password: a line of stdin where something else than a terminal is there, else one that is made up, which the
/// caller is told.
fn new_password() -> Result<(String, bool), CliError> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return made_up().map(|password| (password, true));
    }
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    read.map_err(|source| CliError::Io { what: "read the password".to_owned(), source })?;
    match line.trim_end_matches(['\r', '\n']) {
        "" => made_up().map(|password| (password, true)),
        password => Ok((password.to_owned(), false)),
    }
}

fn made_up() -> Result<String, CliError> {
    made_up_password().map_err(|error| CliError::Usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_are_made_up_differ() {
        let make = || made_up().expect("there are random numbers");
        assert_eq!(make().len(), 24);
        assert_ne!(make(), make());
    }
}
