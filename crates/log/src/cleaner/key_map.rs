//! The newest offset of each key.

use std::hash::{BuildHasher, Hasher, RandomState};

use logway_model::Offset;

/// Which offset is the newest of a key, for as many keys as fit into so much memory.
///
/// Keys are known by 128 bits of a hash: two halves of SipHash, each under a key of its own that is
/// drawn anew for every map. That two keys of 10^9 collide by chance has a probability of 10^-21,
/// and nobody can make them: Apache Kafka's MD5 is not keyed, so that whoever may write to a topic
/// can prepare two keys of which the cleaner takes one for the other, and drops its record.
///
/// It takes memory as it fills, and none before the first key: most logs have far fewer keys than
/// the buffer has room for.
pub(super) struct KeyMap {
    hashers: [RandomState; 2],
    slots: Vec<Slot>,
    len: usize,
    slots_max: usize,
}

/// An entry; one whose offset is [`Slot::FREE`] is none.
#[derive(Clone, Copy)]
struct Slot {
    hash: [u64; 2],
    offset: i64,
}

impl Slot {
    const FREE: i64 = -1;
    const NONE: Slot = Slot { hash: [0; 2], offset: Slot::FREE };
}

const SLOTS_MIN: usize = 1024;

impl KeyMap {
    /// An empty map that takes at most about `bytes_max`, also while it grows; at least 24 KiB.
    pub(super) fn new(bytes_max: usize) -> KeyMap {
        let slots_max = (bytes_max / size_of::<Slot>()).max(SLOTS_MIN);
        let hashers = [RandomState::new(), RandomState::new()];
        KeyMap { hashers, slots: Vec::new(), len: 0, slots_max }
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The newest offset of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<Offset> {
        if self.slots.is_empty() {
            return None;
        }
        let slot = self.slots[self.find(self.hash(key))];
        (slot.offset != Slot::FREE).then_some(Offset(slot.offset))
    }

    /// Notes a record of a key, unless a newer one is known; `false`, with nothing done, if there is
    /// no room for the key.
    #[must_use]
    pub(super) fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        let hash = self.hash(key);
        if !self.slots.is_empty() {
            let index = self.find(hash);
            if self.slots[index].offset != Slot::FREE {
                self.slots[index].offset = self.slots[index].offset.max(offset.0);
                return true;
            }
        }
        if self.len >= room_in(self.slots.len()) && !self.grow() {
            return false;
        }
        let index = self.find(hash);
        self.slots[index] = Slot { hash, offset: offset.0 };
        self.len += 1;
        true
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        [0, 1].map(|half| {
            let mut hasher = self.hashers[half].build_hasher();
            hasher.write(key);
            hasher.finish()
        })
    }

    /// Where a key is, or where it goes. There is a free slot.
    fn find(&self, hash: [u64; 2]) -> usize {
        // The high bits choose the slot, which for a random hash is as good as a remainder.
        let mut index = ((u128::from(hash[0]) * self.slots.len() as u128) >> 64) as usize;
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

    #[test]
    fn it_knows_the_newest_offset_of_each_key() {
        let mut map = KeyMap::new(1 << 20);
        let mut model: HashMap<Vec<u8>, i64> = HashMap::new();
        for offset in 0..100_000i64 {
            let key = format!("key-{}", offset * 7919 % 10_007).into_bytes();
            assert!(map.put(&key, Offset(offset)));
            model.insert(key, offset);
        }
        assert_eq!(map.len(), model.len());
        for (key, &offset) in &model {
            assert_eq!(map.get(key), Some(Offset(offset)));
        }
        assert_eq!(map.get(b"another"), None);
        assert!(map.put(b"key-1", Offset(3)));
        assert!(map.get(b"key-1") > Some(Offset(3)), "an older record is not the newest");
    }

    #[test]
    fn it_takes_no_more_memory_than_it_may() {
        assert_eq!(KeyMap::new(1 << 30).slots.capacity(), 0, "nothing before the first key");
        assert_eq!(KeyMap::new(1 << 30).get(b"key"), None);
        for bytes_max in [0, 100_000, 1_000_000] {
            let mut map = KeyMap::new(bytes_max);
            let mut keys = 0u64;
            while map.put(&keys.to_be_bytes(), Offset(keys as i64)) {
                keys += 1;
            }
            assert!(map.slots.capacity() * 24 <= bytes_max.max(24 * SLOTS_MIN), "{bytes_max}");
            assert!(keys as usize >= (bytes_max / 24 / 3).max(700), "{keys} of {bytes_max} bytes");
            assert!(map.put(&0u64.to_be_bytes(), Offset(1 << 40)), "a known key has its place");
            assert_eq!(map.get(&0u64.to_be_bytes()), Some(Offset(1 << 40)));
            assert_eq!(map.len() as u64, keys);
        }
    }
}
