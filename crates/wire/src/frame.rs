//! Headers, and the frames that carry a header and a message.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | size of the rest, big-endian |
//! | … | request or response header |
//! | … | the message |

use crate::messages::{RequestHeader, ResponseHeader};
use crate::{
    ApiKey, DecodeError, DecodeErrorKind, Decoder, EncodeError, Encoded, Encoder, Message, Request,
    Response, WireString,
};

/// The version of the request header in front of a request: 2, with tagged fields, if the request is flexible.
pub fn request_header_version(api_key: ApiKey, version: i16) -> i16 {
    if api_key.is_flexible(version) { 2 } else { 1 }
}

/// The version of the response header in front of a response: 1, with tagged fields, if the response is flexible.
///
/// An ApiVersions response always has version 0, because a client that asks does not yet know what the broker
/// speaks (KIP-511).
pub fn response_header_version(api_key: ApiKey, version: i16) -> i16 {
    if api_key != ApiKey::ApiVersions && api_key.is_flexible(version) { 1 } else { 0 }
}

/// Reads the header of a request frame (the size in front already taken off), leaving the decoder at the request.
///
/// The API key and version come first in every version of the header, so they say which version it has. A version
/// that the API does not have is no error here, so that a broker can answer it: the header is read as if the version
/// were the nearest that exists.
///
/// # Errors
/// The API key is unknown, or the header is malformed.
pub fn decode_request_header(
    decoder: &mut Decoder,
) -> Result<(ApiKey, RequestHeader), DecodeError> {
    let mut start = decoder.clone();
    let id = start.i16("RequestHeader.request_api_key")?;
    let version = start.i16("RequestHeader.request_api_version")?;
    let Some(api_key) = ApiKey::from_id(id) else {
        return Err(
            decoder.error("RequestHeader.request_api_key", DecodeErrorKind::UnknownApiKey(id))
        );
    };
    let header_version = request_header_version(api_key, version);
    Ok((api_key, RequestHeader::decode(decoder, header_version)?))
}

/// Reads the header of a response frame (the size in front already taken off), leaving the decoder at the response.
///
/// # Errors
/// The header is malformed.
pub fn decode_response_header(
    decoder: &mut Decoder,
    api_key: ApiKey,
    version: i16,
) -> Result<ResponseHeader, DecodeError> {
    ResponseHeader::decode(decoder, response_header_version(api_key, version))
}

/// A whole request frame, its size in front.
///
/// # Errors
/// The request cannot be written at that version.
pub fn encode_request<R: Request>(
    correlation_id: i32,
    client_id: Option<&WireString>,
    version: i16,
    request: &R,
) -> Result<Encoded, EncodeError> {
    let header = RequestHeader {
        request_api_key: R::API_KEY.id(),
        request_api_version: version,
        correlation_id,
        client_id: client_id.cloned(),
        ..RequestHeader::default()
    };
    let mut encoder = begin_frame(&header, request_header_version(R::API_KEY, version))?;
    request.encode(&mut encoder, version)?;
    finish_frame(encoder)
}

/// A whole response frame, its size in front; the size counts the holes.
///
/// # Errors
/// The response cannot be written at that version.
pub fn encode_response<R: Response>(
    correlation_id: i32,
    version: i16,
    response: &R,
) -> Result<Encoded, EncodeError> {
    let mut encoder = begin_response::<R>(correlation_id, version)?;
    response.encode(&mut encoder, version)?;
    finish_frame(encoder)
}

/// The beginning of a response frame, up to the response: the size is set when the frame is finished.
pub(crate) fn begin_response<R: Response>(
    correlation_id: i32,
    version: i16,
) -> Result<Encoder, EncodeError> {
    let header = ResponseHeader { correlation_id, ..ResponseHeader::default() };
    begin_frame(&header, response_header_version(R::API_KEY, version))
}

fn begin_frame(header: &impl Message, header_version: i16) -> Result<Encoder, EncodeError> {
    let mut encoder = Encoder::with_capacity(256);
    encoder.i32(0);
    header.encode(&mut encoder, header_version)?;
    Ok(encoder)
}

/// Sets the size of a frame, of which all is written.
pub(crate) fn finish_frame(mut encoder: Encoder) -> Result<Encoded, EncodeError> {
    let length = encoder.total_bytes() - 4;
    let size =
        i32::try_from(length).map_err(|_| EncodeError::TooLong { field: "frame", length })?;
    encoder.patch_i32(0, size);
    Ok(encoder.finish())
}
