//! Offsets that are done with although others before them are not.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use logway_model::Offset;

/// A set of offsets, as ranges.
///
/// As a text it is relative to an offset before: `3+10 1+2` is three that are open, ten that are done, one that is
/// open, and two that are done.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::channel) struct Done {
    /// The end of each range, by its start. No two touch.
    ranges: BTreeMap<i64, i64>,
}

impl Done {
    pub(in crate::channel) fn insert(&mut self, offset: Offset) {
        self.insert_range(offset..offset + 1);
    }

    pub(in crate::channel) fn insert_range(&mut self, range: Range<Offset>) {
        let (mut start, mut end) = (range.start.0, range.end.0);
        if start >= end {
            return;
        }
        while let Some((&other, &other_end)) = self.ranges.range(..=end).next_back()
            && other_end >= start
        {
            self.ranges.remove(&other);
            (start, end) = (start.min(other), end.max(other_end));
        }
        self.ranges.insert(start, end);
    }

    pub(in crate::channel) fn contains(&self, offset: Offset) -> bool {
        self.next_open(offset) != offset
    }

    /// The first offset from this one on that is not done with.
    pub(in crate::channel) fn next_open(&self, offset: Offset) -> Offset {
        let range = self.ranges.range(..=offset.0).next_back();
        Offset(range.map_or(offset.0, |(_, &end)| end.max(offset.0)))
    }

    pub(in crate::channel) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many there are.
    pub(in crate::channel) fn count(&self) -> u64 {
        let count = |(start, end): (&i64, &i64)| u64::try_from(end - start).unwrap_or(0);
        self.ranges.iter().map(count).sum()
    }

    /// How many of a range are among them.
    pub(in crate::channel) fn count_in(&self, range: Range<Offset>) -> u64 {
        let mut part = self.clone();
        part.keep_only(range);
        part.count()
    }

    /// Leaves out those outside of a range.
    pub(in crate::channel) fn keep_only(&mut self, kept: Range<Offset>) {
        let clip = |(start, end): (i64, i64)| (start.max(kept.start.0), end.min(kept.end.0));
        if self.ranges.first_key_value().is_some_and(|(start, _)| *start < kept.start.0)
            || self.ranges.last_key_value().is_some_and(|(_, end)| *end > kept.end.0)
        {
            let clipped = std::mem::take(&mut self.ranges).into_iter().map(clip);
            self.ranges = clipped.filter(|(start, end)| start < end).collect();
        }
    }

    /// Leaves out those before an offset.
    pub(in crate::channel) fn forget_before(&mut self, offset: Offset) {
        while let Some(first) = self.ranges.first_entry()
            && *first.key() < offset.0
        {
            let (_, end) = first.remove_entry();
            if end > offset.0 {
                self.ranges.insert(offset.0, end);
            }
        }
    }

    /// A text of at most so many bytes, of what is not before `base`. What has no room in it is left out, the highest
    /// first.
    pub(in crate::channel) fn to_text(&self, base: Offset, bytes_max: usize) -> String {
        let (mut text, mut at) = (String::new(), base.0);
        for (&start, &end) in &self.ranges {
            let (start, before) = (start.max(at), text.len());
            if start >= end {
                continue;
            }
            let space = if text.is_empty() { "" } else { " " };
            // Into a text, that does not fail.
            let _ = write!(text, "{space}{}+{}", start - at, end - start);
            if text.len() > bytes_max {
                text.truncate(before);
                break;
            }
            at = end;
        }
        text
    }

    /// `None` if it is no such text.
    pub(in crate::channel) fn from_text(base: Offset, text: &str) -> Option<Done> {
        let (mut done, mut at) = (Done::default(), base.0);
        for pair in text.split_ascii_whitespace() {
            let (open, count) = pair.split_once('+')?;
            let (open, count): (u32, u32) = (open.parse().ok()?, count.parse().ok()?);
            let start = at.checked_add(i64::from(open))?;
            at = start.checked_add(i64::from(count))?;
            done.insert_range(Offset(start)..Offset(at));
        }
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn offsets(done: &Done) -> Vec<i64> {
        (0..50).filter(|&offset| done.contains(Offset(offset))).collect()
    }

    #[test]
    fn it_is_a_set_whatever_the_order() {
        let (mut done, mut expected) = (Done::default(), BTreeSet::new());
        let mut state = 7_i64;
        for _ in 0..200 {
            state = (state * 1_103_515_245 + 12_345) % (1 << 31);
            let start = state % 45;
            let end = start + state / 64 % 5;
            done.insert_range(Offset(start)..Offset(end));
            expected.extend(start..end);
            if done.ranges.len() > 6 {
                done.forget_before(Offset(start));
                expected = expected.split_off(&start);
            }
            assert_eq!(offsets(&done), expected.iter().copied().collect::<Vec<_>>());
            assert_eq!(done.count(), expected.len() as u64);
            let text = done.to_text(Offset(0), usize::MAX);
            assert_eq!(Done::from_text(Offset(0), &text), Some(done.clone()), "{text}");
            let part = expected.range(10..30).count() as u64;
            assert_eq!(done.count_in(Offset(10)..Offset(30)), part);
        }
    }

    #[test]
    fn a_text_has_the_lowest_and_is_as_long_as_it_may_be() {
        let mut done = Done::default();
        for offset in [12, 15, 16, 30] {
            done.insert(Offset(offset));
        }
        assert_eq!(done.to_text(Offset(10), 100), "2+1 2+2 13+1");
        let short = done.to_text(Offset(10), 8);
        assert_eq!(short, "2+1 2+2");
        let read = Done::from_text(Offset(10), &short).expect("our own");
        assert_eq!(offsets(&read), [12, 15, 16]);
        assert_eq!(done.to_text(Offset(16), 100), "0+1 13+1", "what is before is left out");
        assert_eq!(Done::from_text(Offset(0), ""), Some(Done::default()));
        for text in ["2", "2+", "-1+4", "a+b", "1+99999999999"] {
            assert_eq!(Done::from_text(Offset(0), text), None, "{text}");
        }
    }

    #[test]
    fn it_says_where_to_go_on() {
        let mut done = Done::default();
        done.insert_range(Offset(5)..Offset(9));
        assert_eq!(done.next_open(Offset(4)), Offset(4));
        assert_eq!(done.next_open(Offset(6)), Offset(9));
        assert_eq!(done.next_open(Offset(9)), Offset(9));
        done.keep_only(Offset(6)..Offset(8));
        assert_eq!(offsets(&done), [6, 7]);
    }
}
