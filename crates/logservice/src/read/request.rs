//! What a reader asks for, checked.

use std::sync::Arc;
use std::time::Duration;

use logway_node::memory::BudgetShare;
use logway_node::streams::anywhere::ReadSource;
use logway_node::tasks::off_thread;

use super::selection::Selection;
use crate::call::Call;
use crate::grpc::inbound::known_value;
use crate::grpc::status::{Code, Status};
use crate::messages::log::value_schema::Schema;
use crate::messages::log::{Format, ReadRequest, Source};

/// How old what another replica than the leader shows may be, where the client says nothing.
const STALENESS_MAX: Duration = Duration::from_secs(10);

/// What reading a schema may take, for each of its bytes: an object of JSON of eight bytes becomes one of 600.
const SCHEMA_FACTOR: usize = 80;

/// Selections that keep no more are not counted: with 4,000 streams they are no more than 64 MiB.
const UNCOUNTED_BYTES: usize = 16 << 10;

/// A request, with what was made of it.
pub(super) struct Checked {
    /// Without what the selection was made of.
    pub(super) request: ReadRequest,
    pub(super) format: Format,
    pub(super) source: ReadSource,
    /// None is one that leaves nothing out.
    pub(super) selection: Option<Arc<Selection>>,
    /// What the selection takes.
    pub(super) kept: Option<BudgetShare>,
}

/// Checks a request of somebody who may read.
pub(super) async fn checked(call: &Call, request: ReadRequest) -> Result<Checked, Status> {
    let format: Format = known_value("format", request.format)?;
    let source = checked_source(&request)?;
    if format == Format::Batches && request.records_max > 0 {
        let message = "batches are sent whole: no records_max with BATCHES";
        return Err(Status::invalid(message).remedy("use RECORDS, or bytes_max"));
    }
    if request.until_offset.is_some_and(|until| until < 0) {
        return Err(Status::invalid("until_offset is negative"));
    }
    let (request, selection) = selected(call, request).await?;
    let kept_bytes = selection.as_ref().map_or(0, |selection| selection.kept_bytes());
    let kept = match kept_bytes <= UNCOUNTED_BYTES {
        true => None,
        false => Some(call.service.selections.try_take(kept_bytes).ok_or_else(too_many)?),
    };
    Ok(Checked { request, format, source, selection, kept })
}

/// Makes the selection, and leaves of the request what is not needed for it.
async fn selected(
    call: &Call,
    mut request: ReadRequest,
) -> Result<(ReadRequest, Option<Arc<Selection>>), Status> {
    let is_whole = request.filter.is_none() && request.projection.is_empty();
    if is_whole && request.value_schema.is_none() {
        return Ok((request, None));
    }
    let schema = request.value_schema.as_ref().and_then(|it| it.schema.as_ref());
    let schema_bytes = schema.map_or(0, |schema| match schema {
        Schema::Avro(text) => text.len(),
        Schema::Protobuf(described) => described.files.len(),
    });
    let _building = match schema_bytes {
        0 => None,
        _ => Some(call.node().memory.building.take(SCHEMA_FACTOR * schema_bytes).await),
    };
    // A large schema and many keys take milliseconds.
    off_thread(move || {
        let selection = Selection::new(&request)?.map(Arc::new);
        (request.filter, request.value_schema) = (None, None);
        request.projection = Vec::new();
        Ok((request, selection))
    })
    .await
}

fn too_many() -> Status {
    let message = "readers here have too many large filters and schemas";
    Status::new(Code::ResourceExhausted, "TOO_MANY_FILTERS", message)
        .remedy("use a smaller filter or schema, ask another node, or try again")
}

/// From which replica a client reads.
fn checked_source(request: &ReadRequest) -> Result<ReadSource, Status> {
    let staleness_max = match request.staleness_max_ms {
        0 => STALENESS_MAX,
        ms => Duration::from_millis(ms.into()),
    };
    let rack = request.rack.clone();
    match known_value("source", request.source)? {
        Source::Nearest if rack.is_empty() => {
            Err(Status::invalid("source NEAREST needs the rack of the reader"))
        }
        Source::Nearest => Ok(ReadSource::Nearest { rack, staleness_max }),
        _ if !rack.is_empty() => Err(Status::invalid("rack is for source NEAREST alone")),
        Source::Follower => Ok(ReadSource::Follower { staleness_max }),
        Source::Leader | Source::Unspecified => Ok(ReadSource::Leader),
    }
}
