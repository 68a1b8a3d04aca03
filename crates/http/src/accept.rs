//! What a client would like to get: `Accept` and `Accept-Encoding` (RFC 9110, 12.5).

use axum::http::header::{ACCEPT, ACCEPT_ENCODING};
use axum::http::{HeaderMap, HeaderName};

use crate::exposition::Format;

/// An element of such a header: a range, or a coding, with its parameters and its weight.
#[derive(Debug, PartialEq, Eq)]
struct Element<'a> {
    /// In the letters that the client wrote; they are compared without regard to case.
    name: &'a str,
    /// The parameter `version`, which is the only one that tells our formats apart.
    version: Option<&'a str>,
    /// `q` in thousandths: 0 is *not this one*.
    weight: u32,
}

/// How good a format is for a client: by the weight, then by how exactly the client named it.
type Rank = (u32, u32);

/// The format that the client prefers. It is [`Format::Text`] where the client has no preference, or
/// would have something that we do not have.
pub(crate) fn format(headers: &HeaderMap) -> Format {
    let accepted = elements_of(headers, &ACCEPT);
    let best =
        Format::ALL.into_iter().filter_map(|format| Some((rank(format, &accepted)?, format)));
    // Of equals the last.
    let best = best.max_by_key(|(rank, _)| *rank);
    best.map_or(Format::Text, |(_, format)| format)
}

/// Whether the client prefers gzip's coding to none.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = elements_of(headers, &ACCEPT_ENCODING);
    let weight = |names: &[&str]| {
        let is_named =
            |element: &&Element<'_>| names.iter().any(|n| element.name.eq_ignore_ascii_case(n));
        accepted.iter().find(is_named).map(|element| element.weight)
    };
    let gzip = weight(&["gzip", "x-gzip"]).or_else(|| weight(&["*"])).unwrap_or(0);
    gzip > 0 && gzip >= weight(&["identity"]).unwrap_or(0)
}

/// The weight of the element that names a format most exactly; `None` if it is not wanted.
fn rank(format: Format, accepted: &[Element<'_>]) -> Option<Rank> {
    let fitting = accepted.iter().filter_map(|element| {
        let exactness = exactness(format, element)?;
        Some((exactness, element.weight))
    });
    let (exactness, weight) = fitting.max()?;
    (weight > 0).then_some((weight, exactness))
}

/// How exactly an element names a format; `None` if it does not.
fn exactness(format: Format, element: &Element<'_>) -> Option<u32> {
    let (kind, subkind) = format.media_type();
    match element.name.split_once('/')? {
        ("*", "*") => Some(0),
        (k, "*") if k.eq_ignore_ascii_case(kind) => Some(1),
        (k, s) if k.eq_ignore_ascii_case(kind) && s.eq_ignore_ascii_case(subkind) => {
            match element.version {
                None => Some(2),
                Some(version) => (version == format.version()).then_some(3),
            }
        }
        _ => None,
    }
}

/// The elements of all lines of a header; what is no text is passed over.
fn elements_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<Element<'a>> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| split(line, ',')).filter_map(element).collect()
}

/// Reads `NAME; PARAMETER=VALUE; q=WEIGHT`.
fn element(text: &str) -> Option<Element<'_>> {
    let mut parts = split(text, ';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let mut element = Element { name, version: None, weight: 1_000 };
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim().trim_matches('"');
        match key.trim() {
            key if key.eq_ignore_ascii_case("q") => element.weight = weight(value),
            key if key.eq_ignore_ascii_case("version") => element.version = Some(value),
            _ => {}
        }
    }
    Some(element)
}

/// Reads a number from 0 to 1. What is none counts as 1, as if it was not said.
fn weight(text: &str) -> u32 {
    let weight = text.parse::<f64>().ok().filter(|weight| (0.0..=1.0).contains(weight));
    weight.map_or(1_000, |weight| (weight * 1_000.0).round() as u32)
}

/// Splits where a separator stands outside of quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |letter| {
        if letter == '"' && !is_escaped {
            is_quoted = !is_quoted;
        }
        is_escaped = is_quoted && letter == '\\' && !is_escaped;
        letter == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, lines: &[&str]) -> HeaderMap {
        let line = |line: &&str| (name.clone(), line.parse().expect("is a header's value"));
        lines.iter().map(line).collect()
    }

    #[test]
    fn the_format_is_the_one_that_is_wanted_most() {
        use Format::{OpenMetrics, OpenMetricsOld, Text};
        let prometheus_2 = "application/openmetrics-text;version=1.0.0;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,\
            text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        let prometheus_1_8 = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
            encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let cases: &[(&[&str], Format)] = &[
            (&[], Text),
            (&[""], Text),
            (&["*/*"], Text),
            (&["text/*"], Text),
            (&[browser], Text),
            (&[prometheus_2], OpenMetrics),
            (&[prometheus_3], OpenMetrics),
            (&[prometheus_1_8], Text),
            (&["application/openmetrics-text"], OpenMetrics),
            (&["Application/OpenMetrics-Text; Version=1.0.0"], OpenMetrics),
            (&["application/openmetrics-text; version=\"1.0.0\"; q=\"0.5\""], OpenMetrics),
            (&["application/openmetrics-text;version=0.0.1"], OpenMetricsOld),
            (&["application/openmetrics-text;version=7.0.0"], Text),
            (&["application/openmetrics-text;q=0"], Text),
            (&["application/openmetrics-text;q=0, */*"], Text),
            (&["application/openmetrics-text;q=0.4, text/plain;q=0.5"], Text),
            (&["application/openmetrics-text;q=0.4", "text/plain;q=0.3"], OpenMetrics),
            (&["application/openmetrics-text, */*"], OpenMetrics),
            (&["application/*"], OpenMetrics),
            (&["text/plain;q=0, */*"], OpenMetrics),
            (&["text/plain;version=0.0.4, application/openmetrics-text;q=0.9"], Text),
            (&["application/json"], Text),
            (&["x/y;z=\"a,application/openmetrics-text,b\""], Text),
            (&["application/openmetrics-text;q=much"], OpenMetrics),
            (&[",;,=;q=,/"], Text),
        ];
        for (lines, expected) in cases {
            assert_eq!(format(&headers(ACCEPT, lines)), *expected, "{lines:?}");
        }
    }

    #[test]
    fn gzip_is_for_those_who_want_it() {
        let cases: &[(&[&str], bool)] = &[
            (&[], false),
            (&["gzip"], true),
            (&["deflate, GZIP;q=0.5"], true),
            (&["deflate", "x-gzip"], true),
            (&["gzip;q=0"], false),
            (&["gzip;q=0, *"], false),
            (&["*"], true),
            (&["*;q=0"], false),
            (&["identity"], false),
            (&["identity, gzip;q=0.5"], false),
            (&["identity;q=0.5, gzip"], true),
            (&["br, zstd"], false),
        ];
        for (lines, expected) in cases {
            assert_eq!(takes_gzip(&headers(ACCEPT_ENCODING, lines)), *expected, "{lines:?}");
        }
    }
}
