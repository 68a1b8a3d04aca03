//! The numbers in what clients push: OpenTelemetry's `MetricsData` (KIP-714).
//!
//! Of the protocol buffers' messages only these fields are looked at; others are skipped:
//!
//! | message | fields |
//! |---|---|
//! | `MetricsData` | 1: `ResourceMetrics` |
//! | `ResourceMetrics` | 2: `ScopeMetrics` |
//! | `ScopeMetrics` | 2: `Metric` |
//! | `Metric` | 1: name, 5: `Gauge`, 7: `Sum` |
//! | `Gauge`, `Sum` | 1: `NumberDataPoint`, and of a sum 2: temporality (1 is delta) |
//! | `NumberDataPoint` | 4: double, 6: 64-bit integer, 7: `KeyValue` |
//! | `KeyValue` | 1: key, 2: `AnyValue` |
//! | `AnyValue` | 1: text, 2: boolean, 3: integer, 4: double |

use thiserror::Error;

/// One number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample<'a> {
    /// The metric's name.
    pub(super) name: &'a str,
    /// What tells the metric's series apart: names with values, as they came.
    pub(super) attributes: Vec<(&'a str, String)>,
    /// The value.
    pub(super) value: f64,
    /// Whether the value is what was added since the last push.
    pub(super) is_delta: bool,
}

/// Why bytes are not metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it is not OpenTelemetry's MetricsData")]
pub(super) struct NotMetrics;

/// Calls `found` with every number of a gauge or a sum.
pub(super) fn for_each_sample<'a>(
    data: &'a [u8],
    mut found: impl FnMut(Sample<'a>),
) -> Result<(), NotMetrics> {
    for_each_message(data, 1, |resource| {
        for_each_message(resource, 2, |scope| {
            for_each_message(scope, 2, |metric| read_metric(metric, &mut found))
        })
    })
}

fn read_metric<'a>(metric: &'a [u8], found: &mut impl FnMut(Sample<'a>)) -> Result<(), NotMetrics> {
    const DELTA: u64 = 1;
    let (mut name, mut points, mut is_delta) = ("", Vec::new(), false);
    for_each_field(metric, |number, field| {
        match (number, field) {
            (1, Field::Bytes(text)) => name = utf8(text)?,
            (5 | 7, Field::Bytes(data)) => for_each_field(data, |part, field| {
                match (part, field) {
                    (1, Field::Bytes(point)) => points.push(point),
                    (2, Field::Number(temporality)) if number == 7 => {
                        is_delta = temporality == DELTA;
                    }
                    _ => {}
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    for point in points {
        if let Some((value, attributes)) = read_point(point)? {
            found(Sample { name, attributes, value, is_delta });
        }
    }
    Ok(())
}

/// A number with its attributes.
type Point<'a> = (f64, Vec<(&'a str, String)>);

fn read_point(point: &[u8]) -> Result<Option<Point<'_>>, NotMetrics> {
    let (mut value, mut attributes) = (None, Vec::new());
    for_each_field(point, |number, field| {
        match (number, field) {
            (4, Field::Fixed64(bits)) => value = Some(f64::from_bits(bits)),
            (6, Field::Fixed64(bits)) => value = Some(bits.cast_signed() as f64),
            (7, Field::Bytes(attribute)) => attributes.push(read_attribute(attribute)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(value.map(|value| (value, attributes)))
}

fn read_attribute(attribute: &[u8]) -> Result<(&str, String), NotMetrics> {
    let (mut key, mut value) = ("", String::new());
    for_each_field(attribute, |number, field| {
        match (number, field) {
            (1, Field::Bytes(text)) => key = utf8(text)?,
            (2, Field::Bytes(any)) => for_each_field(any, |number, field| {
                value = match (number, field) {
                    (1, Field::Bytes(text)) => utf8(text)?.to_owned(),
                    (2, Field::Number(number)) => (number != 0).to_string(),
                    (3, Field::Number(number)) => number.cast_signed().to_string(),
                    (4, Field::Fixed64(bits)) => f64::from_bits(bits).to_string(),
                    _ => return Ok(()),
                };
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

fn utf8(bytes: &[u8]) -> Result<&str, NotMetrics> {
    std::str::from_utf8(bytes).map_err(|_| NotMetrics)
}

/// The value of a field, by its wire type.
#[derive(Debug, Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

fn for_each_message<'a>(
    message: &'a [u8],
    wanted: u64,
    mut found: impl FnMut(&'a [u8]) -> Result<(), NotMetrics>,
) -> Result<(), NotMetrics> {
    for_each_field(message, |number, field| match field {
        Field::Bytes(inner) if number == wanted => found(inner),
        _ => Ok(()),
    })
}

fn for_each_field<'a>(
    mut message: &'a [u8],
    mut found: impl FnMut(u64, Field<'a>) -> Result<(), NotMetrics>,
) -> Result<(), NotMetrics> {
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut message)?),
            1 => {
                let bytes = take(&mut message, 8)?.try_into().map_err(|_| NotMetrics)?;
                Field::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = usize::try_from(varint(&mut message)?).map_err(|_| NotMetrics)?;
                Field::Bytes(take(&mut message, length)?)
            }
            5 => {
                take(&mut message, 4)?;
                Field::Fixed32
            }
            _ => return Err(NotMetrics),
        };
        found(tag >> 3, field)?;
    }
    Ok(())
}

fn take<'a>(from: &mut &'a [u8], length: usize) -> Result<&'a [u8], NotMetrics> {
    let (taken, rest) = from.split_at_checked(length).ok_or(NotMetrics)?;
    *from = rest;
    Ok(taken)
}

fn varint(from: &mut &[u8]) -> Result<u64, NotMetrics> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = take(from, 1)? else { return Err(NotMetrics) };
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(NotMetrics)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            field.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        field.push(length as u8);
        field.extend_from_slice(bytes);
        field
    }

    fn point(value: f64, attributes: &[(&str, &str)]) -> Vec<u8> {
        let mut point = vec![4 << 3 | 1];
        point.extend(value.to_le_bytes());
        for (key, text) in attributes {
            let value = field(2, &field(1, text.as_bytes()));
            point.extend(field(7, &[field(1, key.as_bytes()), value].concat()));
        }
        point
    }

    /// A push of one gauge, or of one sum of deltas.
    pub(in crate::telemetry) fn metrics_data(
        name: &str,
        is_delta_sum: bool,
        value: f64,
        attributes: &[(&str, &str)],
    ) -> Vec<u8> {
        let mut data = field(1, &point(value, attributes));
        if is_delta_sum {
            data.extend([2 << 3, 1, 3 << 3, 1]);
        }
        let kind = if is_delta_sum { 7 } else { 5 };
        let metric = [field(1, name.as_bytes()), field(kind, &data)].concat();
        field(1, &field(2, &[field(1, b"scope"), field(2, &metric)].concat()))
    }

    fn samples(data: &[u8]) -> Result<Vec<(String, f64, bool, String)>, NotMetrics> {
        let mut samples = Vec::new();
        for_each_sample(data, |sample| {
            let attributes = format!("{:?}", sample.attributes);
            samples.push((sample.name.to_owned(), sample.value, sample.is_delta, attributes));
        })?;
        Ok(samples)
    }

    #[test]
    fn gauges_and_sums_are_found() {
        let gauge = metrics_data("org.a", false, 1.5, &[("client-id", "c"), ("node", "1")]);
        let sum = metrics_data("org.b", true, 7.0, &[]);
        let found = samples(&[gauge, sum].concat()).expect("are metrics");
        let attributes = r#"[("client-id", "c"), ("node", "1")]"#.to_owned();
        assert_eq!(found[0], ("org.a".to_owned(), 1.5, false, attributes));
        assert_eq!(found[1], ("org.b".to_owned(), 7.0, true, "[]".to_owned()));
        assert_eq!(samples(&[]), Ok(Vec::new()));
    }

    #[test]
    fn integers_are_numbers_too() {
        let mut point = vec![6 << 3 | 1];
        point.extend((-3_i64).to_le_bytes());
        let metric = [field(1, b"n"), field(5, &field(1, &point))].concat();
        let found = samples(&field(1, &field(2, &field(2, &metric)))).expect("are metrics");
        assert_eq!(found, [("n".to_owned(), -3.0, false, "[]".to_owned())]);
    }

    #[test]
    fn no_beginning_and_no_flipped_byte_is_a_panic() {
        let whole = metrics_data("org.a", true, 1.5, &[("client-id", "c")]);
        for end in 1..whole.len() {
            assert_eq!(samples(&whole[..end]), Err(NotMetrics), "{end}");
        }
        for place in 0..whole.len() {
            for byte in 0..=u8::MAX {
                let mut damaged = whole.clone();
                damaged[place] = byte;
                let _ = samples(&damaged);
            }
        }
    }
}
