//! Where a record is in its topic.

use logway_model::{Offset, PartitionId};

use crate::event::Event;

/// Where a record is in its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) partition: PartitionId,
    pub(crate) offset: Offset,
}

impl Place {
    /// That of the record which an event was before it came here, by the headers that the source `kafka` sets.
    pub(crate) fn of(event: &Event) -> Option<Place> {
        let partition = PartitionId(event.headers.get("partition")?.parse().ok()?);
        Some(Place { partition, offset: Offset(event.headers.get("offset")?.parse().ok()?) })
    }
}
