//! The last changes of the cluster, as DescribeConfigs tells them of a resource of Logway's own.
//!
//! The name of the resource is the commit to begin with, or empty. Each change is an entry, the oldest first:
//!
//! | part | text |
//! |---|---|
//! | name | `INDEX.POSITION`: the commit, and the place among those of the commit |
//! | value | `MILLISECONDS KIND LINE`; `-` in the place of the milliseconds where the node was not there to see it |

use std::borrow::Cow;

use logway_metadata::event::EVENT_TEXT_MAX_BYTES;
use logway_metadata::settings::{ConfigEntry, ConfigSource};
use logway_model::ErrorCode;
use logway_node::events::{CLUSTER_EVENTS_MAX, ClusterEvents, SeenEvent};
use logway_node::failure::Failure;
use logway_quorum::MetadataIndex;

/// Everything but the line: numbers, a word, and what the wire says of an entry.
const FRAME_BYTES: usize = 128;

/// All of them take no more.
pub(super) const BYTES_MAX: usize = CLUSTER_EVENTS_MAX * (EVENT_TEXT_MAX_BYTES + FRAME_BYTES);

/// Of the type that Kafka calls `STRING`.
const STRING_TYPE: i8 = 2;

/// Those from a commit on. Fails with `INVALID_REQUEST` if the name is no commit.
pub(super) fn entries(events: &ClusterEvents, since: &str) -> Result<Vec<ConfigEntry>, Failure> {
    let index = match since {
        "" => 0,
        since => since.parse().map_err(|_| {
            let message =
                "changes of the cluster are asked for from a commit on, which is a number";
            Failure::new(ErrorCode::InvalidRequest, message)
        })?,
    };
    Ok(events.since(MetadataIndex(index)).into_iter().map(entry).collect())
}

fn entry(seen: SeenEvent) -> ConfigEntry {
    let SeenEvent { index, position, at, event } = seen;
    let at = at.map_or_else(|| "-".to_owned(), |at| at.0.to_string());
    ConfigEntry {
        name: format!("{index}.{position}").into(),
        value: Some(format!("{at} {} {}", event.kind.word(), event.text)),
        source: ConfigSource::DefaultConfig,
        read_only: true,
        sensitive: false,
        type_code: STRING_TYPE,
        documentation: Cow::Borrowed(""),
        synonyms: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_asked_for_from_a_number_on() {
        let events = ClusterEvents::default();
        assert_eq!(entries(&events, "").map(|all| all.len()).ok(), Some(0));
        assert_eq!(entries(&events, "17").map(|all| all.len()).ok(), Some(0));
        for wrong in ["x", "-1", "99999999999999999999"] {
            let refused = entries(&events, wrong).expect_err("is no commit");
            assert_eq!(refused.code, ErrorCode::InvalidRequest);
        }
    }
}
