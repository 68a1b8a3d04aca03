//! Where to begin, as people write it.

use std::str::FromStr;

use logway_client::StartAt;
use logway_model::Offset;

use super::timestamp;

/// `start`, `end`, an offset, `-N` for N before the end, or `@` and a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetSpec(pub(super) StartAt);

impl FromStr for OffsetSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<OffsetSpec, String> {
        let start_at = match text {
            "start" => StartAt::Start,
            "end" => StartAt::End,
            _ => match (text.strip_prefix('@'), text.strip_prefix('-')) {
                (Some(time), _) => StartAt::Timestamp(timestamp::parse(time, timestamp::now())?),
                (None, Some(count)) => StartAt::BeforeEnd(number(text, count)?),
                (None, None) => {
                    let offset = i64::try_from(number(text, text)?).map_err(|_| invalid(text))?;
                    StartAt::Offset(Offset(offset))
                }
            },
        };
        Ok(OffsetSpec(start_at))
    }
}

fn number(text: &str, digits: &str) -> Result<u64, String> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten().ok_or_else(|| invalid(text))
}

fn invalid(text: &str) -> String {
    format!("'{text}' is none of start, end, an offset, -COUNT and @TIME, such as @-1h")
}

#[cfg(test)]
mod tests {
    use logway_model::TimestampMs;

    use super::*;

    #[test]
    fn every_form_is_read() {
        for (text, expected) in [
            ("start", StartAt::Start),
            ("end", StartAt::End),
            ("0", StartAt::Offset(Offset(0))),
            ("42", StartAt::Offset(Offset(42))),
            ("-10", StartAt::BeforeEnd(10)),
            ("@1700000000000", StartAt::Timestamp(TimestampMs(1_700_000_000_000))),
            ("@1970-01-01T00:00:01Z", StartAt::Timestamp(TimestampMs(1000))),
        ] {
            assert_eq!(text.parse(), Ok(OffsetSpec(expected)), "{text}");
        }
        let OffsetSpec(hour_ago) = "@-1h".parse().expect("a time");
        let StartAt::Timestamp(TimestampMs(hour_ago_ms)) = hour_ago else { panic!("{hour_ago:?}") };
        let age_ms = timestamp::now().0 - hour_ago_ms;
        assert!((3_600_000..3_660_000).contains(&age_ms), "{age_ms}");
        for text in ["", "-", "--1", "+1", "1x", "@", "@x", "9223372036854775808", "latest"] {
            assert!(text.parse::<OffsetSpec>().is_err(), "{text}");
        }
    }
}
