//! Texts with the values of headers and parts of a time in them, as Flume's paths have them (`BucketPath`).

use logway_model::calendar::date_of_days;

use crate::error::{StartError, because};
use crate::event::Event;
use crate::interceptor::{host, now_ms};
use crate::settings::Settings;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// 1970-01-01 was a Thursday.
const DAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// Names of months and days are cut to so many letters.
const SHORT: usize = 3;

const LETTERS: &str = "YymndejHkIlMSpbBaAcDstz";

#[derive(Debug, Clone)]
pub(super) struct Template(Vec<Part>);

/// Texts by names, such as those of labels.
#[derive(Debug, Clone)]
pub(super) struct NamedTemplates(pub(super) Vec<(String, Template)>);

impl NamedTemplates {
    /// The names below a key, and their texts.
    ///
    /// # Errors
    ///
    /// An escape that is none.
    pub(super) fn below(settings: &Settings, stem: &str) -> Result<NamedTemplates, StartError> {
        let template = |(name, text): (&str, &str)| {
            let template = Template::parse(text).map_err(because(format!("{stem}{name}")))?;
            Ok((name.to_owned(), template))
        };
        settings.below(stem).map(template).collect::<Result<_, _>>().map(NamedTemplates)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The texts for an event. Those that are empty are left out.
    pub(super) fn of(&self, event: &Event) -> impl Iterator<Item = (String, String)> {
        let texts = self.0.iter().map(|(name, text)| (name.clone(), text.of(event)));
        texts.filter(|(_, text)| !text.is_empty())
    }
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Header(String),
    Time(char),
}

impl Template {
    /// # Errors
    ///
    /// An escape that is none.
    pub(super) fn parse(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('%') {
            parts.push(Part::Text(before.to_owned()));
            let letter = behind.chars().next();
            rest = letter.map_or("", |letter| &behind[letter.len_utf8()..]);
            match letter {
                Some('{') => {
                    let (name, behind) = rest
                        .split_once('}')
                        .ok_or_else(|| format!("'{text}' has '%{{' without a '}}'"))?;
                    parts.push(Part::Header(name.to_owned()));
                    rest = behind;
                }
                Some('[') => {
                    let (name, behind) = rest
                        .split_once(']')
                        .ok_or_else(|| format!("'{text}' has '%[' without a ']'"))?;
                    parts.push(Part::Text(of_this_machine(name)?));
                    rest = behind;
                }
                Some('%') => parts.push(Part::Text("%".to_owned())),
                Some(letter) if LETTERS.contains(letter) => parts.push(Part::Time(letter)),
                _ => {
                    return Err(format!(
                        "'{text}' has '%{}', which means nothing; a percent sign is '%%'",
                        letter.map(String::from).unwrap_or_default()
                    ));
                }
            }
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Template(parts))
    }

    /// The text for an event. A header that is missing is empty.
    pub(super) fn of(&self, event: &Event) -> String {
        self.of_at(event, now_ms())
    }

    /// The same, with a time for events that have none.
    pub(super) fn of_at(&self, event: &Event, now_ms: i64) -> String {
        self.of_time(event, stated_ms(event).unwrap_or(now_ms))
    }

    /// Whether a part of a time is in it.
    pub(super) fn has_time(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Time(_)))
    }

    /// The text for an event, with a time in place of the event's own.
    pub(super) fn of_time(&self, event: &Event, time_ms: i64) -> String {
        let mut time = None;
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Header(name) => text.push_str(event.headers.get(name).unwrap_or_default()),
                Part::Time(letter) => {
                    let time = time.get_or_insert_with(|| Time::of(time_ms));
                    text.push_str(&time.part(*letter));
                }
            }
        }
        text
    }
}

/// The time of an event, in milliseconds since 1970: that of its header `timestamp`, or now.
pub(super) fn time_ms(event: &Event) -> i64 {
    stated_ms(event).unwrap_or_else(now_ms)
}

/// The time that an event's header `timestamp` says.
pub(super) fn stated_ms(event: &Event) -> Option<i64> {
    let stated = event.headers.get("timestamp").and_then(|text| text.trim().parse().ok());
    stated.filter(|stated| TIMES.contains(stated))
}

/// `%[localhost]`, `%[IP]` and `%[FQDN]`, found out once.
fn of_this_machine(name: &str) -> Result<String, String> {
    match name.to_lowercase().as_str() {
        // There is no other way to the full name here than that the machine is called so.
        "localhost" | "fqdn" => Ok(host::own_name()),
        "ip" => host::own_address()
            .map(|address| address.to_string())
            .map_err(|error| format!("this machine's address is not known: {error}")),
        _ => Err(format!("'%[{name}]' is none of %[localhost], %[IP] and %[FQDN]")),
    }
}

/// Years of four digits.
const TIMES: std::ops::Range<i64> = -62_135_596_800_000..253_402_300_800_000;

/// As RFC 3339 has it: `2026-01-02T03:04:05.678Z`.
pub(super) fn rfc3339(ms: i64) -> String {
    let time = Time::of(ms);
    let Time { year, month, day, hour, minute, second, .. } = time;
    let millis = ms.rem_euclid(1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

struct Time {
    ms: i64,
    days: i64,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Time {
    fn of(ms: i64) -> Time {
        let seconds = ms.div_euclid(1000);
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date_of_days(days);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        Time { ms, days, year, month, day, hour, minute, second }
    }

    fn part(&self, letter: char) -> String {
        let hour_of_12 = (self.hour + 11) % 12 + 1;
        let month_name = MONTHS[(self.month - 1) as usize];
        let day_name = DAYS[self.days.rem_euclid(7) as usize];
        match letter {
            'Y' => format!("{:04}", self.year),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'm' => format!("{:02}", self.month),
            'n' => self.month.to_string(),
            'd' => format!("{:02}", self.day),
            'e' => self.day.to_string(),
            'j' => {
                let first = logway_model::calendar::days_of_date(self.year, 1, 1);
                format!("{:03}", self.days - first + 1)
            }
            'H' => format!("{:02}", self.hour),
            'k' => self.hour.to_string(),
            'I' => format!("{hour_of_12:02}"),
            'l' => hour_of_12.to_string(),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
            'b' => month_name[..SHORT].to_owned(),
            'B' => month_name.to_owned(),
            'a' => day_name[..SHORT].to_owned(),
            'A' => day_name.to_owned(),
            'c' => {
                let (day_name, month_name) = (&day_name[..SHORT], &month_name[..SHORT]);
                let Time { day, hour, minute, second, year, .. } = self;
                format!("{day_name} {month_name} {day} {hour:02}:{minute:02}:{second:02} {year:04}")
            }
            'z' => "+0000".to_owned(),
            'D' => format!("{:02}/{:02}/{:02}", self.month, self.day, self.year.rem_euclid(100)),
            's' => self.ms.div_euclid(1000).to_string(),
            _ => self.ms.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(timestamp: &str) -> Event {
        let mut event = Event::default();
        event.headers.set("a", "1");
        event.headers.set("timestamp", timestamp);
        event
    }

    #[test]
    fn headers_and_parts_of_the_time_are_put_into_a_text() {
        // 2026-11-27T15:04:05.678Z, a Friday.
        let event = event("1795791845678");
        for (text, expected) in [
            ("x-%{a}-%{b}-", "x-1--"),
            ("logs-%Y.%m.%d", "logs-2026.11.27"),
            ("%y %e %j %H %k %I %M %S %p", "26 27 331 15 15 03 04 05 PM"),
            ("%b %a %D %s %t 100%%", "Nov Fri 11/27/26 1795791845 1795791845678 100%"),
            ("%B %A %n %l %z|%c", "November Friday 11 3 +0000|Fri Nov 27 15:04:05 2026"),
        ] {
            assert_eq!(Template::parse(text).expect("is one").of(&event), expected);
        }
        assert_eq!(rfc3339(1_795_791_845_678), "2026-11-27T15:04:05.678Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_no_escape_or_no_time_is_not_taken_for_one() {
        for text in ["%{a", "%q", "50%", "%[name]"] {
            assert!(Template::parse(text).is_err_and(|error| error.contains(text)), "{text}");
        }
        for timestamp in ["9223372036854775807", "-9223372036854775808", "soon"] {
            let text = Template::parse("%Y").expect("is one").of(&event(timestamp));
            assert_eq!(text.len(), 4, "{timestamp}: {text}");
        }
    }
}
