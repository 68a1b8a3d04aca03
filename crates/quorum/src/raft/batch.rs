//! The records of one commit.
//!
//! An entry of the log has them in one of two forms:
//!
//! - a list of records, as long as the cluster's `metadata` level is 0: one node, which judges each
//!   command against what it has committed;
//! - `{"base":N,"records":[…],"commands":[…]}` from level 1 on. The records were judged against the image
//!   that entry N has made, and are applied to that image only. A leader that was deposed and
//!   elected again, or that lost its majority for a while, may find other entries in between. Then
//!   all nodes pass over the batch, and the leader judges its commands once more.

use std::fmt;

use logway_metadata::MetadataRecord;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::command_id::CommittedCommand;

/// The records of one commit; applied together or not at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Batch {
    /// The entry that made the image against which the records were judged. `None` in a cluster of one.
    pub(crate) base: Option<u64>,
    pub(crate) records: Vec<MetadataRecord>,
    /// The commands that the records follow from; none where `base` is.
    pub(crate) commands: Vec<CommittedCommand>,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Applied {
    /// It is in the image.
    Done,
    /// The image was not the one that it was judged against: it has no effect.
    Overtaken,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Based<R, C> {
    base: u64,
    records: R,
    commands: C,
}

impl Serialize for Batch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.base {
            None => self.records.serialize(serializer),
            Some(base) => {
                let (records, commands) = (&self.records, &self.commands);
                Based { base, records, commands }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Batch, D::Error> {
        deserializer.deserialize_any(BatchVisitor)
    }
}

/// Tells the forms apart, so that an error is about the record and not about the form.
struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Batch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records, or records with their base")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Batch, A::Error> {
        let mut records = Vec::new();
        while let Some(record) = list.next_element()? {
            records.push(record);
        }
        Ok(Batch { records, ..Batch::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Batch, A::Error> {
        let Based { base, records, commands } =
            Based::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Batch { base: Some(base), records, commands })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_an_error_names_the_record() {
        let old = r#"[{"producer_ids/0":{"next":5}}]"#;
        let batch: Batch = serde_json::from_str(old).expect("is one");
        assert_eq!((batch.base, batch.records.len()), (None, 1));
        assert_eq!(serde_json::to_string(&batch).expect("is text"), old);
        let new = r#"{"base":7,"records":[],"commands":[{"id":[1,2],"reply":"{}"}]}"#;
        let batch: Batch = serde_json::from_str(new).expect("is one");
        assert_eq!((batch.base, batch.commands.len()), (Some(7), 1));
        assert_eq!(serde_json::to_string(&batch).expect("is text"), new);
        for unknown in [
            r#"[{"producer_ids/9":{"next":5}}]"#,
            r#"{"base":7,"records":[{"producer_ids/9":{"next":5}}],"commands":[]}"#,
        ] {
            let error = serde_json::from_str::<Batch>(unknown).expect_err("is not known");
            assert!(error.to_string().contains("unknown variant `producer_ids/9`"), "{error}");
        }
        serde_json::from_str::<Batch>(r#"{"base":7,"records":[],"commands":[],"more":1}"#)
            .expect_err("a field that is not known");
    }
}
