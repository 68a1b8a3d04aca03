//! What was sent, and what came back.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use logway_model::ErrorCode;

/// The sums over some sessions.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Sessions sent.
    pub sessions: u64,
    /// Frames in them.
    pub frames: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Whole answers.
    pub answers: u64,
    /// Connections that the broker ended, of those that were waited for.
    pub ended: u64,
    /// Connections on which there was nothing more for a while, and which were left.
    pub left: u64,
    /// How often each error code was in an answer, 0 among them.
    pub error_codes: BTreeMap<i16, u64>,
    /// Answers that are none to what was sent. There must not be any.
    pub wrong_answers: Vec<String>,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.sessions += other.sessions;
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.answers += other.answers;
        self.ended += other.ended;
        self.left += other.left;
        for (code, count) in other.error_codes {
            *self.error_codes.entry(code).or_default() += count;
        }
        self.wrong_answers.extend(other.wrong_answers);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { sessions, frames, bytes, answers, ended, left, .. } = self;
        writeln!(f, "{sessions} sessions, {frames} frames, {bytes} bytes")?;
        writeln!(f, "{answers} answers; {ended} connections ended by the broker, {left} left")?;
        let mut by_count: Vec<_> = self.error_codes.iter().collect();
        by_count.sort_by_key(|&(code, count)| (std::cmp::Reverse(count), code));
        for (&code, count) in by_count {
            let name = ErrorCode::from_code(code).map_or("unknown", ErrorCode::name);
            writeln!(f, "{count:>12} {name} ({code})")?;
        }
        self.wrong_answers.iter().try_for_each(|wrong| writeln!(f, "wrong: {wrong}"))
    }
}
