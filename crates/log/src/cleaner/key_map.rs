//! The newest offset of each key.

use logway_model::Offset;

use super::key_hash::{KeyHash, KeyHasher};

/// Which offset is the newest of a key, for as many keys as fit into so much memory.
///
/// Keys are known by a hash that is another one for every map, so that nobody can prepare keys that
/// collide. It takes memory as it fills, and none before the first key: most logs have far fewer keys than
/// the buffer has room for.
pub(super) struct KeyMap {
    hasher: KeyHasher,
    slots: Vec<Slot>,
    len: usize,
    slots_max: usize,
}

/// An entry; one whose offset is [`Slot::FREE`] is none.
#[derive(Clone, Copy)]
struct Slot {
    hash: KeyHash,
    offset: i64,
}

impl Slot {
    const FREE: i64 = -1;
    const NONE: Slot = Slot { hash: KeyHash([0; 2]), offset: Slot::FREE };
}

const SLOTS_MIN: usize = 1024;

impl KeyMap {
    /// An empty map that takes at most about `bytes_max`, also while it grows; at least 24 KiB.
    pub(super) fn new(bytes_max: usize) -> KeyMap {
        let slots_max = (bytes_max / size_of::<Slot>()).max(SLOTS_MIN);
        KeyMap { hasher: KeyHasher::random(), slots: Vec::new(), len: 0, slots_max }
    }

    /// What makes the hashes by which the map knows the keys.
    pub(super) fn hasher(&self) -> KeyHasher {
        self.hasher.clone()
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The newest offset of a key.
    pub(super) fn get(&self, key: KeyHash) -> Option<Offset> {
        if self.slots.is_empty() {
            return None;
        }
        let slot = self.slots[self.find(key)];
        (slot.offset != Slot::FREE).then_some(Offset(slot.offset))
    }

    /// Notes a record of a key, unless a newer one is known; `false`, with nothing done, if there is
    /// no room for the key.
    #[must_use]
    pub(super) fn put(&mut self, key: KeyHash, offset: Offset) -> bool {
        if !self.slots.is_empty() {
            let index = self.find(key);
            if self.slots[index].offset != Slot::FREE {
                self.slots[index].offset = self.slots[index].offset.max(offset.0);
                return true;
            }
        }
        if self.len >= room_in(self.slots.len()) && !self.grow() {
            return false;
        }
        let index = self.find(key);
        self.slots[index] = Slot { hash: key, offset: offset.0 };
        self.len += 1;
        true
    }

    /// Where a key is, or where it goes. There is a free slot.
    fn find(&self, hash: KeyHash) -> usize {
        // The high bits choose the slot, which for a random hash is as good as a remainder.
        let mut index = ((u128::from(hash.0[0]) * self.slots.len() as u128) >> 64) as usize;
        while self.slots[index].offset != Slot::FREE && self.slots[index].hash != hash {
            index += 1;
            if index == self.slots.len() {
                index = 0;
            }
        }
        index
    }

    /// Makes room, if the old slots and the new ones fit side by side.
    fn grow(&mut self) -> bool {
        let old = self.slots.len();
        let new = (old * 2).max(SLOTS_MIN).min(self.slots_max.saturating_sub(old));
        // Moving all for less is not worth it.
        if new < old + old / 4 || new == 0 {
            return false;
        }
        let old = std::mem::replace(&mut self.slots, vec![Slot::NONE; new]);
        for slot in old.into_iter().filter(|slot| slot.offset != Slot::FREE) {
            let index = self.find(slot.hash);
            self.slots[index] = slot;
        }
        true
    }
}

/// How many keys so many slots hold: above that, look-ups become slow.
fn room_in(slots: usize) -> usize {
    slots - slots / 4
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    impl KeyMap {
        fn hash(&self, key: &[u8]) -> KeyHash {
            let mut hasher = self.hasher();
            hasher.update(key);
            hasher.finish()
        }
    }

    #[test]
    fn it_knows_the_newest_offset_of_each_key() {
        let mut map = KeyMap::new(1 << 20);
        let mut model: HashMap<Vec<u8>, i64> = HashMap::new();
        for offset in 0..100_000i64 {
            let key = format!("key-{}", offset * 7919 % 10_007).into_bytes();
            assert!(map.put(map.hash(&key), Offset(offset)));
            model.insert(key, offset);
        }
        assert_eq!(map.len(), model.len());
        for (key, &offset) in &model {
            assert_eq!(map.get(map.hash(key)), Some(Offset(offset)));
        }
        assert_eq!(map.get(map.hash(b"another")), None);
        assert!(map.put(map.hash(b"key-1"), Offset(3)));
        assert!(map.get(map.hash(b"key-1")) > Some(Offset(3)), "an older record is not the newest");
    }

    #[test]
    fn it_takes_no_more_memory_than_it_may() {
        assert_eq!(KeyMap::new(1 << 30).slots.capacity(), 0, "nothing before the first key");
        let empty = KeyMap::new(1 << 30);
        assert_eq!(empty.get(empty.hash(b"key")), None);
        for bytes_max in [0, 100_000, 1_000_000] {
            let mut map = KeyMap::new(bytes_max);
            let mut keys = 0u64;
            while map.put(map.hash(&keys.to_be_bytes()), Offset(keys as i64)) {
                keys += 1;
            }
            assert!(map.slots.capacity() * 24 <= bytes_max.max(24 * SLOTS_MIN), "{bytes_max}");
            assert!(keys as usize >= (bytes_max / 24 / 3).max(700), "{keys} of {bytes_max} bytes");
            let first = map.hash(&0u64.to_be_bytes());
            assert!(map.put(first, Offset(1 << 40)), "a known key has its place");
            assert_eq!(map.get(first), Some(Offset(1 << 40)));
            assert_eq!(map.len() as u64, keys);
        }
    }
}
