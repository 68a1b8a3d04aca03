//! What travels: a body with headers.

use bytes::Bytes;

/// What an event takes in memory beside its texts, about.
const OVERHEAD_BYTES: usize = 64;

/// A body of bytes, and headers by which it is routed. Flume's event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// What is said of the body.
    pub(crate) headers: Headers,
    /// What arose somewhere; a line, without its end.
    pub(crate) body: Bytes,
}

impl Event {
    /// An event without headers.
    pub(crate) fn new(body: impl Into<Bytes>) -> Event {
        Event { headers: Headers::default(), body: body.into() }
    }

    /// What it counts against the bounds of a channel.
    pub(crate) fn size_bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        OVERHEAD_BYTES + self.body.len() + headers.sum::<usize>()
    }
}

/// Names with a value each, in the order in which they were set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Headers(Vec<(Box<str>, Box<str>)>);

impl Headers {
    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| &**n == name).map(|(_, value)| &**value)
    }

    /// Sets a value, in place of the one that was there.
    pub(crate) fn set(&mut self, name: impl Into<Box<str>>, value: impl Into<Box<str>>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Adds names that are known to differ, as a decoder of a map finds them; the last of two equal
    /// ones holds.
    pub(crate) fn from_pairs(pairs: Vec<(Box<str>, Box<str>)>) -> Headers {
        let mut seen = std::collections::HashSet::new();
        let is_last: Vec<bool> = pairs.iter().rev().map(|(name, _)| seen.insert(name)).collect();
        if is_last.iter().all(|is_last| *is_last) {
            return Headers(pairs);
        }
        let kept = pairs.into_iter().zip(is_last.into_iter().rev());
        Headers(kept.filter(|(_, is_last)| *is_last).map(|(pair, _)| pair).collect())
    }

    /// Keeps the names that are wanted.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(&str, &str) -> bool) {
        self.0.retain(|(name, value)| is_wanted(name, value));
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Headers {
        Headers::from_pairs(pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_names_the_last_holds() {
        let headers: Headers = [("a", "1"), ("b", "2"), ("a", "3")].into_iter().collect();
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("b", "2"), ("a", "3")]);
        let mut headers = headers;
        headers.set("b", "4");
        assert_eq!(headers.get("b"), Some("4"));
        headers.retain(|name, _| name != "a");
        assert_eq!(headers.len(), 1);
    }
}
