//! The simulation's source of chance.

/// A small seeded generator: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that gives the same numbers whenever it gets the same seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end`, exclusive; the slight bias of the remainder does not matter.
    ///
    /// # Panics
    ///
    /// If `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "there is no number below 0");
        (self.next_u64() % end as u64) as usize
    }

    /// True as often as not.
    pub fn coin(&mut self) -> bool {
        self.next_u64() & 1 == 1
    }

    /// How much of a group of unsynced changes a crash takes: decided once for the group, so
    /// that also the extremes are met.
    pub(super) fn survival(&mut self) -> Survival {
        match self.below(4) {
            0 => Survival::None,
            1 => Survival::All,
            _ => Survival::EachByChance,
        }
    }
}

/// Which of some unsynced changes survive a crash.
#[derive(Debug, Clone, Copy)]
pub(super) enum Survival {
    None,
    All,
    EachByChance,
}

impl Survival {
    /// Decides about one change.
    pub(super) fn survives(self, rng: &mut Rng) -> bool {
        match self {
            Survival::None => false,
            Survival::All => true,
            Survival::EachByChance => rng.coin(),
        }
    }
}
