//! `logway consume --group`.

use std::collections::BTreeMap;
use std::io::Write;

use logway_client::{Client, FetchEvent, GroupConsumer, GroupEvent, GroupOptions};
use logway_model::{Offset, TopicPartition};

use super::printer::{self, Printer, Wanted};
use super::{ConsumeArgs, while_reading};
use crate::cli::ends::Ends;
use crate::cli::error::CliError;

/// Prints what falls to a member of a group, and leaves the group when the user has seen enough.
pub(super) async fn run(
    client: &Client,
    group: &str,
    args: &ConsumeArgs,
    printer: &mut Printer<impl Write>,
    ends: &mut Ends,
) -> Result<(), CliError> {
    let mut options = GroupOptions {
        start_at: args.offset.0,
        consumer: args.consumer_options(),
        ..GroupOptions::default()
    };
    if args.no_commit {
        options.commit_interval = None;
    }
    let topics = args.topics.iter().cloned().collect();
    let mut member = GroupConsumer::open(client, group, topics, options).await?;
    let printed = print_all(&mut member, group, printer, ends).await;
    // Also after an error, so that the other members need not wait for this one.
    let closed = member.close().await;
    printed.and(closed.map_err(CliError::from))
}

async fn print_all(
    member: &mut GroupConsumer,
    group: &str,
    printer: &mut Printer<impl Write>,
    ends: &mut Ends,
) -> Result<(), CliError> {
    loop {
        let event = tokio::select! {
            event = member.next() => event.map_err(while_reading)?,
            _ = ends.any() => return Ok(()),
        };
        match event {
            None => return Ok(()),
            Some(GroupEvent::Assigned(partitions)) => {
                let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
                match names.is_empty() {
                    true => eprintln!("group '{group}' has nothing to read for this member now"),
                    false => eprintln!("reading {} for group '{group}'", names.join(" ")),
                }
            }
            Some(GroupEvent::Revoked) => eprintln!("the members of group '{group}' have changed"),
            Some(GroupEvent::Lost) => eprintln!(
                "warning: group '{group}' took this member for dead; others may print again what \
                 was printed here last"
            ),
            Some(GroupEvent::Fetched(events)) => {
                let (done, wanted) = print(events, printer)?;
                for (partition, next) in done {
                    member.consumed(&partition, next);
                }
                if wanted == Wanted::Nothing {
                    return Ok(());
                }
            }
        }
    }
}

/// Prints records, and returns how far that has got when the reader can see them.
fn print(
    events: Vec<FetchEvent>,
    printer: &mut Printer<impl Write>,
) -> Result<(BTreeMap<TopicPartition, Offset>, Wanted), CliError> {
    let mut done = BTreeMap::new();
    let mut wanted = Wanted::More;
    for event in events {
        match event {
            FetchEvent::Skipped { partition, from, to } => printer::warn(&partition, from, to),
            FetchEvent::Recreated { partition, to, .. } => {
                printer::warn_of_other_topic(&partition, to);
            }
            FetchEvent::Records(records) => {
                let printed = printer.print_batches(&records)?;
                done.insert(records.partition().clone(), printed.next);
                wanted = printed.wanted;
            }
        }
        if wanted == Wanted::Nothing {
            break;
        }
    }
    printer.flush()?;
    Ok((done, wanted))
}
