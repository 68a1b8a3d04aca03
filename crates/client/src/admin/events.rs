//! The last changes of a cluster of Logway's.

use logway_model::{BrokerId, ErrorCode, TimestampMs};
use logway_wire::WireString;
use logway_wire::messages::DescribeConfigsRequest;
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;

use crate::error::check;
use crate::{Client, ClientError};

/// The type of resource by which brokers of Logway's tell them; Kafka has none.
const CLUSTER_EVENTS: i8 = 100;

/// A change of the cluster, as one of its nodes has seen it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterChange {
    /// The commit that it is a part of: all nodes have the same.
    pub index: u64,
    /// Its place among those of the commit.
    pub position: u32,
    /// When the node has seen it; `None` if the node was started after that.
    pub at: Option<TimestampMs>,
    /// What kind of change it is, as a word.
    pub kind: String,
    /// What has changed, for people.
    pub text: String,
}

impl Client {
    /// What a node has seen of a commit and of later ones, the oldest first.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::InvalidRequest`] from brokers that keep no such list. As for other calls, if the node does not answer.
    pub async fn cluster_changes(
        &self,
        node: BrokerId,
        since: u64,
    ) -> Result<Vec<ClusterChange>, ClientError> {
        let described = DescribeConfigsResource {
            resource_type: CLUSTER_EVENTS,
            resource_name: WireString::copy_of(&since.to_string()),
            ..DescribeConfigsResource::default()
        };
        let request = DescribeConfigsRequest { resources: vec![described], ..Default::default() };
        let response = self.broker(node).await?.call(&request).await?;
        let mut changes = Vec::new();
        for result in &response.results {
            let what = || "list changes of the cluster".to_owned();
            check(what, result.error_code, result.error_message.as_ref())?;
            let entries = result.configs.iter();
            changes.extend(entries.filter_map(|it| change(&it.name, it.value.as_ref()?)));
        }
        Ok(changes)
    }
}

/// Whether brokers do not know what was asked for.
pub fn knows_no_changes(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::InvalidRequest)
}

/// `INDEX.POSITION` and `MILLISECONDS KIND LINE`; of a later version perhaps something else, which is passed over.
fn change(name: &str, value: &str) -> Option<ClusterChange> {
    let (index, position) = name.split_once('.')?;
    let (at, rest) = value.split_once(' ')?;
    let (kind, text) = rest.split_once(' ')?;
    let at = match at {
        "-" => None,
        at => Some(TimestampMs(at.parse().ok()?)),
    };
    let (index, position) = (index.parse().ok()?, position.parse().ok()?);
    Some(ClusterChange { index, position, at, kind: kind.to_owned(), text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_and_what_is_none_is_passed_over() {
        let read = change("17.2", "1700 node_serves node 3 serves").expect("is one");
        assert_eq!((read.index, read.position, read.at), (17, 2, Some(TimestampMs(1_700))));
        assert_eq!((&*read.kind, &*read.text), ("node_serves", "node 3 serves"));
        assert_eq!(change("17.2", "- node_serves node 3 serves").and_then(|it| it.at), None);
        for (name, value) in [("17", "1 a b"), ("a.0", "1 a b"), ("1.0", "x a b"), ("1.0", "1 a")] {
            assert_eq!(change(name, value), None, "{name} {value}");
        }
    }
}
