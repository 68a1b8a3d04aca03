//! Messages of the wire protocol, in their frames.

#[path = "../../wire/tests/all_messages/mod.rs"]
#[macro_use]
mod all_messages;
#[path = "../../wire/tests/survival/mod.rs"]
mod survival;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use logway_wire::messages::*;
use logway_wire::{
    ApiKey, DecodeError, Decoder, decode_request_header, decode_response_header,
    request_header_version, response_header_version,
};
use survival::{DECODED_BYTES_MAX, survive};

use crate::allocation::within;

type Survive = fn(&Bytes, i16) -> Result<(), DecodeError>;

static SURVIVALS: LazyLock<BTreeMap<&str, Survive>> = LazyLock::new(|| {
    macro_rules! collect {
        ($($name:ident)*) => {
            BTreeMap::from([$((stringify!($name), survive::<$name> as Survive)),*])
        };
    }
    with_all_messages!(collect)
});

/// A frame from a client.
pub fn request(bytes: &[u8]) {
    let frame = Bytes::copy_from_slice(bytes);
    let mut decoder = Decoder::new(frame.clone());
    let Ok((api_key, header)) = decode_request_header(&mut decoder) else { return };
    let version = header.request_api_version;
    let (header, body) = (frame.clone(), frame.slice(decoder.position_bytes()..));
    survive_as("RequestHeader", &header, request_header_version(api_key, version));
    survive_as(&format!("{api_key:?}Request"), &body, version);
}

/// A frame from a broker, as the answer to a request of the API and version in front.
pub fn response(bytes: &[u8]) {
    let Some((&[key_high, key_low, version_high, version_low], frame)) = bytes.split_first_chunk()
    else {
        return;
    };
    let version = i16::from_be_bytes([version_high, version_low]);
    let Some(api_key) = ApiKey::from_id(i16::from_be_bytes([key_high, key_low])) else { return };
    let frame = Bytes::copy_from_slice(frame);
    let mut decoder = Decoder::new(frame.clone());
    if decode_response_header(&mut decoder, api_key, version).is_err() {
        return;
    }
    survive_as("ResponseHeader", &frame, response_header_version(api_key, version));
    let body = frame.slice(decoder.position_bytes()..);
    survive_as(&format!("{api_key:?}Response"), &body, version);
}

/// Bytes as the message of that name.
pub(crate) fn survive_as(name: &str, bytes: &Bytes, version: i16) {
    let survive = SURVIVALS.get(name).expect("every API has its two messages");
    // The message, its bytes, and the message again; and a text that was no UTF-8 while it grows.
    let bytes_max = 4 * DECODED_BYTES_MAX + 16 * bytes.len();
    // Most bytes are no message, which is right.
    let _ = within(bytes_max, || survive(bytes, version));
}
