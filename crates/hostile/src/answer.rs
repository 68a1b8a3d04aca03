//! What a broker answers.

#[path = "../../wire/tests/all_messages/mod.rs"]
#[macro_use]
mod all_messages;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::LazyLock;

use bytes::Bytes;
use logway_wire::messages::*;
use logway_wire::{ApiKey, DecodeError, Decoder, Message, decode_response_header};

/// How error codes stand in a message's text.
const ERROR_CODE: &str = "error_code: ";

type ToText = fn(&mut Decoder, i16) -> Result<String, DecodeError>;

static TEXTS: LazyLock<BTreeMap<&str, ToText>> = LazyLock::new(|| {
    macro_rules! collect {
        ($($name:ident)*) => {
            BTreeMap::from([$((stringify!($name), text_of::<$name> as ToText)),*])
        };
    }
    with_all_messages!(collect)
});

fn text_of<M: Message + Debug>(decoder: &mut Decoder, version: i16) -> Result<String, DecodeError> {
    M::decode(decoder, version).map(|message| format!("{message:?}"))
}

/// The error codes in an answer, those of each topic and partition too; an answer without any has none.
///
/// # Errors
///
/// The frame is no answer to a request of that API and version.
pub(crate) fn error_codes(
    frame: &Bytes,
    api_key: ApiKey,
    version: i16,
) -> Result<Vec<i16>, DecodeError> {
    // A broker that does not know the version of ApiVersions answers in the first one (KIP-511).
    let is_known = api_key.versions().contains(version);
    let version = if is_known { version } else { 0 };
    let mut decoder = Decoder::new(frame.clone());
    decode_response_header(&mut decoder, api_key, version)?;
    let to_text = TEXTS.get(&*format!("{api_key:?}Response")).expect("every API has an answer");
    let text = to_text(&mut decoder, version)?;
    decoder.finish("answer")?;
    let codes = text.split(ERROR_CODE).skip(1).map(|rest| {
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '-');
        rest[..end.unwrap_or(rest.len())].parse().expect("an error code is a number")
    });
    Ok(codes.collect())
}
