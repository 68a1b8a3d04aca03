//! Shards, as ListShards tells them.

use logway_kinesis::client::KinesisClient;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::ask;
use super::text;
use crate::cli::error::CliError;

/// A shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Shard {
    pub(super) shard: String,
    /// `open` or `closed`
    pub(super) state: String,
    /// The first hash key; they have 128 bits, and are texts
    pub(super) start: String,
    /// The last hash key
    pub(super) end: String,
    /// The shards that it was made of
    pub(super) parents: Vec<String>,
}

impl Shard {
    fn of(value: &Value) -> Shard {
        let range = &value["HashKeyRange"];
        let parents = ["ParentShardId", "AdjacentParentShardId"];
        let is_closed = value["SequenceNumberRange"].get("EndingSequenceNumber").is_some();
        Shard {
            shard: text(value, "ShardId"),
            state: if is_closed { "closed" } else { "open" }.to_owned(),
            start: text(range, "StartingHashKey"),
            end: text(range, "EndingHashKey"),
            parents: parents
                .iter()
                .filter_map(|name| Some(value.get(*name)?.as_str()?.to_owned()))
                .collect(),
        }
    }

    /// Whether records can be put into it.
    pub(super) fn is_open(&self) -> bool {
        self.state == "open"
    }

    /// Its hash keys, both inclusive.
    pub(super) fn range(&self) -> Result<(u128, u128), CliError> {
        match (self.start.parse(), self.end.parse()) {
            (Ok(start), Ok(end)) => Ok((start, end)),
            _ => Err(CliError::Input(format!("{} has no range of hash keys", self.shard))),
        }
    }
}

/// All shards of a stream.
pub(super) async fn shards(client: &KinesisClient, stream: &str) -> Result<Vec<Shard>, CliError> {
    let mut shards = Vec::new();
    let mut input = json!({ "StreamName": stream });
    loop {
        let page = ask(client, "ListShards", input).await?;
        let found = page["Shards"].as_array().map_or(&[][..], Vec::as_slice);
        shards.extend(found.iter().map(Shard::of));
        match page.get("NextToken") {
            Some(token) => input = json!({ "NextToken": token }),
            None => return Ok(shards),
        }
    }
}
