//! Values that many offsets share, kept once.

use std::collections::HashMap;
use std::hash::Hash;

/// The place of a value in its [`Interner`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Interned(u32);

/// Counts who holds a value; the last to release it frees it.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Never iterated, so its order is of no effect.
    places: HashMap<T, u32>,
}

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    holders: u32,
}

impl<T: Clone + Eq + Hash> Interner<T> {
    pub(crate) fn new() -> Interner<T> {
        Interner { slots: Vec::new(), free: Vec::new(), places: HashMap::new() }
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The place of the value, which is held once more.
    pub(crate) fn hold(&mut self, value: &T) -> Interned {
        if let Some(&place) = self.places.get(value) {
            self.slots[place as usize].holders += 1;
            return Interned(place);
        }
        let slot = Slot { value: Some(value.clone()), holders: 1 };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("memory ends before 2^32 values do")
            }
        };
        self.places.insert(value.clone(), place);
        Interned(place)
    }

    /// Holds it once less.
    pub(crate) fn release(&mut self, place: Interned) {
        let slot = &mut self.slots[place.0 as usize];
        slot.holders -= 1;
        if slot.holders == 0 {
            let value = slot.value.take().expect("a slot with holders has a value");
            self.places.remove(&value);
            self.free.push(place.0);
        }
    }

    /// Where the value is, if anyone holds it.
    pub(crate) fn find(&self, value: &T) -> Option<Interned> {
        self.places.get(value).copied().map(Interned)
    }

    /// The value at a place that is held.
    pub(crate) fn get(&self, place: Interned) -> &T {
        self.slots[place.0 as usize].value.as_ref().expect("a slot with holders has a value")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lives_as_long_as_someone_holds_it() {
        let mut interner = Interner::new();
        let a = interner.hold(&"a");
        let b = interner.hold(&"b");
        assert_eq!(interner.hold(&"a"), a);
        interner.release(a);
        assert_eq!((interner.find(&"a"), interner.get(a)), (Some(a), &"a"));
        interner.release(a);
        assert_eq!(interner.find(&"a"), None);
        assert_eq!(interner.hold(&"c"), a, "the place is used again");
        assert_eq!(interner.get(b), &"b");
    }
}
