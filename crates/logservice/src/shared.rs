//! What all who ask for the same thing have in common.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Values by their keys, each kept while somebody has it.
#[derive(Debug)]
pub(crate) struct Shared<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K, V> Default for Shared<K, V> {
    fn default() -> Shared<K, V> {
        Shared(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Default> Shared<K, V> {
    /// The value of a key: that of others who have it, or a new one.
    pub(crate) fn at(&self, key: K) -> Arc<V> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = all.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        all.retain(|_, value| value.strong_count() > 0);
        let value = Arc::default();
        all.insert(key, Arc::downgrade(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_is_forgotten() {
        let all = Shared::<&str, u8>::default();
        let first = all.at("first");
        assert!(Arc::ptr_eq(&first, &all.at("first")));
        drop(first);
        let _second = all.at("second");
        assert_eq!(all.0.lock().expect("is fine").len(), 1);
    }
}
