//! The one place where commands are judged and their records proposed.

use std::pin::pin;
use std::sync::Arc;

use logway_metadata::settings::BrokerSettings;
use logway_metadata::{Command, MetadataImage, MetadataRecord};
use tokio::sync::{mpsc, oneshot};

use crate::error::QuorumError;
use crate::published::Published;
use crate::raft::Consensus;

/// How many commands may wait; the next one waits to be taken.
pub(crate) const JOBS_MAX: usize = 1_024;

/// Commands stop being added to a commit once it has this many records.
const COMMIT_RECORDS: usize = 10_000;

/// A command on its way: judges itself against an image.
pub(crate) type Job = Box<dyn FnOnce(&MetadataImage, &BrokerSettings) -> Proposal + Send>;

type Answer = Box<dyn FnOnce(Result<(), QuorumError>) + Send>;

/// A judged command.
pub(crate) struct Proposal {
    /// To be committed.
    records: Vec<MetadataRecord>,
    /// Whether it is to be committed on a full disk too.
    makes_space: bool,
    /// Answers whoever waits, when the commit that it is part of has succeeded or failed.
    answer: Answer,
}

/// Wraps a command as a job, with the place where its reply will arrive.
pub(crate) fn job<C: Command>(
    command: C,
) -> (Job, oneshot::Receiver<Result<C::Reply, QuorumError>>) {
    let (sender, receiver) = oneshot::channel();
    let job = move |image: &MetadataImage, broker: &BrokerSettings| {
        let (records, reply) = match command.evaluate(image, broker) {
            Ok(decision) => (decision.records, Ok(decision.reply)),
            Err(refusal) => (Vec::new(), Err(QuorumError::Refused(refusal))),
        };
        let answer = move |committed: Result<(), QuorumError>| {
            // Whoever asked may have gone away; the command holds all the same.
            _ = sender.send(committed.and(reply));
        };
        Proposal { records, makes_space: C::MAKES_SPACE, answer: Box::new(answer) }
    };
    (Box::new(job), receiver)
}

/// Judges and commits commands until no one can send any more.
///
/// Commands that wait while a commit is under way are committed together: each is judged against
/// the image that the ones before it lead to, and every answer, refusals too, waits for the commit,
/// because it may rest on what the commit contains.
pub(crate) async fn run(
    mut jobs: mpsc::Receiver<Job>,
    consensus: Consensus,
    published: Arc<Published>,
    broker: Arc<BrokerSettings>,
) {
    while let Some(first) = jobs.recv().await {
        let commit = Commit { image: published.image(), records: Vec::new(), answers: Vec::new() };
        let gathering = {
            let (consensus, broker) = (consensus.clone(), Arc::clone(&broker));
            move || commit.gather(first, jobs, &consensus, &broker)
        };
        // To judge a command about thousands of topics takes a while, in which the thread would
        // serve no connection. The task ends here only when the runtime does.
        let Ok((commit, rest)) = tokio::task::spawn_blocking(gathering).await else { return };
        jobs = rest;
        let Commit { image, records, answers } = commit;
        match records.is_empty() {
            true => answers.into_iter().for_each(|answer| answer(Ok(()))),
            false => {
                let refuse = |job: Job| {
                    let Proposal { answer, .. } = job(&image, &broker);
                    answer(Err(consensus.waits_for_space()));
                };
                commit_or_refuse(&consensus, records, answers, &mut jobs, refuse).await;
            }
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
    mut answers: Vec<Answer>,
    jobs: &mut mpsc::Receiver<Job>,
    refuse: impl Fn(Job),
) {
    let mut commit = pin!(consensus.commit(records));
    let mut space = consensus.watch_space();
    let mut is_full = false;
    loop {
        tokio::select! {
            biased;
            committed = &mut commit => {
                answers.drain(..).for_each(|answer| answer(committed.clone()));
                return;
            }
            Ok(_) = space.wait_for(|is_waiting| *is_waiting), if !is_full => {
                is_full = true;
                answers.drain(..).for_each(|answer| answer(Err(consensus.waits_for_space())));
            }
            Some(job) = jobs.recv(), if is_full => refuse(job),
        }
    }
}

/// Proposals that are committed together.
struct Commit {
    /// What the records so far lead to.
    image: Arc<MetadataImage>,
    records: Vec<MetadataRecord>,
    answers: Vec<Answer>,
}

impl Commit {
    /// Judges a command, and those that wait behind it as long as there is room.
    fn gather(
        mut self,
        first: Job,
        mut jobs: mpsc::Receiver<Job>,
        consensus: &Consensus,
        broker: &BrokerSettings,
    ) -> (Commit, mpsc::Receiver<Job>) {
        let mut next = Some(first);
        while let Some(job) = next {
            let proposal = job(&self.image, broker);
            self.add(proposal, || consensus.check_space());
            let has_room = self.records.len() < COMMIT_RECORDS && self.answers.len() < JOBS_MAX;
            next = if has_room { jobs.try_recv().ok() } else { None };
        }
        (self, jobs)
    }

    /// Takes a proposal in, or answers it with the reason why not.
    fn add(&mut self, proposal: Proposal, check_space: impl FnOnce() -> Result<(), QuorumError>) {
        let Proposal { records, makes_space, answer } = proposal;
        if records.is_empty() {
            self.answers.push(answer);
            return;
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
                self.answers.push(answer);
            }
            Err(error) => answer(Err(error)),
        }
    }
}
