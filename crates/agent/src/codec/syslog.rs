//! Syslog (RFC 3164 and RFC 5424) as Flume's sources read it (Flume 1.11, `SyslogUtils`), with its headers.
//!
//! | header                 | what                                                                    |
//! |------------------------|-------------------------------------------------------------------------|
//! | `Facility`, `Severity` | the priority divided by 8, and the rest                                 |
//! | `priority`, `version`  | as they were sent                                                       |
//! | `timestamp`            | milliseconds since 1970                                                 |
//! | `host`                 | the name that the message has                                           |
//! | `flume.syslog.status`  | `Invalid` without a priority, `Incomplete` if longer than the bound     |

use std::sync::LazyLock;

use bytes::Bytes;
use regex_lite::{Captures, Regex};

use super::time::{parse_rfc3164, parse_rfc5424};
use crate::event::Event;

/// The header that says that a message is not whole.
pub(crate) const STATUS: &str = "flume.syslog.status";

/// A bound below which Flume does not go either.
pub(crate) const EVENT_BYTES_MIN: usize = 10;

/// Priority, version, time, host, rest.
static RFC_5424: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^<(\d{1,3})>(\d?)\s?(?:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:[+-]\d\d:\d\d|Z)?)|-)\s(?:(\w[\w.@-]*)|-)\s((?s:.)*)$";
    Regex::new(pattern).expect("is one")
});

static RFC_3164: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^<(\d{1,3})>(\d?)\s?([A-Z][a-z][a-z]\s{1,2}\d{1,2}\s\d\d:\d\d:\d\d)\s(\w[\w.@-]*)\s((?s:.)*)$";
    Regex::new(pattern).expect("is one")
});

/// What of the head stays in the body (`keepFields`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeptFields {
    all: bool,
    priority: bool,
    version: bool,
    timestamp: bool,
    hostname: bool,
}

impl KeptFields {
    /// Reads `none`, `all`, or names.
    pub(crate) fn parse(text: &str) -> KeptFields {
        let text = text.trim().to_lowercase();
        match text.as_str() {
            "none" | "false" => KeptFields::default(),
            "all" | "true" => KeptFields { all: true, ..KeptFields::default() },
            names => KeptFields {
                all: false,
                priority: names.contains("priority"),
                version: names.contains("version"),
                timestamp: names.contains("timestamp"),
                hostname: names.contains("hostname"),
            },
        }
    }
}

/// Cuts a stream into messages, one after each line feed, none longer than a bound.
#[derive(Debug)]
pub(crate) struct MessageReader {
    message: Vec<u8>,
    place: Place,
    priority: String,
    is_bad: bool,
    event_bytes_max: usize,
    kept: KeptFields,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Priority,
    Data,
}

impl MessageReader {
    pub(crate) fn new(event_bytes_max: usize, kept: KeptFields) -> MessageReader {
        MessageReader {
            message: Vec::new(),
            place: Place::Start,
            priority: String::new(),
            is_bad: false,
            event_bytes_max: event_bytes_max.max(EVENT_BYTES_MIN),
            kept,
        }
    }

    /// Takes bytes until a message is whole; what follows stays in `bytes`.
    pub(crate) fn next(&mut self, bytes: &mut &[u8], now_ms: i64) -> Option<Event> {
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            match self.place {
                Place::Start if byte == b'\n' => {}
                Place::Start => {
                    self.is_bad = byte != b'<';
                    self.place = if self.is_bad { Place::Data } else { Place::Priority };
                    self.message.push(byte);
                }
                Place::Priority => {
                    self.message.push(byte);
                    if byte == b'>' {
                        self.is_bad = self.priority.is_empty();
                        self.place = Place::Data;
                        continue;
                    }
                    self.priority.push(byte as char);
                    if !byte.is_ascii_digit() || self.priority.len() > 3 {
                        self.is_bad = true;
                        self.place = Place::Data;
                    }
                }
                Place::Data if byte == b'\n' => return Some(self.event(false, now_ms)),
                Place::Data => {
                    self.message.push(byte);
                    if self.message.len() == self.event_bytes_max {
                        return Some(self.event(true, now_ms));
                    }
                }
            }
        }
        None
    }

    /// What there is, as a message: a datagram ends without a line feed, and so does a connection.
    pub(crate) fn rest(&mut self, now_ms: i64) -> Option<Event> {
        if self.message.is_empty() {
            return None;
        }
        self.is_bad |= self.place != Place::Data;
        Some(self.event(false, now_ms))
    }

    fn event(&mut self, is_incomplete: bool, now_ms: i64) -> Event {
        let message = std::mem::take(&mut self.message);
        let priority = std::mem::take(&mut self.priority);
        let is_bad = std::mem::take(&mut self.is_bad);
        self.place = Place::Start;
        let priority = if is_bad { None } else { priority.parse::<u32>().ok() };
        parsed(message, priority, is_incomplete, self.kept, now_ms)
    }
}

/// The event of one message, whatever it is worth.
fn parsed(
    message: Vec<u8>,
    priority: Option<u32>,
    is_incomplete: bool,
    kept: KeptFields,
    now_ms: i64,
) -> Event {
    let mut event = Event::default();
    let number = priority.unwrap_or(0);
    event.headers.set("Facility", (number / 8).to_string());
    event.headers.set("Severity", (number % 8).to_string());
    let mut body = None;
    if priority.is_some() {
        let text = String::from_utf8_lossy(&message);
        let is_new = RFC_5424.captures(&text);
        let found = is_new.as_ref().map(|found| (found, parse_rfc5424 as fn(&str) -> Option<i64>));
        match found {
            Some((found, time)) => body = Some(fields(&mut event, found, kept, time)),
            None => {
                if let Some(found) = RFC_3164.captures(&text) {
                    body =
                        Some(fields(&mut event, &found, kept, |text| parse_rfc3164(text, now_ms)));
                }
            }
        }
    } else {
        event.headers.set(STATUS, "Invalid");
    }
    if is_incomplete && priority.is_some() {
        event.headers.set(STATUS, "Incomplete");
    }
    event.body = match body.filter(|body| !body.is_empty() && !kept.all) {
        Some(body) => Bytes::from(body),
        None => Bytes::from(message),
    };
    event
}

/// Sets the headers of a message that has a head, and gives its body.
fn fields(
    event: &mut Event,
    found: &Captures<'_>,
    kept: KeptFields,
    time: impl Fn(&str) -> Option<i64>,
) -> String {
    let group = |index| found.get(index).map_or("", |group| group.as_str());
    let (priority, version, stamp, host, rest) = (group(1), group(2), group(3), group(4), group(5));
    for (name, value) in [("priority", priority), ("version", version)] {
        if !value.is_empty() {
            event.headers.set(name, value);
        }
    }
    if let Some(at) = time(stamp) {
        event.headers.set("timestamp", at.to_string());
    }
    if !host.is_empty() {
        event.headers.set("host", host);
    }
    let mut body = String::new();
    if kept.priority {
        body += &format!("<{priority}>");
    }
    if kept.version && !version.is_empty() {
        body += &format!("{version} ");
    }
    // A field that is not there is `-` in RFC 5424.
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    if kept.timestamp {
        body += &format!("{} ", or_dash(stamp));
    }
    if kept.hostname {
        body += &format!("{} ", or_dash(host));
    }
    body + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str, kept: &str, event_bytes_max: usize) -> Vec<Event> {
        let mut reader = MessageReader::new(event_bytes_max, KeptFields::parse(kept));
        let mut bytes = text.as_bytes();
        let mut events = Vec::new();
        while let Some(event) = reader.next(&mut bytes, 0) {
            events.push(event);
        }
        events
    }

    fn one(text: &str, kept: &str) -> Event {
        let mut events = all(text, kept, 2500);
        assert_eq!(events.len(), 1, "{text}");
        events.remove(0)
    }

    /// The vectors of Flume's `TestSyslogUtils`: message, time, host.
    #[test]
    fn flumes_vectors_have_their_headers() {
        let host = Some("ubuntu-11.cloudera.com");
        for (head, time, host) in [
            ("<10>2012-04-13T11:11:11+08:00 ubuntu-11.cloudera.com", Some("1334286671000"), host),
            ("<10>1 2012-04-13T11:11:11 ubuntu-11.cloudera.com", Some("1334315471000"), host),
            ("<10>1 2012-04-13T11:11:11Z ubuntu-11.cloudera.com", Some("1334315471000"), host),
            ("<10>1 2012-04-13T11:11:11+08:00 ubuntu-11.cloudera.com", Some("1334286671000"), host),
            ("<10>1 - ubuntu-11.cloudera.com", None, host),
            ("<10>1 2012-04-13T11:11:11 -", Some("1334315471000"), None),
            ("<10>1 2012-04-13T11:11:11Z -", Some("1334315471000"), None),
            ("<10>1 2012-04-13T11:11:11+08:00 -", Some("1334286671000"), None),
            ("<10>1 2012-04-13T11:11:11.999 ubuntu-11.cloudera.com", Some("1334315471999"), host),
            ("<10>Jan  5 10:11:12 ubuntu-11.cloudera.com", Some("382272000"), host),
            (
                "<10>2014-10-03T17:20:01.123456-07:00 ubuntu-11.cloudera.com",
                Some("1412382001123"),
                host,
            ),
        ] {
            let event = one(&format!("{head} some msg\n"), "none");
            assert_eq!(event.headers.get("timestamp"), time, "{head}");
            assert_eq!(event.headers.get("host"), host, "{head}");
            assert_eq!(event.headers.get("Facility"), Some("1"), "{head}");
            assert_eq!(event.headers.get("Severity"), Some("2"), "{head}");
            assert_eq!(event.headers.get("priority"), Some("10"), "{head}");
            assert_eq!(event.headers.get(STATUS), None, "{head}");
            assert_eq!(event.body, "some msg", "{head}");
        }
    }

    #[test]
    fn what_is_bad_is_kept_with_its_status() {
        for text in [
            "<10F> bad bad data",
            "hi guys! <10> bad bad data",
            "<> bad bad data",
            "<123123123123123123123123123123> bad bad data",
        ] {
            let event = one(&format!("{text}\n"), "none");
            assert_eq!(event.headers.get("Facility"), Some("0"), "{text}");
            assert_eq!(event.headers.get(STATUS), Some("Invalid"), "{text}");
            assert_eq!(event.body, text);
        }
        let good = one("<10>Good good good data\n", "none");
        assert_eq!(
            (good.headers.get(STATUS), &good.body[..]),
            (None, &b"<10>Good good good data"[..])
        );
        let both = all("<10F> bad\n\n<11>good\n", "none", 2500);
        assert_eq!(both[0].headers.get(STATUS), Some("Invalid"));
        assert_eq!(both[1].headers.get("Severity"), Some("3"));
    }

    #[test]
    fn what_is_too_long_comes_in_parts() {
        let events = all("<10>Good good good data\n<10>x\n", "none", 10);
        assert_eq!(events[0].headers.get(STATUS), Some("Incomplete"));
        assert_eq!(events[0].body, "<10>Good g");
        assert_eq!(events[1].headers.get(STATUS), Some("Invalid"));
        assert_eq!(events.last().expect("is there").body, "<10>x");
    }

    #[test]
    fn fields_are_kept_as_told() {
        let text = "<10>1 2012-04-13T11:11:11Z host some msg\n";
        assert_eq!(one(text, "all").body, text.trim_end());
        assert_eq!(one(text, "timestamp hostname").body, "2012-04-13T11:11:11Z host some msg");
        assert_eq!(one(text, "priority version").body, "<10>1 some msg");
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_whatever_is_sent(bytes: Vec<u8>) {
            let mut reader = MessageReader::new(20, KeptFields::parse("all"));
            let mut rest = &bytes[..];
            let mut read = 0;
            while let Some(event) = reader.next(&mut rest, 0) {
                read += event.body.len();
            }
            read += reader.rest(0).map_or(0, |event| event.body.len());
            prop_assert!(read >= bytes.iter().filter(|byte| **byte != b'\n').count());
        }
    }
}
