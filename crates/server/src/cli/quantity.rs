//! Counts and sizes as people read them.

/// A size with a binary unit, e.g. `1.5 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut name = "B";
    for unit in UNITS {
        // What would be shown as 1024.0 is one of the next unit.
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        name = unit;
    }
    match name {
        "B" => format!("{bytes} B"),
        _ => format!("{value:.1} {name}"),
    }
}

/// A count with its thousands set apart, e.g. `1,234,567`.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_readable() {
        let sizes = [0, 1023, 1024, 1536, 1 << 20, (1 << 20) - 1, u64::MAX].map(bytes);
        assert_eq!(
            sizes,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "16.0 EiB"]
        );
        let counts = [0, 999, 1000, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
    }
}
