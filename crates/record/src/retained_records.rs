//! Which records of a batch stay.

/// Which records of a batch stay when it is rewritten, by their place in it: a bit for each.
#[derive(Debug, Clone, Default)]
pub struct RetainedRecords {
    bits: Vec<u64>,
    len: usize,
    retained: usize,
}

impl RetainedRecords {
    /// Takes note of the next record.
    pub fn push(&mut self, is_retained: bool) {
        let bit = self.len % WORD_BITS;
        if bit == 0 {
            self.bits.push(0);
        }
        if is_retained && let Some(word) = self.bits.last_mut() {
            *word |= 1 << bit;
            self.retained += 1;
        }
        self.len += 1;
    }

    /// Whether the record at this place stays; one that was not noted does not.
    pub fn contains(&self, index: usize) -> bool {
        self.bits.get(index / WORD_BITS).is_some_and(|word| word >> (index % WORD_BITS) & 1 == 1)
    }

    /// How many stay.
    pub fn retained(&self) -> usize {
        self.retained
    }

    /// How many do not.
    pub fn removed(&self) -> usize {
        self.len - self.retained
    }
}

const WORD_BITS: usize = u64::BITS as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_remembered() {
        let mut retained = RetainedRecords::default();
        (0..1000).for_each(|index| retained.push(index % 3 == 0 || index % 64 == 63));
        for index in 0..1000 {
            assert_eq!(retained.contains(index), index % 3 == 0 || index % 64 == 63, "{index}");
        }
        assert!(!retained.contains(1000) && !retained.contains(usize::MAX));
        assert_eq!(retained.retained() + retained.removed(), 1000);
        assert_eq!(
            retained.retained(),
            (0..1000).filter(|&index| retained.contains(index)).count()
        );
    }
}
