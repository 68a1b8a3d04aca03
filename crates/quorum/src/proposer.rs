//! The one place where commands are judged and their records proposed.

use std::pin::pin;
use std::sync::Arc;

use logway_metadata::controller::{ControllerCommand, ControllerReply};
use logway_metadata::settings::BrokerSettings;
use logway_metadata::{ControllerError, Decision, MetadataImage, MetadataRecord};
use tokio::sync::{mpsc, oneshot};

use crate::error::QuorumError;
use crate::published::{IndexedImage, MetadataIndex, Published};
use crate::raft::Consensus;

/// How many commands may wait; the next one waits to be taken.
pub(crate) const SUBMISSIONS_MAX: usize = 1_024;

/// Commands stop being added to a commit once it has this many records.
const COMMIT_RECORDS: usize = 10_000;

/// A command on its way.
pub(crate) struct Submission {
    pub(crate) command: ControllerCommand,
    /// Whoever asked may have gone away; the command holds all the same.
    pub(crate) answer: oneshot::Sender<Result<Committed<ControllerReply>, QuorumError>>,
}

/// The reply to a command, with the place of its effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed<R> {
    /// What the controller says.
    pub reply: R,
    /// The image of this index has the effect of the command. Where the command changes nothing, the
    /// reply is about that image.
    pub index: MetadataIndex,
}

impl<R> Committed<R> {
    /// The reply alone, for those who need not see the effect.
    pub fn into_reply(self) -> R {
        self.reply
    }
}

/// A judged command, which waits for the commit that it is part of.
struct Judged {
    reply: Result<ControllerReply, ControllerError>,
    answer: oneshot::Sender<Result<Committed<ControllerReply>, QuorumError>>,
}

impl Judged {
    fn answer(self, committed: Result<MetadataIndex, QuorumError>) {
        let Judged { reply, answer } = self;
        let outcome = committed.and_then(|index| Ok(Committed { reply: reply?, index }));
        _ = answer.send(outcome);
    }
}

/// Judges and commits commands until no one can send any more.
///
/// Commands that wait while a commit is under way are committed together: each is judged against
/// the image that the ones before it lead to, and every answer, refusals too, waits for the commit,
/// because it may rest on what the commit contains.
pub(crate) async fn run(
    mut submissions: mpsc::Receiver<Submission>,
    consensus: Consensus,
    published: Arc<Published>,
    broker: Arc<BrokerSettings>,
) {
    while let Some(first) = submissions.recv().await {
        let IndexedImage { image, index } = published.indexed_image();
        let commit = Commit { image, records: Vec::new(), judged: Vec::new() };
        let gathering = {
            let (consensus, broker) = (consensus.clone(), Arc::clone(&broker));
            move || commit.gather(first, submissions, &consensus, &broker)
        };
        // To judge a command about thousands of topics takes a while, in which the thread would
        // serve no connection. The task ends here only when the runtime does.
        let Ok((commit, rest)) = tokio::task::spawn_blocking(gathering).await else { return };
        submissions = rest;
        let Commit { records, judged, .. } = commit;
        match records.is_empty() {
            true => judged.into_iter().for_each(|judged| judged.answer(Ok(index))),
            false => commit_or_refuse(&consensus, records, judged, &mut submissions).await,
        }
        if let Err(error) = consensus.snapshot_if_due().await {
            // The commands that follow fail with the same error and tell whoever asks.
            tracing::error!(%error, "cannot write a snapshot of the metadata");
        }
    }
}

/// Commits records and answers whoever waits for that. If the disk becomes full meanwhile they are
/// told so at once, and so is whoever comes before the commit is done.
async fn commit_or_refuse(
    consensus: &Consensus,
    records: Vec<MetadataRecord>,
    mut judged: Vec<Judged>,
    submissions: &mut mpsc::Receiver<Submission>,
) {
    let mut commit = pin!(consensus.commit(records));
    let mut space = consensus.watch_space();
    let mut is_full = false;
    loop {
        tokio::select! {
            biased;
            committed = &mut commit => {
                judged.drain(..).for_each(|judged| judged.answer(committed.clone()));
                return;
            }
            Ok(_) = space.wait_for(|is_waiting| *is_waiting), if !is_full => {
                is_full = true;
                judged.drain(..).for_each(|judged| judged.answer(Err(consensus.waits_for_space())));
            }
            Some(submission) = submissions.recv(), if is_full => {
                _ = submission.answer.send(Err(consensus.waits_for_space()));
            }
        }
    }
}

/// Commands whose records are committed together.
struct Commit {
    /// What the records so far lead to.
    image: Arc<MetadataImage>,
    records: Vec<MetadataRecord>,
    judged: Vec<Judged>,
}

impl Commit {
    /// Judges a command, and those that wait behind it as long as there is room.
    fn gather(
        mut self,
        first: Submission,
        mut submissions: mpsc::Receiver<Submission>,
        consensus: &Consensus,
        broker: &BrokerSettings,
    ) -> (Commit, mpsc::Receiver<Submission>) {
        let mut next = Some(first);
        while let Some(submission) = next {
            self.judge(submission, broker, || consensus.check_space());
            let has_room =
                self.records.len() < COMMIT_RECORDS && self.judged.len() < SUBMISSIONS_MAX;
            next = if has_room { submissions.try_recv().ok() } else { None };
        }
        (self, submissions)
    }

    /// Takes the records of a command in, or answers it with the reason why not.
    fn judge(
        &mut self,
        submission: Submission,
        broker: &BrokerSettings,
        check_space: impl FnOnce() -> Result<(), QuorumError>,
    ) {
        let Submission { command, answer } = submission;
        let makes_space = command.makes_space();
        let (records, reply) = match command.evaluate(&self.image, broker) {
            Ok(Decision { records, reply }) => (records, Ok(reply)),
            Err(refusal) => (Vec::new(), Err(refusal)),
        };
        if records.is_empty() {
            return self.judged.push(Judged { reply, answer });
        }
        let checked = if makes_space { Ok(()) } else { check_space() };
        let applied = checked.and_then(|()| {
            let fits = self.image.apply(&records);
            fits.map_err(|error| QuorumError::Refused(error.into()))
        });
        match applied {
            Ok(image) => {
                self.image = Arc::new(image);
                self.records.extend(records);
                self.judged.push(Judged { reply, answer });
            }
            // Nobody may wait any more.
            Err(error) => _ = answer.send(Err(error)),
        }
    }
}
