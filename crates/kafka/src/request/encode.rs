//! From the bytes of a request to its fields, and from the fields of a response to bytes.

use logway_log::FileRange;
use logway_wire::{ApiKey, Decoder, Encoded, Request, Response, encode_response};

use super::context::RequestContext;
use super::error::{RequestError, encode_error};
use super::reply::{EncodedReply, FileSpan};

/// A larger one is charged what it can turn into at most: this many times its size.
const DENSE_FACTOR: usize = 16;

/// The most that a request may turn into.
const DECODED_BYTES_MAX: usize = 32 << 20;

/// From here on a request without records can take many milliseconds to decode and to answer.
pub(crate) const DENSE_BYTES_MIN: usize = 64 * 1024;

/// The memory that the decoded form of a request of `body_bytes` may take, apart from its frame. Names
/// and records stay in the frame; what counts here is the structs around them.
pub(crate) fn decoded_bytes_max(body_bytes: usize) -> usize {
    (body_bytes * DENSE_FACTOR).clamp(DENSE_BYTES_MIN * DENSE_FACTOR, DECODED_BYTES_MAX)
}

/// Decodes the body of a request.
pub(crate) fn decode_request<R: Request>(
    context: &RequestContext,
    mut body: Decoder,
) -> Result<R, RequestError> {
    let version = context.version;
    R::decode(&mut body, version).map_err(|source| RequestError::Decode {
        api: R::API_KEY.name(),
        version,
        source,
    })
}

/// Encodes an answer, with its length and header. `files` are what the response's external
/// records stand for, by token. It says so if the client has used more than its quota.
pub(crate) fn encode_reply<M: Response>(
    context: &RequestContext,
    response: M,
    files: Vec<Vec<FileRange>>,
) -> Result<EncodedReply, RequestError> {
    let encode = |response: &M| encode(context, response);
    let encoded = match &context.charge {
        None => encode(&response)?,
        Some(charge) => {
            let file_bytes: u64 = files.iter().flatten().map(|range| range.len_bytes).sum();
            let settle = |bytes: u64| charge.settle(M::API_KEY, bytes + file_bytes);
            encode_charged(response, encode, settle)?
        }
    };
    let mut files: Vec<Option<Vec<FileRange>>> = files.into_iter().map(Some).collect();
    let mut spans = Vec::new();
    for hole in encoded.holes {
        let ranges = files.get_mut(hole.token).and_then(Option::take);
        let ranges = ranges.expect("each token stands for ranges, and is used once");
        let after_bytes = hole.position_bytes;
        spans.extend(ranges.into_iter().map(|range| FileSpan { after_bytes, range }));
    }
    Ok(EncodedReply { bytes: encoded.bytes, files: spans, held: None })
}

/// Encodes an answer that says how long to wait for what it costs.
fn encode_charged<M: Response>(
    mut response: M,
    encode: impl Fn(&M) -> Result<Encoded, RequestError>,
    settle: impl FnOnce(u64) -> i32,
) -> Result<Encoded, RequestError> {
    // What a Fetch costs goes by its size. It is encoded twice if its client has to wait, but its records are not in
    // it; others can be large, and are encoded when that is known.
    let sized = match M::API_KEY {
        ApiKey::Fetch => Some(encode(&response)?),
        _ => None,
    };
    let throttle_time_ms = settle(sized.as_ref().map_or(0, |sized| sized.bytes.len() as u64));
    match sized {
        Some(sized) if throttle_time_ms == 0 => Ok(sized),
        _ => {
            response.set_throttle_time_ms(throttle_time_ms);
            encode(&response)
        }
    }
}

fn encode<M: Response>(context: &RequestContext, response: &M) -> Result<Encoded, RequestError> {
    let version = context.version;
    encode_response(context.correlation_id, version, response)
        .map_err(encode_error(M::API_KEY, version))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use logway_wire::messages::{FetchResponse, FindCoordinatorRequest, ListGroupsResponse};
    use logway_wire::{Message, WireString, decode_request_header, encode_request};

    use super::*;

    const VERSION: i16 = 5;

    /// How often an answer is encoded whose client has to wait for so long; and the time that it tells.
    fn encoded_times<M: Response>(response: M, wait_ms: i32) -> (usize, Encoded) {
        let times = Cell::new(0);
        let encode = |response: &M| {
            times.set(times.get() + 1);
            encode_response(1, VERSION, response).map_err(|source| RequestError::Encode {
                api: "any",
                version: VERSION,
                source,
            })
        };
        let encoded = encode_charged(response, encode, |_| wait_ms).expect("encodes");
        (times.get(), encoded)
    }

    #[test]
    fn an_answer_that_can_be_large_is_encoded_once() {
        for wait_ms in [0, 1_000] {
            let (times, encoded) = encoded_times(ListGroupsResponse::default(), wait_ms);
            assert_eq!(times, 1);
            // Length, correlation id, tagged fields of the header; then the time.
            let mut body = Decoder::new(encoded.bytes.slice(9..));
            let told = ListGroupsResponse::decode(&mut body, VERSION).expect("is whole");
            assert_eq!(told.throttle_time_ms, wait_ms);
        }
        assert_eq!(encoded_times(FetchResponse::default(), 0).0, 1);
    }

    #[test]
    fn a_large_request_is_not_decoded_into_more_than_it_is_charged() {
        let keys = |count: usize, key: &'static str| {
            let request = FindCoordinatorRequest {
                coordinator_keys: vec![WireString::from_static(key); count],
                ..Default::default()
            };
            let frame = encode_request(1, None, 4, &request).expect("encodes").bytes.slice(4..);
            let mut body = Decoder::with_limit(frame.clone(), decoded_bytes_max(frame.len()));
            decode_request_header(&mut body).expect("is a header");
            FindCoordinatorRequest::decode(&mut body, 4)
                .map(|request| request.coordinator_keys.len())
        };
        assert_eq!(keys(10_000, "").ok(), Some(10_000), "a small one may be dense");
        assert_eq!(keys(1_000_000, "g").ok(), Some(1_000_000));
        assert!(keys(1_000_000, "").is_err(), "no memory was taken for that");
    }
}
