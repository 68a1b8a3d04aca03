//! Syslog (RFC 3164 and RFC 5424) as Flume's sources read it (Flume 1.11, `SyslogUtils`), with its headers.
//!
//! | header                 | what                                                                    |
//! |------------------------|-------------------------------------------------------------------------|
//! | `Facility`, `Severity` | the priority divided by 8, and the rest                                 |
//! | `priority`, `version`  | as they were sent                                                       |
//! | `timestamp`            | milliseconds since 1970                                                 |
//! | `host`                 | the name that the message has                                           |
//! | `flume.syslog.status`  | `Invalid` without a priority, `Incomplete` if longer than the bound, or shorter than its length says |

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

/// Of how many digits the length before a message is at most.
const COUNT_DIGITS_MAX: usize = 7;

/// Cuts a stream into messages, none longer than a bound. A message ends with a line feed; or, if it has its length and a
/// blank before it, after so many bytes (RFC 6587, 3.4.1), as syslog-ng's driver `syslog` and rsyslog send it. Flume takes such
/// a length for a malformed message.
#[derive(Debug)]
pub(crate) struct MessageReader {
    message: Vec<u8>,
    place: Place,
    /// How much of a message with a length is still to come.
    left: Option<usize>,
    priority: String,
    is_bad: bool,
    event_bytes_max: usize,
    kept: KeptFields,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    /// In a length.
    Count,
    /// Behind a length and its blank.
    Counted,
    Priority,
    Data,
}

impl MessageReader {
    pub(crate) fn new(event_bytes_max: usize, kept: KeptFields) -> MessageReader {
        MessageReader {
            message: Vec::new(),
            place: Place::Start,
            left: None,
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
            let is_last = match &mut self.left {
                Some(left) => {
                    *left -= 1;
                    *left == 0
                }
                None => false,
            };
            let event = self.take(byte, now_ms);
            if is_last {
                self.left = None;
                if event.is_none() && !self.message.is_empty() {
                    return self.rest(now_ms);
                }
            }
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Takes a byte; a line feed within a message that has a length is a part of it.
    fn take(&mut self, byte: u8, now_ms: i64) -> Option<Event> {
        let is_end = byte == b'\n' && self.left.is_none();
        match self.place {
            Place::Start if byte == b'\n' => {}
            Place::Start if self.left.is_none() && matches!(byte, b'1'..=b'9') => {
                self.message.push(byte);
                self.place = Place::Count;
            }
            Place::Start => {
                self.is_bad = byte != b'<';
                self.place = if self.is_bad { Place::Data } else { Place::Priority };
                self.message.push(byte);
            }
            Place::Count if byte.is_ascii_digit() && self.message.len() < COUNT_DIGITS_MAX => {
                self.message.push(byte);
            }
            Place::Count if byte == b' ' => self.place = Place::Counted,
            Place::Counted if byte == b'<' => {
                let digits = std::mem::take(&mut self.message);
                let count = std::str::from_utf8(&digits).ok().and_then(|text| text.parse().ok());
                // This byte is the first of them.
                self.left = count.map(|count: usize| count - 1).filter(|left| *left > 0);
                self.place = Place::Priority;
                self.message.push(byte);
            }
            // It was no length.
            Place::Count | Place::Counted => {
                if self.place == Place::Counted {
                    self.message.push(b' ');
                }
                (self.place, self.is_bad) = (Place::Data, true);
                return self.take(byte, now_ms);
            }
            Place::Priority => {
                self.message.push(byte);
                if byte == b'>' {
                    self.is_bad = self.priority.is_empty();
                    self.place = Place::Data;
                    return None;
                }
                self.priority.push(byte as char);
                if !byte.is_ascii_digit() || self.priority.len() > 3 {
                    self.is_bad = true;
                    self.place = Place::Data;
                }
            }
            Place::Data if is_end => return Some(self.event(false, now_ms)),
            Place::Data => {
                self.message.push(byte);
                if self.message.len() == self.event_bytes_max {
                    return Some(self.event(true, now_ms));
                }
            }
        }
        None
    }

    /// What there is, as a message: a datagram ends without a line feed, and so does a connection. If it is shorter than
    /// the length before it, it is not whole.
    pub(crate) fn rest(&mut self, now_ms: i64) -> Option<Event> {
        let is_cut = self.left.take().is_some();
        if self.message.is_empty() {
            return None;
        }
        self.is_bad |= self.place != Place::Data;
        Some(self.event(is_cut, now_ms))
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

    #[test]
    fn a_message_may_have_its_length_before_it() {
        let messages = ["<10>one\ntwo", "<11>", "<12>three\n"];
        let counted = messages.map(|message| format!("{} {message}", message.len())).concat();
        let found = all(&format!("{counted}<13>a line\n85 bottles\n12\n7 <14>end"), "none", 2500);
        let found: Vec<_> =
            found.iter().map(|event| (event.headers.get(STATUS), &event.body[..])).collect();
        assert_eq!(
            found,
            [
                (None, &b"<10>one\ntwo"[..]),
                (None, b"<11>"),
                (None, b"<12>three\n"),
                (None, b"<13>a line"),
                (Some("Invalid"), b"85 bottles"),
                (Some("Invalid"), b"12"),
                (None, b"<14>end"),
            ]
        );
        let parts = all("23 <10>Good good good data", "none", 10);
        let statuses: Vec<_> = parts.iter().map(|event| event.headers.get(STATUS)).collect();
        assert_eq!(statuses, [Some("Incomplete"), Some("Invalid"), Some("Invalid")]);
        let bytes: usize = parts.iter().map(|event| event.body.len()).sum();
        assert_eq!(bytes, "<10>Good good good data".len());
    }

    #[test]
    fn a_message_that_is_shorter_than_its_length_is_not_whole() {
        let ends = |text: &str| {
            let mut reader = MessageReader::new(2500, KeptFields::parse("none"));
            let mut bytes = text.as_bytes();
            while reader.next(&mut bytes, 0).is_some() {}
            let event = reader.rest(0).expect("is there");
            (event.headers.get(STATUS).map(str::to_owned), event.body)
        };
        let incomplete = Some("Incomplete".to_owned());
        assert_eq!(ends("5 <1>ab100 <13>short"), (incomplete, "<13>short".into()));
        assert_eq!(ends("<1>ab\n<13>a line"), (None, "<13>a line".into()));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_whatever_is_sent(bytes: Vec<u8>) {
            // But for lengths before messages.
            prop_assume!(!bytes.windows(2).any(|pair| pair == b" <"));
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
