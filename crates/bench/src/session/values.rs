//! Numbers on the command line, within the bounds in which they mean something.

use clap::builder::RangedU64ValueParser;

/// Nobody waits longer for one run: 30 days.
const SECONDS_MAX: f64 = 30.0 * 86_400.0;

/// Shorter than this the clock of /proc says nothing.
const MEASURED_SECONDS_MIN: f64 = 0.05;

/// One record each nanosecond.
const RATE_MAX: f64 = 1e9;

/// More connections, or more on their way, than one thread has use for.
const MANY: u64 = 10_000;

/// More than any machine has processors for.
const PROCESSES_MAX: u64 = 100;

/// A request is no longer than that (`socket.request.max.bytes`), and so no batch.
const BATCH_BYTES_MAX: u64 = 100 << 20;

/// A time to wait, perhaps none.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    number(text, |seconds| (0.0..=SECONDS_MAX).contains(&seconds), "from 0 to 2592000")
}

/// A time to measure.
pub(crate) fn measured_seconds(text: &str) -> Result<f64, String> {
    let bounds = MEASURED_SECONDS_MIN..=SECONDS_MAX;
    number(text, |seconds| bounds.contains(&seconds), "from 0.05 to 2592000")
}

/// So many a second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    number(text, |rate| rate > 0.0 && rate <= RATE_MAX, "above 0, up to 1000000000")
}

/// By how much something rises.
pub(crate) fn factor(text: &str) -> Result<f64, String> {
    number(text, |factor| factor > 1.0 && factor <= 1000.0, "above 1, up to 1000")
}

/// How many of something there are.
pub(crate) fn many() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MANY)
}

/// How many processes are started.
pub(crate) fn processes() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=PROCESSES_MAX)
}

/// Of a record or a batch.
pub(crate) fn size() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=BATCH_BYTES_MAX)
}

fn number(text: &str, is_good: impl Fn(f64) -> bool, bounds: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if is_good(number) => Ok(number),
        _ => Err(format!("it must be a number {bounds}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_nothing_is_refused() {
        for text in ["nan", "inf", "-inf", "-1", "1e300", "2592001", "", "1s"] {
            for parse in [seconds, measured_seconds] {
                assert!(parse(text).expect_err(text).contains("2592000"), "{text}");
            }
        }
        assert_eq!((seconds("0"), seconds("0.3")), (Ok(0.0), Ok(0.3)));
        assert!(measured_seconds("0").is_err() && measured_seconds("14400") == Ok(14400.0));
        assert!(["0", "-5", "nan", "1e10"].into_iter().all(|text| rate(text).is_err()));
        assert_eq!(rate("0.5"), Ok(0.5));
        assert!(["1", "0.5", "nan", "inf"].into_iter().all(|text| factor(text).is_err()));
        assert_eq!(factor("1.5"), Ok(1.5));
    }
}
