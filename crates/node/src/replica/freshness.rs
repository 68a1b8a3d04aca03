//! How old what a follower shows may be.
//!
//! Each answer of a leader tells the high watermarks that have risen since the answer before, of all partitions of the
//! session whose ends it was told. So an answer says of these, without naming them, that there was no more to show when it was
//! made. The moment of the request counts, since the answer was made then or later. Of a replica that is not in sync it says
//! less: what is held back by a bound is not named.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logway_model::{LeaderEpoch, Offset};

/// The requests of a fetch session that a leader has answered.
#[derive(Debug, Default)]
pub(crate) struct Answered(Mutex<Option<AskedAt>>);

/// A request that asks for what is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AskedAt {
    /// Its number in the session.
    pub(crate) number: u32,
    /// When it was made, of the steady time.
    pub(crate) at: Duration,
}

impl Answered {
    /// The leader has answered a request.
    pub(crate) fn note(&self, asked: AskedAt) {
        *self.last() = Some(asked);
    }

    fn last(&self) -> MutexGuard<'_, Option<AskedAt>> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a follower knows of the age of what it shows, in one leader epoch.
#[derive(Debug, Default)]
pub(crate) struct Freshness {
    epoch: Option<LeaderEpoch>,
    /// The last high watermark that the leader has told, and when it was asked.
    told: Option<(Offset, Duration)>,
    /// Answers to requests from this number on are about the partition also where they do not name it.
    covered: Option<(Arc<Answered>, u32)>,
    /// When it last showed all that had been told by then.
    known: Option<Duration>,
}

impl Freshness {
    /// What is known in an epoch by a follower that shows what is below its high watermark, `shown`. A later word may say
    /// that there is more: what was known until then is kept.
    fn settled(&mut self, epoch: LeaderEpoch, shown: Offset) -> &mut Freshness {
        match self.epoch == Some(epoch) {
            true => self.known = self.fresh_at(epoch, shown),
            false => *self = Freshness { epoch: Some(epoch), ..Freshness::default() },
        }
        self
    }

    /// The leader has named the partition in an answer, with its high watermark. If it `awaits` the follower, it says no more
    /// before that tells its end.
    pub(crate) fn on_told(
        &mut self,
        (epoch, shown): (LeaderEpoch, Offset),
        high_watermark: Offset,
        asked_at: Duration,
        awaits: bool,
    ) {
        let this = self.settled(epoch, shown);
        this.told = Some((high_watermark, asked_at));
        if awaits {
            this.covered = None;
        }
    }

    /// The leader has told an error: it says no more before the follower tells its end.
    pub(crate) fn on_error(&mut self, (epoch, shown): (LeaderEpoch, Offset)) {
        self.settled(epoch, shown).covered = None;
    }

    /// The leader is told the follower's end, with the request of this number.
    pub(crate) fn on_end_told(
        &mut self,
        (epoch, shown): (LeaderEpoch, Offset),
        by: &Arc<Answered>,
        number: u32,
    ) {
        self.settled(epoch, shown).covered = Some((Arc::clone(by), number));
    }

    /// When the follower last showed all that its leader did, as far as it knows.
    pub(crate) fn fresh_at(&self, epoch: LeaderEpoch, shown: Offset) -> Option<Duration> {
        if self.epoch != Some(epoch) {
            return None;
        }
        let told = self.told.filter(|(high_watermark, _)| shown >= *high_watermark);
        let Some((_, told_at)) = told else { return self.known };
        let answered = self.covered.as_ref().and_then(|(answered, from)| {
            let last = (*answered.last())?;
            (last.number >= *from).then_some(last.at)
        });
        Some(told_at).max(answered).max(self.known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: LeaderEpoch = LeaderEpoch(3);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_that_does_not_name_a_partition_says_that_nothing_is_new() {
        let answered = Arc::new(Answered::default());
        let mut freshness = Freshness::default();
        let five = (EPOCH, Offset(5));
        let fresh_at = |it: &Freshness, shown| it.fresh_at(EPOCH, Offset(shown));
        assert_eq!(fresh_at(&freshness, 5), None, "nothing was heard");
        freshness.on_end_told(five, &answered, 1);
        answered.note(AskedAt { number: 1, at: seconds(1) });
        assert_eq!(fresh_at(&freshness, 5), None, "no watermark was told");
        freshness.on_told(five, Offset(5), seconds(2), false);
        assert_eq!(fresh_at(&freshness, 5), Some(seconds(2)));
        answered.note(AskedAt { number: 2, at: seconds(3) });
        assert_eq!(fresh_at(&freshness, 5), Some(seconds(3)));

        // With records the leader waits to be told: answers say nothing of the partition.
        freshness.on_told(five, Offset(7), seconds(4), true);
        answered.note(AskedAt { number: 4, at: seconds(5) });
        assert_eq!(fresh_at(&freshness, 5), Some(seconds(3)), "it lacks what is shown since");
        assert_eq!(fresh_at(&freshness, 7), Some(seconds(4)), "it has taken them");
        freshness.on_end_told((EPOCH, Offset(7)), &answered, 6);
        assert_eq!(fresh_at(&freshness, 7), Some(seconds(4)), "not answered yet");
        answered.note(AskedAt { number: 6, at: seconds(6) });
        assert_eq!(fresh_at(&freshness, 7), Some(seconds(6)));
        freshness.on_error((EPOCH, Offset(7)));
        answered.note(AskedAt { number: 7, at: seconds(7) });
        assert_eq!(fresh_at(&freshness, 7), Some(seconds(6)));

        assert_eq!(freshness.fresh_at(LeaderEpoch(4), Offset(7)), None, "of another leader");
        freshness.on_told((LeaderEpoch(4), Offset(7)), Offset(9), seconds(8), false);
        assert_eq!(freshness.fresh_at(LeaderEpoch(4), Offset(7)), None);
    }
}
