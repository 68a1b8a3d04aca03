//! `logway topic describe`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use logway_client::{
    Client, ClientError, ConfigResource, ConfigSource, ListedOffset, MissingTopic, OffsetAt,
    TopicMetadata,
};
use logway_model::{BrokerId, TopicName, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;

use super::partitions_of;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::hint;
use crate::cli::output::{self, Format, Table};
use crate::cli::quantity;
use crate::cli::setting::{self, Setting};

/// Show topics: their partitions with offsets and replicas, and their settings
///
/// Without -p and -c it shows the partitions, and the settings that differ from the defaults. JSON
/// always holds everything. What cannot be found out is left out, or null in JSON, and stderr says why.
#[derive(Debug, Args)]
pub(in crate::cli) struct DescribeArgs {
    /// Names of the topics
    #[arg(required = true, value_name = "NAME")]
    names: Vec<TopicName>,
    /// Only the partitions
    #[arg(short, long)]
    partitions: bool,
    /// Only the settings, all of them
    #[arg(short, long)]
    configs: bool,
}

/// A topic.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Description {
    #[schemars(with = "String")]
    topic: TopicName,
    id: String,
    /// Whether the cluster keeps it for itself
    internal: bool,
    partitions: Vec<Partition>,
    configs: Vec<Setting>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Partition {
    partition: i32,
    /// `null` if it has none; then its offsets and its size are not known
    #[schemars(with = "Option<i32>")]
    leader: Option<BrokerId>,
    leader_epoch: i32,
    #[schemars(with = "Vec<i32>")]
    replicas: Vec<BrokerId>,
    /// Replicas in sync
    #[schemars(with = "Vec<i32>")]
    isr: Vec<BrokerId>,
    /// Replicas on disks that failed or brokers that are away
    #[schemars(with = "Vec<i32>")]
    offline: Vec<BrokerId>,
    /// `null` if it is not known; then stderr says why
    start_offset: Option<i64>,
    /// As `start_offset`
    end_offset: Option<i64>,
    /// On the leader's disk; `null` if the leader does not tell
    size_bytes: Option<u64>,
}

/// What could not be found out, and why.
#[derive(Debug, Default)]
struct Unknown {
    /// Failures of the command.
    errors: Vec<ClientError>,
    /// What is good to know but needs more rights than the rest.
    warnings: Vec<String>,
}

pub(super) async fn run(args: DescribeArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let names: BTreeSet<TopicName> = args.names.iter().cloned().collect();
    let mut descriptions = Vec::new();
    let mut unknown = Unknown::default();
    for name in &names {
        let found = client.find_topics(&BTreeSet::from([name.clone()]), MissingTopic::Refuse).await;
        match found {
            Ok(metadata) => {
                if let Some(topic) = metadata.topics.get(name) {
                    descriptions.push(describe(&client, name, topic, &mut unknown).await?);
                }
            }
            Err(error) => unknown.of_broker(error)?,
        }
    }
    match global.format {
        _ if descriptions.is_empty() => {}
        Format::Json => output::print_json(&descriptions)?,
        Format::Text => output::print(&text(&descriptions, &args))?,
    }
    unknown.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let leaderless: Vec<String> = descriptions.iter().flat_map(leaderless).collect();
    if !leaderless.is_empty() {
        eprintln!("warning: no broker leads {}", leaderless.join(" "));
        eprintln!("hint: {}", hint::LEADERLESS);
    }
    CliError::collect(unknown.errors)
}

impl Unknown {
    /// Takes note of what a broker refused.
    ///
    /// # Errors
    ///
    /// No broker can be asked: then nothing else can be found out, either.
    fn of_broker(&mut self, error: ClientError) -> Result<(), CliError> {
        match error {
            error @ ClientError::Refused { .. } => {
                self.errors.push(error);
                Ok(())
            }
            error => Err(error.into()),
        }
    }
}

fn leaderless(description: &Description) -> impl Iterator<Item = String> {
    let leaderless = description.partitions.iter().filter(|partition| partition.leader.is_none());
    leaderless.map(|partition| format!("{}-{}", description.topic, partition.partition))
}

async fn describe(
    client: &Client,
    name: &TopicName,
    topic: &TopicMetadata,
    unknown: &mut Unknown,
) -> Result<Description, CliError> {
    let led = topic.partitions.iter().filter(|partition| partition.leader.is_some());
    let led = partitions_of(name, led.map(|partition| partition.id));
    let starts = offsets(client, &led, OffsetAt::Start, unknown).await;
    // Those that do not tell have been waited for once.
    let ends = offsets(client, &starts.keys().cloned().collect(), OffsetAt::End, unknown).await;
    let sizes = sizes(client, topic, &led, unknown).await;
    let configs = match client.describe_configs(&ConfigResource::topic(name)).await {
        Ok(configs) => configs,
        Err(error) => {
            unknown.of_broker(error)?;
            Vec::new()
        }
    };
    let offset = |listed: &BTreeMap<TopicPartition, ListedOffset>, key: &TopicPartition| {
        listed.get(key).and_then(|listed| listed.offset).map(|offset| offset.0)
    };
    let partitions = topic.partitions.iter().map(|partition| {
        let key = TopicPartition::new(name.clone(), partition.id);
        Partition {
            partition: partition.id.0,
            leader: partition.leader,
            leader_epoch: partition.leader_epoch.0,
            replicas: partition.replicas.clone(),
            isr: partition.isr.clone(),
            offline: partition.offline.clone(),
            start_offset: offset(&starts, &key),
            end_offset: offset(&ends, &key),
            size_bytes: sizes.get(&key).copied(),
        }
    });
    Ok(Description {
        topic: name.clone(),
        id: topic.id.to_string(),
        internal: topic.is_internal,
        partitions: partitions.collect(),
        configs: Setting::sorted(configs),
    })
}

/// The offsets that can be found out.
async fn offsets(
    client: &Client,
    partitions: &BTreeSet<TopicPartition>,
    at: OffsetAt,
    unknown: &mut Unknown,
) -> BTreeMap<TopicPartition, ListedOffset> {
    let listed = client.list_known_offsets(partitions, at).await;
    unknown.errors.extend(listed.failed.into_values());
    listed.found
}

/// What the partitions take on their leaders' disks, as far as they tell.
async fn sizes(
    client: &Client,
    topic: &TopicMetadata,
    partitions: &BTreeSet<TopicPartition>,
    unknown: &mut Unknown,
) -> BTreeMap<TopicPartition, u64> {
    let mut sizes = BTreeMap::new();
    let leaders: BTreeSet<BrokerId> = topic.partitions.iter().filter_map(|p| p.leader).collect();
    for leader in leaders {
        let is_led = |partition: &&TopicPartition| {
            let metadata = topic.partitions.iter().find(|p| p.id == partition.partition);
            metadata.is_some_and(|metadata| metadata.leader == Some(leader))
        };
        let led: BTreeSet<TopicPartition> = partitions.iter().filter(is_led).cloned().collect();
        let dirs = client.describe_log_dirs(leader, &led).await;
        let mut reasons = Vec::new();
        for dir in dirs.unwrap_or_else(|error| vec![Err(error)]) {
            match dir {
                Ok(dir) => sizes.extend(dir.partitions),
                Err(reason) => reasons.push(reason.to_string()),
            }
        }
        let is_unknown = |partition: &&TopicPartition| !sizes.contains_key(*partition);
        let missing: Vec<String> = led.iter().filter(is_unknown).map(ToString::to_string).collect();
        if !missing.is_empty() {
            unknown.warnings.push(size_unknown(leader, &missing, &reasons));
        }
    }
    sizes
}

/// Says whose size is not known, and why.
fn size_unknown(leader: BrokerId, partitions: &[String], reasons: &[String]) -> String {
    let why = match reasons.is_empty() {
        true => format!("broker {leader} does not tell"),
        false => reasons.join("; "),
    };
    format!("the size of {} is not known: {why}", partitions.join(" "))
}

fn text(descriptions: &[Description], args: &DescribeArgs) -> String {
    let shows_both = args.partitions == args.configs;
    let mut sections = Vec::new();
    for description in descriptions {
        sections.push(summary(description).render());
        if args.partitions || shows_both {
            sections.push(partition_table(&description.partitions).render());
        }
        let is_shown = |config: &&Setting| args.configs || config.source == OWN_SETTING;
        let configs: Vec<&Setting> = description.configs.iter().filter(is_shown).collect();
        if (args.configs || shows_both) && !configs.is_empty() {
            sections.push(setting::table(configs).render());
        }
    }
    sections.join("\n")
}

/// The source of a setting that was made for the topic.
const OWN_SETTING: &str = ConfigSource::Topic.name();

fn summary(description: &Description) -> Table {
    let replicas = description.partitions.first().map_or(0, |partition| partition.replicas.len());
    let mut table = Table::without_names();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("NAME", description.topic.to_string());
    row("ID", description.id.clone());
    row("PARTITIONS", description.partitions.len().to_string());
    row("REPLICAS", replicas.to_string());
    if description.internal {
        row("INTERNAL", "yes".to_owned());
    }
    table
}

fn partition_table(partitions: &[Partition]) -> Table {
    let names = ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END", "SIZE"];
    let mut table = Table::new(&names);
    let number = |offset: Option<i64>| offset.map(|offset| offset.to_string()).unwrap_or_default();
    for partition in partitions {
        table.row([
            partition.partition.to_string(),
            partition.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string()),
            partition.leader_epoch.to_string(),
            output::list(&partition.replicas),
            output::list(&partition.isr),
            number(partition.start_offset),
            number(partition.end_offset),
            partition.size_bytes.map(quantity::bytes).unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        let config = |name: &str, value: &str, source| Setting {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            source,
            read_only: false,
            sensitive: false,
        };
        let partition = |id, leader: Option<i32>| Partition {
            partition: id,
            leader: leader.map(BrokerId),
            leader_epoch: 3,
            replicas: vec![BrokerId(1), BrokerId(2)],
            isr: vec![BrokerId(1)],
            offline: Vec::new(),
            start_offset: Some(0),
            end_offset: leader.map(|_| 42),
            size_bytes: leader.map(|_| 2048),
        };
        Description {
            topic: TopicName::new("orders").expect("a name"),
            id: "AAAAAAAAAAAAAAAAAAAAAQ".to_owned(),
            internal: false,
            partitions: vec![partition(0, Some(1)), partition(1, None)],
            configs: vec![
                config("flush.messages", "1", "default"),
                config("retention.ms", "1000", "topic"),
            ],
        }
    }

    fn args(partitions: bool, configs: bool) -> DescribeArgs {
        DescribeArgs { names: Vec::new(), partitions, configs }
    }

    #[test]
    fn the_text_shows_partitions_and_changed_settings() {
        let expected = "\
NAME        orders
ID          AAAAAAAAAAAAAAAAAAAAAQ
PARTITIONS  2
REPLICAS    2

PARTITION  LEADER  EPOCH  REPLICAS  ISR  START  END  SIZE
0          1       3      1,2       1    0      42   2.0 KiB
1          none    3      1,2       1    0      -    -

SETTING       VALUE  SOURCE
retention.ms  1000   topic
";
        assert_eq!(text(&[description()], &args(false, false)), expected);
    }

    #[test]
    fn sections_can_be_chosen() {
        let partitions = text(&[description()], &args(true, false));
        assert!(partitions.contains("LEADER") && !partitions.contains("SETTING"));
        let configs = text(&[description()], &args(false, true));
        assert!(!configs.contains("LEADER") && configs.contains("flush.messages"));
    }
}
