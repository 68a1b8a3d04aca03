//! A client's deadline, as the header `grpc-timeout` says it: up to eight digits and a unit.

use std::time::Duration;

use hyper::HeaderMap;
use tokio::time::Instant;

use super::status::Status;

/// What the client says, from now on; `None` where it says nothing.
pub(crate) fn deadline(headers: &HeaderMap) -> Result<Option<Instant>, Status> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let timeout = value.to_str().ok().and_then(parse);
    let timeout = timeout.ok_or_else(|| Status::invalid("grpc-timeout is no time"))?;
    // What no clock can say is no deadline.
    Ok(Instant::now().checked_add(timeout))
}

fn parse(text: &str) -> Option<Duration> {
    const DIGITS_MAX: usize = 8;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty()
        || digits.len() > DIGITS_MAX
        || !digits.bytes().all(|it| it.is_ascii_digit())
    {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_grpc() {
        for (text, ms) in
            [("1H", 3_600_000), ("2M", 120_000), ("3S", 3_000), ("4m", 4), ("99999999n", 99)]
        {
            assert_eq!(parse(text).map(|it| it.as_millis()), Some(ms), "{text}");
        }
        for text in ["", "S", "1", "-1S", "123456789S", "1s", "1ü", "ü"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
