//! How far what is served is with the metadata, and who waits for that.

use std::sync::Weak;

use logway_model::ErrorCode;
use logway_quorum::MetadataIndex;
use tokio::sync::watch;

use crate::Node;
use crate::failure::Failure;

/// What is asked of the task that follows the metadata, and how far it is.
#[derive(Debug)]
pub(crate) struct Reconciliation {
    /// How often it was asked to look at every topic.
    asked: watch::Sender<u64>,
    progress: watch::Sender<Progress>,
    /// Submissions under way of where replicas were found.
    assigning: watch::Sender<usize>,
    /// How often what is served has changed.
    tables: watch::Sender<u64>,
}

/// The commits whose effects are brought into force together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// They come after this one.
    pub(super) after: MetadataIndex,
    /// The last of them.
    pub(super) last: MetadataIndex,
    /// How often it was asked for every topic when they were found.
    pub(super) asked: u64,
}

impl Span {
    fn contains(&self, index: MetadataIndex) -> bool {
        self.after < index && index <= self.last
    }
}

/// How far the task is.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// The commits up to this one were found.
    found: MetadataIndex,
    /// It was asked for every topic so often when they were.
    asked: u64,
    /// Those whose effects are not in force yet.
    unfinished: Vec<Span>,
    /// The task has ended, and serves no further image.
    is_over: bool,
}

impl Progress {
    fn has(&self, index: MetadataIndex) -> bool {
        self.found >= index && !self.unfinished.iter().any(|span| span.contains(index))
    }

    /// Whether every topic was looked at since it was asked for so often. What was found before may have been brought in
    /// line before.
    fn has_looked(&self, asked: u64) -> bool {
        self.asked >= asked && !self.unfinished.iter().any(|span| span.asked >= asked)
    }
}

impl Default for Reconciliation {
    fn default() -> Reconciliation {
        Reconciliation {
            asked: watch::Sender::new(0),
            progress: watch::Sender::new(Progress::default()),
            assigning: watch::Sender::new(0),
            tables: watch::Sender::new(0),
        }
    }
}

impl Reconciliation {
    /// Waits until the effect of the commit of an index is in force here.
    pub(crate) async fn reached(&self, index: MetadataIndex) -> Result<(), Failure> {
        self.progressed(|progress| progress.has(index)).await
    }

    /// Has every topic looked at once more, whether its metadata has changed or not; returns when that
    /// is done.
    pub(crate) async fn look_at_all(&self) -> Result<(), Failure> {
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            number = *asked;
        });
        self.progressed(|progress| progress.has_looked(number)).await
    }

    /// Waits until the metadata knows where all replicas are that were found elsewhere than it said.
    pub(crate) async fn assigned(&self) {
        let mut assigning = self.assigning.subscribe();
        // The sender is in `self`.
        let _ = assigning.wait_for(|assigning| *assigning == 0).await;
    }

    /// Tells whenever what is served, or in which role, has changed.
    pub(crate) fn tables(&self) -> watch::Receiver<u64> {
        self.tables.subscribe()
    }

    /// What is served has changed.
    pub(super) fn served_anew(&self) {
        self.tables.send_modify(|number| *number += 1);
    }

    /// Tells how often every topic is asked for.
    pub(super) fn asked(&self) -> watch::Receiver<u64> {
        self.asked.subscribe()
    }

    /// The effects of these commits are being brought into force.
    pub(super) fn began(&self, span: Span) {
        self.progress.send_modify(|progress| {
            progress.found = span.last;
            progress.asked = span.asked;
            progress.unfinished.push(span);
        });
    }

    /// They are in force.
    pub(super) fn finished(&self, span: Span) {
        self.progress.send_modify(|progress| progress.unfinished.retain(|other| *other != span));
    }

    /// Counts a submission until it is dropped.
    pub(super) fn begin_assigning(&self) -> Assigning {
        self.assigning.send_modify(|assigning| *assigning += 1);
        Assigning(self.assigning.clone())
    }

    async fn progressed(&self, is_far_enough: impl Fn(&Progress) -> bool) -> Result<(), Failure> {
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|now| now.is_over || is_far_enough(now)).await;
        match reached {
            Ok(now) if is_far_enough(&now) => Ok(()),
            _ => {
                let message = "the broker is stopping; the change is committed, and comes into \
                    force when it starts again";
                Err(Failure::new(ErrorCode::RequestTimedOut, message))
            }
        }
    }
}

/// A submission of where replicas were found.
pub(crate) struct Assigning(watch::Sender<usize>);

impl Drop for Assigning {
    fn drop(&mut self) {
        self.0.send_modify(|assigning| *assigning -= 1);
    }
}

/// Says that the task has ended, however it does.
pub(super) struct EndOfTask(pub(super) Weak<Node>);

impl Drop for EndOfTask {
    fn drop(&mut self) {
        if let Some(node) = self.0.upgrade() {
            node.reconciliation.progress.send_modify(|progress| progress.is_over = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(after: u64, last: u64, asked: u64) -> Span {
        Span { after: MetadataIndex(after), last: MetadataIndex(last), asked }
    }

    #[tokio::test]
    async fn who_waits_for_a_small_change_does_not_wait_for_a_large_one_before_it() {
        let reconciliation = Reconciliation::default();
        let has = |index| reconciliation.progress.borrow().has(MetadataIndex(index));
        let (large, small) = (span(0, 5, 0), span(5, 6, 0));
        assert!(has(0) && !has(1));
        reconciliation.began(large);
        assert!(!has(5) && !has(6));
        reconciliation.began(small);
        reconciliation.finished(small);
        reconciliation.reached(MetadataIndex(6)).await.expect("is in force");
        assert!(!has(3) && !has(5) && !has(7));
        reconciliation.finished(large);
        reconciliation.reached(MetadataIndex(5)).await.expect("is in force");
    }

    #[test]
    fn a_look_at_all_topics_is_over_when_what_was_found_for_it_is_in_force() {
        let reconciliation = Reconciliation::default();
        let has_looked = |asked| reconciliation.progress.borrow().has_looked(asked);
        reconciliation.began(span(0, 5, 0));
        assert!(!has_looked(1));
        reconciliation.began(span(5, 5, 1));
        assert!(!has_looked(1));
        reconciliation.finished(span(5, 5, 1));
        assert!(has_looked(1) && !has_looked(2));
    }
}
