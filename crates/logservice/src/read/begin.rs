//! Where a reader begins.

use logway_model::{ErrorCode, Offset, TimestampMs};
use logway_node::Failure;
use logway_node::streams::anywhere::Search;

use super::Place;
use crate::call::Call;
use crate::grpc::status::{Code, Status};
use crate::messages::log::ReadRequest;
use crate::messages::log::read_request::From;

/// Finds the first offset that is wanted, and where the partition ends now, if the stream is to end there. The leader is asked
/// for no more than that takes: what followers have can be read while nobody leads.
pub(super) async fn begin(
    call: &Call,
    place: &Place,
    request: &ReadRequest,
) -> Result<(Offset, Option<Offset>), Status> {
    let search = async |search| {
        let found = call.node().search_anywhere(place.partition, search).await;
        found.map_err(|failure| place.about(failure.into()))
    };
    let end = match request.until_end {
        true => Some(search(Search::End).await?),
        false => None,
    };
    let next = match request.from {
        Some(From::Offset(offset @ 0..)) => {
            let offset = Offset(offset);
            if end.is_some_and(|end| offset > end) {
                let failure = Failure::new(ErrorCode::OffsetOutOfRange, "beyond the end");
                return Err(out_of_range(call, place, offset, failure).await);
            }
            offset
        }
        Some(From::Offset(_)) => return Err(Status::invalid("offset is negative")),
        Some(From::TimeMs(time)) => search(Search::Time(TimestampMs(time))).await?,
        Some(From::End(true)) => match end {
            Some(end) => end,
            None => search(Search::End).await?,
        },
        Some(From::End(false)) | None => search(Search::Start).await?,
    };
    Ok((next, end))
}

/// A failure to read from an offset; one outside of the partition is told what is inside.
pub(crate) async fn out_of_range(
    call: &Call,
    place: &Place,
    offset: Offset,
    failure: Failure,
) -> Status {
    if failure.code != ErrorCode::OffsetOutOfRange {
        return place.about(failure.into()).with("offset", offset);
    }
    let search = async |search| call.node().search_anywhere(place.partition, search).await;
    let (start, end) = (search(Search::Start).await, search(Search::End).await);
    let (Ok(start), Ok(end)) = (start, end) else {
        return place.about(failure.into()).with("offset", offset);
    };
    let status = match offset < start {
        true => {
            let message = format!(
                "offset {offset} was deleted: partition begins at {start} and ends at {end}"
            );
            Status::new(Code::OutOfRange, "TRUNCATED", message)
                .remedy("begin at 'start', which loses what was deleted, or leave 'from' out")
        }
        false => {
            let message = format!(
                "offset {offset} does not exist yet: partition begins at {start} and ends at {end}"
            );
            Status::new(Code::OutOfRange, "BEYOND_END", message).remedy(
                "begin at 'end' or before it; the log may have lost its end, or is another one",
            )
        }
    };
    place.about(status).with("offset", offset).with("start", start).with("end", end)
}
