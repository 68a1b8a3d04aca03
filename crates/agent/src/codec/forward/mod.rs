//! Fluentd's forward protocol: messages in MessagePack, each a list.
//!
//! | mode | message |
//! |---|---|
//! | message | `[tag, time, record, option?]` |
//! | forward | `[tag, [[time, record], …], option?]` |
//! | packed forward | `[tag, entries, option?]`: entries one after the other, as bytes |
//! | compressed packed forward | the same in gzip's form, with `compressed: "gzip"` among its options |
//!
//! A time is an extension of type 0 (seconds and nanoseconds in four bytes each) or a number of seconds. Fluent Bit
//! may have metadata beside it: `[[time, metadata], record]`. With the option `chunk` a message wants to be acknowledged
//! by `{"ack": chunk}`.
//!
//! Source: "Fluentd Forward Protocol Specification (v1.5)".

mod gate;

use serde_json::Value;

pub(crate) use self::gate::{Gate, Greeting};
use super::budget::Share;
use super::deflated::{NotUnpacked, gunzip};
use super::msgpack::{Token, Tokens, put_map, put_text};
use super::{Malformed, Unread};
use crate::event::{Event, Headers};

/// What an event has beside its texts, about.
const EVENT_BYTES: usize = 256;

/// A message.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) events: Vec<Event>,
    /// What it is to be acknowledged by.
    pub(crate) chunk: Option<String>,
}

/// How records become events.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    /// The field that is the body; the others are headers then.
    pub(crate) message_key: Option<String>,
    /// The most that entries may be when they are unpacked.
    pub(crate) unpacked_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Options {
    chunk: Option<String>,
    is_gzip: bool,
}

impl Form {
    /// The events of a message; what they take is charged. A value that is nil keeps a connection alive.
    pub(crate) fn read(&self, message: &[u8], share: &mut Share) -> Result<Message, Unread> {
        let mut tokens = Tokens(message);
        let length = match tokens.next()? {
            Token::Nil => return Ok(Message::default()),
            Token::Array(length @ 2..=4) => length,
            _ => return Err(Malformed::new("a message is no list of two to four values").into()),
        };
        let tag = text(&mut tokens, "a tag")?;
        let mut events = Vec::new();
        let ahead = tokens.clone().next()?;
        let has_options = |entries: u32| length > entries;
        let options = match ahead {
            Token::Array(count) => {
                tokens.next()?;
                for _ in 0..count {
                    self.entry(&tag, &mut tokens, &mut events, share)?;
                }
                options(&mut tokens, has_options(2))?
            }
            Token::Text(packed) | Token::Binary(packed) => {
                tokens.next()?;
                let options = options(&mut tokens, has_options(2))?;
                let unpacked = options.is_gzip.then(|| self.unpack(packed, share)).transpose()?;
                let mut entries = Tokens(unpacked.as_deref().unwrap_or(packed));
                while !entries.0.is_empty() {
                    self.entry(&tag, &mut entries, &mut events, share)?;
                }
                options
            }
            _ if length == 2 => return Err(Malformed::new("a message has no record").into()),
            _ => {
                let time_ns = time(&mut tokens)?;
                events.push(self.event(&tag, time_ns, &mut tokens, share)?);
                options(&mut tokens, has_options(3))?
            }
        };
        Ok(Message { events, chunk: options.chunk })
    }

    fn entry(
        &self,
        tag: &str,
        tokens: &mut Tokens<'_>,
        events: &mut Vec<Event>,
        share: &mut Share,
    ) -> Result<(), Unread> {
        if tokens.next()? != Token::Array(2) {
            return Err(Malformed::new("an entry is no list of a time and a record").into());
        }
        let time_ns = match tokens.clone().next()? {
            Token::Array(2) => {
                tokens.next()?;
                let time_ns = time(tokens)?;
                tokens.skip()?;
                time_ns
            }
            _ => time(tokens)?,
        };
        events.push(self.event(tag, time_ns, tokens, share)?);
        Ok(())
    }

    fn event(
        &self,
        tag: &str,
        time_ns: u64,
        tokens: &mut Tokens<'_>,
        share: &mut Share,
    ) -> Result<Event, Unread> {
        share.grow(EVENT_BYTES + tag.len())?;
        let Token::Map(count) = tokens.clone().next()? else {
            return Err(Malformed::new("a record is no map").into());
        };
        let mut headers = vec![
            ("tag".into(), tag.into()),
            ("timestamp".into(), (time_ns / 1_000_000).to_string().into_boxed_str()),
            ("forward.timeNs".into(), time_ns.to_string().into_boxed_str()),
        ];
        let Some(key) = &self.message_key else {
            let body = tokens.json(share)?.to_string();
            share.grow(body.len())?;
            return Ok(Event { headers: Headers::from_pairs(headers), body: body.into() });
        };
        tokens.next()?;
        let mut body = Vec::new();
        for _ in 0..count {
            let name = text(tokens, "a field's name")?;
            share.grow(EVENT_BYTES)?;
            if name == *key {
                body = match tokens.clone().next()? {
                    Token::Text(bytes) | Token::Binary(bytes) => {
                        tokens.skip()?;
                        bytes.to_vec()
                    }
                    _ => tokens.json(share)?.to_string().into_bytes(),
                };
                share.grow(body.len())?;
                continue;
            }
            let value = match tokens.json(share)? {
                Value::String(text) => text,
                other => other.to_string(),
            };
            headers.push((name.into_boxed_str(), value.into_boxed_str()));
        }
        Ok(Event { headers: Headers::from_pairs(headers), body: body.into() })
    }

    fn unpack(&self, packed: &[u8], share: &mut Share) -> Result<Vec<u8>, Unread> {
        gunzip(packed, self.unpacked_bytes_max, share).map_err(|error| match error {
            NotUnpacked::Exhausted(why) => why.into(),
            other => Malformed(format!("entries are {other}")).into(),
        })
    }
}

fn text(tokens: &mut Tokens<'_>, what: &str) -> Result<String, Malformed> {
    match tokens.next()? {
        Token::Text(bytes) | Token::Binary(bytes) => {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
        _ => Err(Malformed(format!("{what} is no text"))),
    }
}

/// In nanoseconds since 1970.
fn time(tokens: &mut Tokens<'_>) -> Result<u64, Malformed> {
    const NS: u64 = 1_000_000_000;
    Ok(match tokens.next()? {
        Token::Extension(0, &[a, b, c, d, e, f, g, h]) => {
            let seconds = u32::from_be_bytes([a, b, c, d]);
            u64::from(seconds) * NS + u64::from(u32::from_be_bytes([e, f, g, h]))
        }
        Token::Uint(seconds) => seconds.saturating_mul(NS),
        Token::Int(_) => 0,
        Token::Float(seconds) => (seconds * 1e9) as u64,
        _ => return Err(Malformed::new("a time is none")),
    })
}

fn options(tokens: &mut Tokens<'_>, is_there: bool) -> Result<Options, Malformed> {
    let mut options = Options::default();
    if !is_there {
        return Ok(options);
    }
    let count = match tokens.next()? {
        Token::Map(count) => count,
        Token::Nil => 0,
        _ => return Err(Malformed::new("options are no map")),
    };
    for _ in 0..count {
        match text(tokens, "an option's name")?.as_str() {
            "chunk" => options.chunk = Some(text(tokens, "chunk")?),
            "compressed" => match text(tokens, "compressed")?.as_str() {
                "gzip" => options.is_gzip = true,
                "text" => {}
                other => {
                    return Err(Malformed(format!(
                        "entries are compressed by '{other}'; gzip is known"
                    )));
                }
            },
            _ => tokens.skip()?,
        }
    }
    Ok(options)
}

/// `{"ack": chunk}`.
pub(crate) fn acknowledgement(chunk: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_map(&mut out, 1);
    put_text(&mut out, "ack");
    put_text(&mut out, chunk);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::budget::Budget;
    use crate::codec::deflated::gzip;
    use crate::codec::msgpack::put_binary;

    /// 1441588984.000000005 s, as an extension.
    const TIME: &[u8] = b"\xd7\x00\x55\xec\xe6\xf8\x00\x00\x00\x05";

    fn read(parts: &[&[u8]], key: Option<&str>) -> Result<Message, Unread> {
        let form = Form { message_key: key.map(str::to_owned), unpacked_bytes_max: 1 << 16 };
        form.read(&parts.concat(), &mut Budget::new(1 << 20).share())
    }

    #[test]
    fn all_modes_say_the_same() {
        let record = &b"\x82\xa7message\xa3foo\xa1n\x07"[..];
        let entry = [&b"\x92"[..], TIME, record].concat();
        let two = [&entry[..], &entry[..]].concat();
        let packed = |bytes: &[u8]| {
            let mut out = Vec::new();
            put_binary(&mut out, bytes);
            out
        };
        let gzipped = [gzip(&entry), gzip(&entry)].concat();
        for (name, message, count) in [
            ("message", [&b"\x94\xa1t"[..], TIME, record, b"\x81\xa5chunk\xa2id"].concat(), 1),
            ("forward", [&b"\x93\xa1t\x92"[..], &two[..], b"\x81\xa5chunk\xa2id"].concat(), 2),
            (
                "packed",
                [&b"\x93\xa1t"[..], &packed(&two)[..], b"\x82\xa4size\x02\xa5chunk\xa2id"].concat(),
                2,
            ),
            (
                "compressed",
                [
                    &b"\x93\xa1t"[..],
                    &packed(&gzipped)[..],
                    b"\x82\xaacompressed\xa4gzip\xa5chunk\xa2id",
                ]
                .concat(),
                2,
            ),
        ] {
            let read_whole =
                read(&[&message], None).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(read_whole.chunk.as_deref(), Some("id"), "{name}");
            assert_eq!(read_whole.events.len(), count, "{name}");
            for event in read_whole.events {
                assert_eq!(event.body, &br#"{"message":"foo","n":7}"#[..], "{name}");
                let headers: Vec<(&str, &str)> = event.headers.iter().collect();
                let expected = [
                    ("tag", "t"),
                    ("timestamp", "1441588984000"),
                    ("forward.timeNs", "1441588984000000005"),
                ];
                assert_eq!(headers, expected, "{name}");
            }
            let keyed = read(&[&message], Some("message")).expect("is one");
            assert_eq!(keyed.events[0].body, &b"foo"[..]);
            assert_eq!(keyed.events[0].headers.get("n"), Some("7"));
            for cut in 0..message.len() {
                assert!(read(&[&message[..cut]], None).is_err(), "{name} {cut}");
            }
        }
        let with_metadata =
            read(&[b"\x92\xa1t\x91\x92\x92", TIME, b"\x80", record], None).expect("is one");
        assert_eq!(with_metadata.events[0].headers.get("timestamp"), Some("1441588984000"));
        assert!(read(&[b"\xc0"], None).expect("keeps alive").events.is_empty());
        let bomb = [
            &b"\x93\xa1t"[..],
            &packed(&gzip(&vec![0xc0; 1 << 20]))[..],
            b"\x81\xaacompressed\xa4gzip",
        ]
        .concat();
        assert!(
            read(&[&bomb], None).is_err_and(|error| error.to_string().contains("maxMessageBytes"))
        );
    }
}
