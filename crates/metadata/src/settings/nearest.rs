//! Which name somebody who mistyped one may have meant.

/// Names longer than this resemble none: a stranger's text must not cost much time.
const LENGTH_MAX_BYTES: usize = 64;

/// The name that takes the fewest single-letter edits to reach, if that is no more than a third of
/// the letters.
pub(super) fn nearest(
    name: &str,
    names: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    if name.len() > LENGTH_MAX_BYTES {
        return None;
    }
    let lower = name.to_ascii_lowercase().replace('_', ".");
    let (edits, best) =
        names.map(|other| (edit_distance(&lower, other), other)).min_by_key(|&(edits, _)| edits)?;
    (edits <= name.len() / 3).then_some(best)
}

/// The Levenshtein distance, over bytes, in one row of the usual matrix.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte_a) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, byte_b) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(byte_a != byte_b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, edits) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("abc", "abc", 0)]
        {
            assert_eq!(edit_distance(a, b), edits, "{a} {b}");
            assert_eq!(edit_distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn only_a_resembling_name_is_suggested() {
        let names = || ["retention.ms", "retention.bytes", "segment.ms"].into_iter();
        assert_eq!(nearest("retention.mss", names()), Some("retention.ms"));
        assert_eq!(nearest("RETENTION_MS", names()), Some("retention.ms"));
        assert_eq!(nearest("banana", names()), None);
        assert_eq!(nearest("", names()), None);
        assert_eq!(nearest(&"x".repeat(100_000), names()), None);
    }
}
