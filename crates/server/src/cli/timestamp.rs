//! Points in time as people write them.

use std::time::{SystemTime, UNIX_EPOCH};

use logway_model::TimestampMs;
use logway_model::calendar::{date_of_days, days_of_date};

/// The time of this machine's clock.
pub(super) fn now() -> TimestampMs {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// Reads milliseconds since the Unix epoch, a time of RFC 3339 such as `2026-01-31T12:00:00Z` or
/// `2026-01-31T13:00:00.250+01:00`, a date, which is its first moment in UTC, or a time before
/// `now` such as `-1h30m`.
///
/// # Errors
///
/// What is wrong, for the user.
pub(super) fn parse(text: &str, now: TimestampMs) -> Result<TimestampMs, String> {
    let parsed = match (text.strip_prefix('-'), text.bytes().all(|byte| byte.is_ascii_digit())) {
        (Some(ago), _) => age_ms(ago).and_then(|age_ms| now.0.checked_sub(age_ms)),
        (None, true) => text.parse().ok(),
        (None, false) => rfc3339(text).or_else(|| Some(days(text)? * DAY_MS)),
    };
    parsed.map(TimestampMs).ok_or_else(|| {
        format!(
            "'{text}' is no time: use milliseconds since 1970, a time like 2026-01-31T12:00:00Z, a \
             date, or how long ago, like -1h30m"
        )
    })
}

/// Reads how long something is, as `1d12h`, `90m` or `500ms`; not nothing.
///
/// # Errors
///
/// What is wrong, for the user.
pub(super) fn parse_period_ms(text: &str) -> Result<i64, String> {
    age_ms(text).filter(|ms| *ms > 0).ok_or_else(|| {
        format!(
            "'{text}' is no period: use counts with units, the largest first, like 1d12h or 90m"
        )
    })
}

/// Reads counts with their units, the largest unit first: `1d12h`, `90m`, `500ms`.
fn age_ms(text: &str) -> Option<i64> {
    const UNITS: [(&str, i64); 5] =
        [("d", DAY_MS), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let (mut rest, mut units, mut age_ms) = (text, UNITS.iter(), 0_i64);
    while !rest.is_empty() {
        let digits_end = rest.find(|char: char| !char.is_ascii_digit())?;
        let (digits, after) = rest.split_at(digits_end);
        let name_end = after.find(|char: char| char.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at(name_end);
        let (_, unit_ms) = units.find(|(unit, _)| *unit == name)?;
        age_ms = age_ms.checked_add(digits.parse::<i64>().ok()?.checked_mul(*unit_ms)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(age_ms)
}

/// A time of RFC 3339 in UTC, to the millisecond; of years that it cannot write, the milliseconds.
pub(super) fn format(timestamp: TimestampMs) -> String {
    let (days, ms) = (timestamp.0.div_euclid(DAY_MS), timestamp.0.rem_euclid(DAY_MS));
    let (year, month, day) = date_of_days(days);
    if !(0..=9999).contains(&year) {
        return timestamp.0.to_string();
    }
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let ms = ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

const DAY_MS: i64 = 86_400_000;

fn rfc3339(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (time, offset_minutes) = split_zone(time)?;

    let days = days(date)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    // A leap second counts as the first of the next minute, as POSIX time has none.
    if !(hour < 24 && minute < 60 && second <= 60) {
        return None;
    }
    let minutes = (days * 24 + hour) * 60 + minute - offset_minutes;
    Some((minutes * 60 + second) * 1000 + milliseconds(fraction)?)
}

/// The days of a date since the Unix epoch.
fn days(date: &str) -> Option<i64> {
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let is_in_range = (1..=days_in_month(year, month)?).contains(&day);
    is_in_range.then(|| days_of_date(year, month, day))
}

/// Splits the zone off and returns it as minutes east of Greenwich.
fn split_zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let sign_at = time.rfind(['+', '-'])?;
    let (time, zone) = time.split_at(sign_at);
    let [hours, minutes] = numbers(&zone[1..], ':', [2, 2])?;
    let east = if zone.starts_with('-') { -1 } else { 1 };
    (hours < 24 && minutes < 60).then_some((time, east * (hours * 60 + minutes)))
}

/// Numbers of fixed widths with separators between them, and nothing else.
fn numbers<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut numbers = [0; N];
    let mut fields = text.split(separator);
    for (number, width) in numbers.iter_mut().zip(widths) {
        let field = fields.next().filter(|field| field.len() == width)?;
        let is_number = field.bytes().all(|byte| byte.is_ascii_digit());
        *number = is_number.then(|| field.parse().ok())??;
    }
    fields.next().is_none().then_some(numbers)
}

/// The first three digits of a fraction of a second.
fn milliseconds(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain([b'0'; 2]).take(3);
    Some(digits.fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

fn days_in_month(year: i64, month: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if is_leap { 29 } else { 28 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: TimestampMs = TimestampMs(1_769_860_800_250);

    fn parse(text: &str) -> Result<TimestampMs, String> {
        super::parse(text, NOW)
    }

    #[test]
    fn a_period_has_units_and_is_not_nothing() {
        assert_eq!(parse_period_ms("1d2h3m4s5ms"), Ok(93_784_005));
        for text in ["", "0s", "5", "-5s", "1m1h", "99999999999999999999d"] {
            assert!(parse_period_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_ago_is_counted_from_now() {
        for (text, expected_ms) in [
            ("-1h", 3_600_000),
            ("-90s", 90_000),
            ("-1d2h3m4s5ms", 93_784_005),
            ("-0m", 0),
            ("-1m30s", 90_000),
        ] {
            assert_eq!(parse(text), Ok(TimestampMs(NOW.0 - expected_ms)), "{text}");
        }
        for text in [
            "-",
            "-h",
            "-1",
            "-1x",
            "-1m1h",
            "-1h1h",
            "--1h",
            "-1 h",
            "-1.5h",
            "+1h",
            "-1H",
            "-9223372036854775807d",
            "-99999999999999999999s",
            "-1h\u{fc}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_form_is_read() {
        for (text, expected) in [
            ("0", 0),
            ("1700000000123", 1_700_000_000_123),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:34:56Z", 951_827_696_000),
            ("2026-01-31T13:00:00.25+01:00", 1_769_860_800_250),
            ("2026-01-31 07:00:00.1239-05:00", 1_769_860_800_123),
            ("1969-12-31T23:59:59.999z", -1),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("2026-01-31", 1_769_817_600_000),
        ] {
            assert_eq!(parse(text), Ok(TimestampMs(expected)), "{text}");
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let written = |ms| format(TimestampMs(ms));
        assert_eq!(written(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(written(951_827_696_007), "2000-02-29T12:34:56.007Z");
        assert_eq!(written(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(written(i64::MAX), i64::MAX.to_string());
        // A day at a time through leap years of all kinds, with odd milliseconds.
        for day in (-719_000..2_900_000).step_by(7) {
            let ms = day * DAY_MS + day.rem_euclid(DAY_MS);
            let text = written(ms);
            assert_eq!(parse(&text), Ok(TimestampMs(ms)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "yesterday",
            "-5",
            "99999999999999999999",
            "2026-02-29",
            "2026-01-31T12:00:00",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00+0100",
            "2026-1-31T12:00:00Z",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
