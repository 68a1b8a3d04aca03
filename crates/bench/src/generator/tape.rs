//! Requests as they go over the socket, one behind the other.

use std::ops::Range;

/// Enough for one write: many small requests at once, and a large one alone.
pub(super) const WRITE_BYTES: usize = 64 << 10;

/// The correlation id's place in a request frame: after the length, the API key and the version.
const CORRELATION_ID_AT: usize = 8;

/// Gives a request frame the next id.
pub(super) fn set_correlation_id(frame: &mut [u8], next_id: &mut i32) {
    frame[CORRELATION_ID_AT..CORRELATION_ID_AT + 4].copy_from_slice(&next_id.to_be_bytes());
    *next_id = next_id.wrapping_add(1);
}

/// Whole request frames in the order in which they are sent, over and over.
///
/// A run of them is one stretch of memory, so that many leave with one write and none is copied
/// first.
#[derive(Debug, Clone)]
pub(crate) struct Tape {
    bytes: Vec<u8>,
    frames: Vec<Range<usize>>,
    next: usize,
    has_ids: bool,
}

impl Tape {
    /// Different frames of Kafka's protocol, in turn.
    pub(crate) fn of(frames: &[impl AsRef<[u8]>]) -> Tape {
        let mut tape = Tape { bytes: Vec::new(), frames: Vec::new(), next: 0, has_ids: true };
        for frame in frames {
            let start = tape.bytes.len();
            tape.bytes.extend_from_slice(frame.as_ref());
            tape.frames.push(start..tape.bytes.len());
        }
        tape
    }

    /// The same frame again and again, as often as one write may take it, but no more than `most`.
    pub(crate) fn repeating(frame: &[u8], most: usize) -> Tape {
        let copies = (WRITE_BYTES / frame.len().max(1)).clamp(1, most.max(1));
        Tape::of(&vec![frame; copies])
    }

    /// The same for another protocol, whose frames have no correlation ids.
    pub(crate) fn without_ids(self) -> Tape {
        Tape { has_ids: false, ..self }
    }

    /// The next frames that lie together, at most `most` and at least one, as one stretch of the
    /// tape; `prepare` is called with each, its correlation id, if it has one, already in place.
    pub(crate) fn advance(
        &mut self,
        most: usize,
        next_id: &mut i32,
        mut prepare: impl FnMut(&mut [u8]),
    ) -> (Range<usize>, usize) {
        let first = self.next;
        let start = self.frames[first].start;
        let mut taken = 0;
        while taken < most.max(1) && self.next < self.frames.len() {
            let frame = self.frames[self.next].clone();
            if taken > 0 && frame.end - start > WRITE_BYTES {
                break;
            }
            let bytes = &mut self.bytes[frame];
            if self.has_ids {
                set_correlation_id(bytes, next_id);
            }
            prepare(bytes);
            taken += 1;
            self.next += 1;
        }
        let end = self.frames[self.next - 1].end;
        if self.next == self.frames.len() {
            self.next = 0;
        }
        (start..end, taken)
    }

    /// A stretch.
    pub(crate) fn bytes(&self, stretch: Range<usize>) -> &[u8] {
        &self.bytes[stretch]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_turn_with_rising_ids() {
        let mut tape = Tape::of(&[[1_u8; 12].as_slice(), &[2; 20], &[3; 14]]);
        let mut id = 7;
        let (stretch, taken) = tape.advance(2, &mut id, |_| ());
        assert_eq!((stretch.clone(), taken), (0..32, 2));
        assert_eq!(tape.bytes(stretch)[8..12], [0, 0, 0, 7]);
        let (stretch, taken) = tape.advance(9, &mut id, |frame| frame[13] = 99);
        assert_eq!((stretch.clone(), taken), (32..46, 1));
        assert_eq!(tape.bytes(stretch)[8..], [0, 0, 0, 9, 3, 99]);
        assert_eq!(tape.advance(1, &mut id, |_| ()), (0..12, 1));
    }

    #[test]
    fn frames_of_other_protocols_stay_as_they_are() {
        let mut tape = Tape::repeating(&[7; 20], 3).without_ids();
        let mut id = 1;
        let (stretch, taken) = tape.advance(3, &mut id, |_| ());
        assert_eq!((tape.bytes(stretch), taken, id), ([7; 60].as_slice(), 3, 1));
    }

    #[test]
    fn one_write_takes_many_small_frames_or_one_large_one() {
        let mut id = 0;
        let mut small = Tape::repeating(&[0; 1000], 1_000);
        assert_eq!(small.advance(1_000, &mut id, |_| ()), (0..65_000, 65));
        let mut few = Tape::repeating(&[0; 1000], 5);
        assert_eq!(few.advance(1_000, &mut id, |_| ()), (0..5_000, 5));
        let mut large = Tape::repeating(&[0; 1 << 20], 5);
        assert_eq!(large.advance(5, &mut id, |_| ()), (0..1 << 20, 1));
        let mut mixed = Tape::of(&[vec![0; 60_000], vec![0; 10_000]]);
        assert_eq!(mixed.advance(5, &mut id, |_| ()), (0..60_000, 1));
    }
}
