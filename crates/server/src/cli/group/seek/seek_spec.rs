//! Where to seek, as people write it.

use std::str::FromStr;

use logway_client::StartAt;

use crate::cli::offset_spec::OffsetSpec;

/// What [`OffsetSpec`] reads, or `+COUNT` for so many after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeekSpec {
    At(StartAt),
    AfterStart(u64),
}

impl FromStr for SeekSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<SeekSpec, String> {
        let Some(count) = text.strip_prefix('+') else {
            // Of a time it says more.
            let OffsetSpec(start_at) = text
                .parse()
                .map_err(|error| if text.starts_with('@') { error } else { invalid(text) })?;
            return Ok(SeekSpec::At(start_at));
        };
        let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
        let count = is_number.then(|| count.parse().ok()).flatten();
        count.map(SeekSpec::AfterStart).ok_or_else(|| invalid(text))
    }
}

fn invalid(text: &str) -> String {
    format!("'{text}' is none of start, end, an offset, +COUNT, -COUNT and @TIME, such as @-1h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<SeekSpec>().expect_err(text);
        assert!(error("@soon").contains("'soon' is no time"));
        assert!(error("-1h").contains("@-1h"));
    }

    #[test]
    fn counts_are_from_the_start_or_the_end() {
        assert_eq!("+10".parse(), Ok(SeekSpec::AfterStart(10)));
        assert_eq!("-10".parse(), Ok(SeekSpec::At(StartAt::BeforeEnd(10))));
        assert_eq!("start".parse(), Ok(SeekSpec::At(StartAt::Start)));
        for text in ["", "+", "+-1", "++1", "+1x", "latest"] {
            assert!(text.parse::<SeekSpec>().is_err(), "{text}");
        }
    }
}
