//! `logway group describe`.

mod group_lag;
mod partition_lag;
mod text;

use std::time::Duration;

use clap::Args;
use logway_client::Client;
use logway_model::ErrorCode;

pub(super) use self::group_lag::GroupLag;
use crate::cli::GlobalArgs;
use crate::cli::ends::{Ends, Second};
use crate::cli::error::CliError;
use crate::cli::live::Live;
use crate::cli::output::{self, Format};
use crate::cli::timestamp;

/// Show groups: who their members are, and how far they are behind in each partition
///
/// The lag is counted in records and in seconds: the age of the oldest record that the group has
/// not read. A group without members is shown as well.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway group describe billing
  logway group describe billing --members
  logway group describe billing --watch          anew every 2 seconds
  logway group describe billing --watch=0.5
  logway group describe billing --format json | jq '.[].lag_seconds'")]
pub(in crate::cli) struct DescribeArgs {
    /// Names of the groups
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
    /// In the place of partitions, show the members in detail: epochs and subscriptions of consumer groups, the tasks and the
    /// topology of a streams group
    #[arg(short, long)]
    members: bool,
    /// Show them again and again, in place on a terminal, else one below the other; with
    /// --format json, a line each time
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = parse_seconds
    )]
    watch: Option<Duration>,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let seconds: f64 = seconds.ok_or("expected a number of seconds from 0.1 to 3600")?;
    Ok(Duration::from_secs_f64(seconds))
}

pub(super) async fn run(args: DescribeArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    match args.watch {
        Some(pause) => watch(&client, &args, pause, global.format)
            .await
            .map_err(|error| with_hint_of_pause(error, &args.groups)),
        None => once(&client, &args, global.format).await,
    }
}

/// A number after `--watch` is the name of a group, unless there is `=` between the two. Seldom is
/// there such a group.
fn with_hint_of_pause(error: CliError, groups: &[String]) -> CliError {
    let is_unknown_group = matches!(&error, CliError::Client(error)
        if error.code() == Some(ErrorCode::GroupIdNotFound));
    match groups.iter().find(|group| is_unknown_group && parse_seconds(group).is_ok()) {
        Some(seconds) => error.with_hint(format!("for every {seconds} s write --watch={seconds}")),
        None => error,
    }
}

async fn once(client: &Client, args: &DescribeArgs, format: Format) -> Result<(), CliError> {
    let mut groups = Vec::new();
    let mut errors = Vec::new();
    for name in &args.groups {
        match GroupLag::find(client, name).await {
            Ok(group) => groups.push(group),
            Err(error) => errors.push(error),
        }
    }
    for warning in groups.iter().flat_map(|group| &group.warnings) {
        eprintln!("warning: {warning}");
    }
    match format {
        Format::Text => output::print(&text::render(&groups, args.members))?,
        Format::Json => output::print_json(&groups)?,
    }
    CliError::collect(errors)
}

/// Shows the groups until the user has seen enough, or for as long as they can be described.
async fn watch(
    client: &Client,
    args: &DescribeArgs,
    pause: Duration,
    format: Format,
) -> Result<(), CliError> {
    let mut ends = Ends::listen(Second::Exits)?;
    let mut live = Live::start()?;
    let showing = async {
        loop {
            live.show(&view(client, args, format).await?)?;
            tokio::time::sleep(pause).await;
        }
    };
    let outcome: Result<(), CliError> = tokio::select! {
        outcome = showing => outcome,
        _ = ends.any() => Ok(()),
    };
    live.finish()?;
    outcome
}

/// What is to be seen of the groups now. A broker that is away for a while does not end it.
async fn view(client: &Client, args: &DescribeArgs, format: Format) -> Result<String, CliError> {
    let mut groups = Vec::new();
    let mut talk = String::new();
    for name in &args.groups {
        match GroupLag::find(client, name).await {
            Ok(group) => groups.push(group),
            Err(error) if error.is_retriable() => talk += &format!("error: {error}\n"),
            Err(error) => return Err(error.into()),
        }
    }
    for warning in groups.iter().flat_map(|group| &group.warnings) {
        talk += &format!("warning: {warning}\n");
    }
    match format {
        Format::Text => {
            let now = timestamp::format(timestamp::now());
            Ok(format!("{now}\n{}{talk}\n", text::render(&groups, args.members)))
        }
        Format::Json => {
            eprint!("{talk}");
            output::json_line(&groups)
        }
    }
}

#[cfg(test)]
mod tests {
    use logway_client::ClientError;

    use super::*;

    #[test]
    fn a_pause_without_its_sign_is_explained() {
        let hinted = |groups: &[&str], error: CliError| {
            let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
            matches!(with_hint_of_pause(error, &groups), CliError::Hinted { hint, .. }
                if hint.ends_with("--watch=2"))
        };
        let no_group = || {
            let (what, code) = ("describe group '2'".to_owned(), ErrorCode::GroupIdNotFound);
            CliError::Client(ClientError::Refused { what, code, message: None })
        };
        assert!(hinted(&["billing", "2"], no_group()));
        assert!(!hinted(&["billing"], no_group()));
        // What else can go wrong has nothing to do with it.
        let broken_pipe = CliError::Output(std::io::ErrorKind::BrokenPipe.into());
        assert!(!hinted(&["2"], broken_pipe));
        let no_broker = ClientError::NoBroker { failures: Vec::new() };
        assert!(!hinted(&["2"], CliError::Client(no_broker)));
    }
}
