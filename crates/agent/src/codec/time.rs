//! Times as logs write them, in milliseconds since 1970. Where no zone is said, it is UTC.

use logway_model::calendar::{date_of_days, days_of_date};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const DAY_MS: i64 = 86_400_000;

/// A time of RFC 5424. Its zone and its fraction may be missing.
pub(crate) fn parse_rfc5424(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once('T')?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let zone_at = rest.find(['Z', '+', '-']);
    let (time, zone) = rest.split_at(zone_at.unwrap_or(rest.len()));
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let offset_minutes = match zone {
        "" | "Z" => 0,
        zone => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    let millis = millis_of_fraction(fraction)?;
    let at = of_parts(year, month, day, hour, minute, second)?;
    Some(at + millis - offset_minutes * 60_000)
}

fn millis_of_fraction(fraction: &str) -> Option<i64> {
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    digits.parse().ok()
}

fn of_parts(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> Option<i64> {
    let is_sound = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (0..=9999).contains(&year);
    let seconds = (hour * 60 + minute) * 60 + second;
    is_sound.then(|| days_of_date(year, month, day) * DAY_MS + seconds * 1000)
}

/// A time of RFC 3164, `MMM d HH:mm:ss`, which says no year: the one that puts it between eleven months before now
/// and one month after (Flume's window).
pub(crate) fn parse_rfc3164(text: &str, now_ms: i64) -> Option<i64> {
    let mut parts = text.split_ascii_whitespace();
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let day = parts.next()?.parse().ok()?;
    let mut time = parts.next()?.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let (year, _, _) = date_of_days(now_ms.div_euclid(DAY_MS));
    let in_year = |year| of_parts(year, month, day, hour, minute, second);
    let this_year = in_year(year)?;
    if this_year > now_ms && months_later(this_year, -1) > now_ms {
        in_year(year - 1)
    } else if this_year < now_ms && months_later(this_year, 11) < now_ms {
        in_year(year + 1)
    } else {
        Some(this_year)
    }
}

fn months_later(at_ms: i64, months: i64) -> i64 {
    let (year, month, day) = date_of_days(at_ms.div_euclid(DAY_MS));
    let months = year * 12 + month - 1 + months;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let last_day =
        days_of_date(year + month / 12, month % 12 + 1, 1) - days_of_date(year, month, 1);
    days_of_date(year, month, day.min(last_day)) * DAY_MS + at_ms.rem_euclid(DAY_MS)
}

/// A time in the letters of Java's `SimpleDateFormat`. Known are `y M d H m s S Z` and quoted text.
pub(crate) fn parse_pattern(pattern: &str, text: &str) -> Option<i64> {
    let (mut year, mut month, mut day) = (1970, 1, 1);
    let (mut hour, mut minute, mut second, mut millis, mut offset_minutes) = (0, 0, 0, 0, 0);
    let mut rest = text;
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        let mut width = 1;
        if letter == '\'' {
            let literal: String = letters.by_ref().take_while(|letter| *letter != '\'').collect();
            let literal = if literal.is_empty() { "'" } else { literal.as_str() };
            rest = rest.strip_prefix(literal)?;
            continue;
        }
        if !letter.is_ascii_alphabetic() {
            rest = rest.strip_prefix(letter)?;
            continue;
        }
        while letters.next_if_eq(&letter).is_some() {
            width += 1;
        }
        if letter == 'M' && width >= 3 {
            let name = rest.get(..3)?;
            month = MONTHS.iter().position(|known| known.eq_ignore_ascii_case(name))? as i64 + 1;
            rest = &rest[3..];
            continue;
        }
        if letter == 'Z' {
            let sign = rest.chars().next()?;
            let digits = rest.get(1..5)?;
            let minutes =
                digits[..2].parse::<i64>().ok()? * 60 + digits[2..].parse::<i64>().ok()?;
            offset_minutes = match sign {
                '+' => minutes,
                '-' => -minutes,
                _ => return None,
            };
            rest = &rest[5..];
            continue;
        }
        // Another field follows at once: then the width counts.
        let is_next_field = letters.peek().is_some_and(char::is_ascii_alphabetic);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let digits = if is_next_field { digits.min(width) } else { digits };
        let number = rest[..digits].parse::<i64>().ok()?;
        rest = &rest[digits..];
        match letter {
            'y' => year = if width == 2 { 2000 + number } else { number },
            'M' => month = number,
            'd' => day = number,
            'H' => hour = number,
            'm' => minute = number,
            's' => second = number,
            'S' => millis = number,
            _ => return None,
        }
    }
    Some(of_parts(year, month, day, hour, minute, second)? + millis - offset_minutes * 60_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_round_trip() {
        for days in (-800_000..800_000).step_by(97) {
            let (year, month, day) = date_of_days(days);
            assert_eq!(days_of_date(year, month, day), days);
        }
        assert_eq!(date_of_days(0), (1970, 1, 1));
    }

    #[test]
    fn times_of_rfc_5424_are_read() {
        for (text, expected) in [
            ("2012-04-13T11:11:11+08:00", Some(1_334_286_671_000)),
            ("2012-04-13T11:11:11Z", Some(1_334_315_471_000)),
            ("2012-04-13T11:11:11", Some(1_334_315_471_000)),
            ("2014-10-03T17:20:01.123456-07:00", Some(1_412_382_001_123)),
            ("2012-04-13T11:11:11.5Z", Some(1_334_315_471_500)),
            ("2012-13-13T11:11:11Z", None),
            ("2012-04-13 11:11:11Z", None),
        ] {
            assert_eq!(parse_rfc5424(text), expected, "{text}");
        }
    }

    #[test]
    fn a_time_without_a_year_is_in_the_window_around_now() {
        let now = |text| parse_rfc5424(text).expect("is a time");
        for (at, text, year) in [
            ("2024-01-01T00:00:10Z", "Dec 31 23:59:59", 2023),
            ("2023-12-31T23:59:50Z", "Jan  1 00:00:01", 2024),
            ("2024-06-01T00:00:00Z", "May 31 00:00:00", 2024),
            ("2024-06-01T00:00:00Z", "Jul 15 00:00:00", 2023),
            ("2024-06-15T00:00:00Z", "Jul 10 00:00:00", 2024),
        ] {
            let found = parse_rfc3164(text, now(at)).expect("is a time");
            assert_eq!(date_of_days(found.div_euclid(DAY_MS)).0, year, "{text} at {at}");
        }
        assert_eq!(parse_rfc3164("Foo 31 00:00:00", 0), None);
    }

    #[test]
    fn times_are_read_by_javas_patterns() {
        for (pattern, text, expected) in [
            ("yyyy-MM-dd HH:mm", "2012-10-18 18:47", Some(1_350_586_020_000)),
            ("dd/MMM/yyyy:HH:mm:ss Z", "18/Oct/2012:18:47:00 +0200", Some(1_350_578_820_000)),
            ("yyyyMMdd'T'HHmmssSSS", "20121018T184701007", Some(1_350_586_021_007)),
            ("yyyy-MM-dd", "2012-10", None),
        ] {
            assert_eq!(parse_pattern(pattern, text), expected, "{pattern}");
        }
    }
}
