//! What a world went through.

use std::fmt;
use std::ops::AddAssign;

/// How much was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Worlds.
    pub seeds: u64,
    /// Times that the power went, in the middle of a change of the disk or at rest.
    pub power_cuts: u64,
    /// Times that the process was killed, so that the page cache survived.
    pub kills: u64,
    /// Those of both that struck while the world was starting.
    pub in_starts: u64,
    /// Times that all was closed in good order.
    pub closes: u64,
    /// Lives in which some operation of the disk was to fail.
    pub faulty_lives: u64,
    /// Changes of the disk: each is a point at which the power could have gone.
    pub changes: u64,
    /// Rounds that were put on stable storage by the journal.
    pub journalled: u64,
    /// Rounds of writers that were done by the thread that appends.
    pub inline_rounds: u64,
    /// Batches that were acknowledged.
    pub batches: u64,
    /// Appends of followers that were acknowledged.
    pub followed: u64,
    /// Ends that were cut off, and logs that started anew.
    pub truncations: u64,
    /// Offsets of groups whose commit was acknowledged.
    pub commits: u64,
    /// Times that logs began to be compacted.
    pub cleanings: u64,
    /// Records that compaction was seen to have taken away.
    pub compacted: u64,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.seeds += other.seeds;
        self.power_cuts += other.power_cuts;
        self.kills += other.kills;
        self.in_starts += other.in_starts;
        self.closes += other.closes;
        self.faulty_lives += other.faulty_lives;
        self.changes += other.changes;
        self.journalled += other.journalled;
        self.inline_rounds += other.inline_rounds;
        self.batches += other.batches;
        self.followed += other.followed;
        self.truncations += other.truncations;
        self.commits += other.commits;
        self.cleanings += other.cleanings;
        self.compacted += other.compacted;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { seeds, power_cuts, kills, in_starts, closes, .. } = self;
        let Report { faulty_lives, changes, journalled, inline_rounds, .. } = self;
        let Report { batches, followed, truncations, commits, compacted, .. } = self;
        write!(
            f,
            "{seeds} seeds: {power_cuts} power cuts and {kills} kills ({in_starts} of them during a \
             start), {closes} clean stops, {faulty_lives} lives with a failing disk, {changes} changes \
             of the disk, {journalled} rounds journalled, {inline_rounds} rounds done by who appends, \
             {batches} batches, {followed} appends of followers, {truncations} truncations and \
             {commits} commits acknowledged, {compacted} records compacted away"
        )
    }
}
