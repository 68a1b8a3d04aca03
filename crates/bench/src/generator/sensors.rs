//! Sensor data that follow from a seed, for those who have no file of them.

use std::io::Write;

/// Columns of a record, as in the data set of the DEBS grand challenge of 2012.
const COLUMNS: usize = 66;

/// Of those the first two say when and which.
const READINGS: usize = COLUMNS - 2;

/// Readings that wander; the others are switches, one bit of a random number each.
const WANDERING: usize = 8;

/// Where readings begin, and between what they stay.
const READING: i64 = 500;
const READING_BOUNDS: [i64; 2] = [100, 999];

/// Lines of a time stamp, a number, and readings, separated by tabs; without end.
///
/// All are equally long, so that a rate in records is one in requests.
#[derive(Debug, Clone)]
pub(crate) struct SensorRecords {
    state: u64,
    number: u64,
    wandering: [i64; WANDERING],
}

impl SensorRecords {
    pub(crate) fn new(seed: u64) -> SensorRecords {
        SensorRecords { state: seed, number: 0, wandering: [READING; WANDERING] }
    }

    /// Replaces `line` with the next one.
    pub(crate) fn next_into(&mut self, line: &mut Vec<u8>) {
        let number = self.number;
        self.number += 1;
        line.clear();
        let (second, millisecond) = (number / 1000 % 60, number % 1000);
        write!(line, "2012-02-22T16:46:{second:02}.{millisecond:03}\t{number:012}")
            .expect("memory takes everything");
        let [least, most] = READING_BOUNDS;
        // Some sensors measure, most switch.
        for at in 0..WANDERING {
            let change = (self.random() % 21) as i64 - 10;
            self.wandering[at] = (self.wandering[at] + change).clamp(least, most);
            write!(line, "\t{}", self.wandering[at]).expect("memory takes everything");
        }
        let switches = self.random();
        for at in 0..READINGS - WANDERING {
            line.extend_from_slice(if switches >> at & 1 == 1 { b"\t1" } else { b"\t0" });
        }
    }

    /// splitmix64
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_their_columns_and_follow_from_the_seed() {
        let lines = |seed| {
            let mut records = SensorRecords::new(seed);
            let next = move || {
                let mut line = b"what was before".to_vec();
                records.next_into(&mut line);
                line
            };
            std::iter::repeat_with(next).take(100).collect::<Vec<_>>()
        };
        let length = lines(7)[0].len();
        for line in lines(7) {
            assert_eq!(line.len(), length);
            assert_eq!(line.split(|&byte| byte == b'\t').count(), COLUMNS);
        }
        assert_eq!(lines(7), lines(7));
        assert_ne!(lines(7), lines(8));
        assert_ne!(lines(7)[1][36..], lines(7)[2][36..]);
    }
}
