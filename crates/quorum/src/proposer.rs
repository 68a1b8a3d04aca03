//! The one place where commands are judged and their records proposed.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use logway_metadata::controller::{ControllerCommand, ControllerReply};
use logway_metadata::settings::BrokerSettings;
use logway_metadata::{ControllerError, Decision, MetadataImage, MetadataLevel, MetadataRecord};
use tokio::sync::{mpsc, oneshot};

use crate::command_id::{CommandId, CommittedCommand, Known};
use crate::error::QuorumError;
use crate::options::{DiskWork, Mutation};
use crate::published::{IndexedImage, MetadataIndex, Published};
use crate::raft::{CommitOutcome, Consensus};

/// How many commands may wait; the next one waits to be taken.
pub(crate) const SUBMISSIONS_MAX: usize = 1_024;

/// Commands stop being added to a commit once it has this many records.
const COMMIT_RECORDS: usize = 10_000;

/// A command that one node sends to the leader, which may be that node.
#[derive(Debug, Clone)]
pub(crate) struct Forwarded {
    pub(crate) id: CommandId,
    /// What that node had applied before it sent the command for the first time.
    pub(crate) since: u64,
    pub(crate) command: ControllerCommand,
}

/// A command on its way.
pub(crate) struct Submission {
    pub(crate) forwarded: Forwarded,
    /// Whoever asked may have gone away; the command holds all the same.
    pub(crate) answer: Answer,
}

type Answer = oneshot::Sender<Result<Committed<ControllerReply>, QuorumError>>;

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
    /// An earlier entry that has the effect, where it is known from before. The memory of commands may be
    /// ahead of the image that was taken for this commit.
    done_at: MetadataIndex,
    answer: Answer,
}

impl Judged {
    fn answer(self, committed: Result<MetadataIndex, QuorumError>) {
        let Judged { reply, done_at, answer } = self;
        let committed = committed.map(|index| index.max(done_at));
        let outcome = committed.and_then(|index| Ok(Committed { reply: reply?, index }));
        _ = answer.send(outcome);
    }
}

/// The one task of a node that judges commands.
pub(crate) struct Proposer {
    pub(crate) consensus: Consensus,
    pub(crate) published: Arc<Published>,
    pub(crate) settings: Arc<BrokerSettings>,
    pub(crate) disk_work: DiskWork,
    pub(crate) mutation: Option<Mutation>,
}

impl Proposer {
    /// Judges and commits commands until no one can send any more.
    ///
    /// Commands that wait while a commit is under way are committed together: each is judged against
    /// the image that the ones before it lead to, and every answer, refusals too, waits for the commit,
    /// because it may rest on what the commit contains.
    ///
    /// Only a leader that has applied all that was committed before it led judges anything. What it has
    /// judged is applied to no other image than the one it was judged against, whatever happens
    /// before it is committed.
    pub(crate) async fn run(self, mut submissions: mpsc::Receiver<Submission>) {
        while let Some(first) = submissions.recv().await {
            if let Err(error) = self.consensus.check_leads() {
                _ = first.answer.send(Err(error));
                continue;
            }
            let indexed = self.published.indexed_image();
            let index = indexed.index;
            let commit = Commit::new(&self, indexed);
            let gathering = {
                let (consensus, settings) = (self.consensus.clone(), Arc::clone(&self.settings));
                move || commit.gather(first, submissions, &consensus, &settings)
            };
            // To judge a command about thousands of topics takes a while, in which the thread would
            // serve no connection. The task ends here only when the runtime does.
            let Ok((commit, rest)) = self.disk_work.run(gathering).await else { return };
            submissions = rest;
            match commit.records.is_empty() {
                true => self.answer_from_image(commit.judged, index),
                false => self.commit_or_refuse(commit, &mut submissions).await,
            }
            if self.consensus.is_alone()
                && let Err(error) = self.consensus.snapshot_if_due().await
            {
                // The commands that follow fail with the same error and tell whoever asks.
                tracing::error!(%error, "cannot write a snapshot of the metadata");
            }
        }
    }

    /// Answers commands that change nothing. Their answers may rest on what others have changed, so
    /// nobody else may lead.
    fn answer_from_image(&self, judged: Vec<Judged>, index: MetadataIndex) {
        let leads = if self.consensus.is_alone() { Ok(()) } else { self.consensus.check_lease() };
        let outcome = leads.map(|()| index);
        judged.into_iter().for_each(|judged| judged.answer(outcome.clone()));
    }

    /// Commits records and answers whoever waits for that. If the disk becomes full meanwhile they are
    /// told so at once, and so is whoever comes before the commit is done. If this node leads no more, or
    /// without a majority, nobody waits: it may be committed or not.
    async fn commit_or_refuse(&self, commit: Commit, submissions: &mut mpsc::Receiver<Submission>) {
        let consensus = &self.consensus;
        let Commit { records, commands, mut judged, base, .. } = commit;
        let mut committing = pin!(consensus.commit(base, records, commands));
        let mut leads_no_more = pin!(consensus.leads_no_more());
        let mut space = consensus.watch_space();
        let mut is_full = false;
        loop {
            tokio::select! {
                biased;
                committed = &mut committing => {
                    let index = committed.and_then(|outcome| match outcome {
                        CommitOutcome::Committed(index) => Ok(index),
                        CommitOutcome::Overtaken => Err(QuorumError::Overtaken),
                    });
                    judged.drain(..).for_each(|judged| judged.answer(index.clone()));
                    return;
                }
                Ok(_) = space.wait_for(|is_waiting| *is_waiting), if !is_full => {
                    is_full = true;
                    let waits = consensus.waits_for_space();
                    judged.drain(..).for_each(|judged| judged.answer(Err(waits.clone())));
                }
                Some(submission) = submissions.recv(), if is_full => {
                    _ = submission.answer.send(Err(consensus.waits_for_space()));
                }
                () = &mut leads_no_more => {
                    let unknown = || Err(QuorumError::OutcomeUnknown);
                    judged.drain(..).for_each(|judged| judged.answer(unknown()));
                    return;
                }
            }
        }
    }
}

/// Commands whose records are committed together.
struct Commit {
    /// What the records so far lead to.
    image: Arc<MetadataImage>,
    /// The entry that made the image which they start from; `None` in a cluster of one.
    base: Option<u64>,
    records: Vec<MetadataRecord>,
    commands: Vec<CommittedCommand>,
    judged: Vec<Judged>,
    published: Arc<Published>,
    mutation: Option<Mutation>,
}

impl Commit {
    fn new(proposer: &Proposer, IndexedImage { image, image_at, .. }: IndexedImage) -> Commit {
        let base = (image.metadata_level() >= MetadataLevel::CLUSTER).then_some(image_at);
        Commit {
            image,
            base,
            records: Vec::new(),
            commands: Vec::new(),
            judged: Vec::new(),
            published: Arc::clone(&proposer.published),
            mutation: proposer.mutation,
        }
    }

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

    /// What is known of a command from before: its reply, if it is part of this commit or an earlier one.
    fn look_up(&self, id: CommandId, since: u64) -> Known {
        if self.mutation == Some(Mutation::ForgetsCommands) {
            return Known::New;
        }
        if let Some(command) = self.commands.iter().find(|command| command.id == id) {
            return Known::Committed { index: 0, reply: command.reply.clone() };
        }
        self.published.recent().look_up(id, since)
    }

    /// Takes the records of a command in, or answers it with the reason why not.
    fn judge(
        &mut self,
        submission: Submission,
        broker: &BrokerSettings,
        check_space: impl FnOnce() -> Result<(), QuorumError>,
    ) {
        let Submission { forwarded: Forwarded { id, since, command }, answer } = submission;
        match self.look_up(id, since) {
            Known::New => {}
            Known::Committed { index, reply } => match serde_json::from_str(&reply) {
                Ok(reply) => {
                    let done_at = MetadataIndex(index);
                    self.judged.push(Judged { reply: Ok(reply), done_at, answer });
                    return;
                }
                Err(_) => {
                    _ = answer.send(Err(QuorumError::OutcomeUnknown));
                    return;
                }
            },
            Known::Forgotten => {
                _ = answer.send(Err(QuorumError::Forgotten));
                return;
            }
        }
        let makes_space = command.makes_space();
        let (records, reply) = match command.evaluate(&self.image, broker) {
            Ok(Decision { records, reply }) => (records, Ok(reply)),
            Err(refusal) => (Vec::new(), Err(refusal)),
        };
        if records.is_empty() {
            return self.judged.push(Judged { reply, done_at: MetadataIndex::default(), answer });
        }
        let checked = if makes_space { Ok(()) } else { check_space() };
        let applied = checked.and_then(|()| {
            check_level(&records, &self.image)?;
            let fits = self.image.apply(&records);
            fits.map_err(|error| QuorumError::Refused(error.into()))
        });
        match applied {
            Ok(image) => {
                self.image = Arc::new(image);
                self.records.extend(records);
                self.remember(id, &reply);
                self.judged.push(Judged { reply, done_at: MetadataIndex::default(), answer });
            }
            // Nobody may wait any more.
            Err(error) => _ = answer.send(Err(error)),
        }
    }

    /// Has the commit tell that it contains a command. In a cluster of one nobody asks twice.
    fn remember(&mut self, id: CommandId, reply: &Result<ControllerReply, ControllerError>) {
        if self.base.is_none() {
            return;
        }
        let reply = reply.as_ref().ok().map(serde_json::to_string);
        if let Some(Ok(reply)) = reply {
            self.commands.push(CommittedCommand { id, reply });
        }
    }
}

/// Refuses records that an older node of the cluster could not read (KIP-584).
fn check_level(records: &[MetadataRecord], image: &MetadataImage) -> Result<(), QuorumError> {
    // Who reads records of a feature has read first that it is on.
    let mut turned_on = BTreeSet::new();
    for record in records {
        if let MetadataRecord::Feature(feature) = record {
            turned_on.insert(feature.name.as_str());
        }
        if let Some((name, _)) = record.feature()
            && !image.has_feature(name)
            && !turned_on.contains(name)
        {
            return Err(QuorumError::Refused(ControllerError::unsupported_feature(name)));
        }
    }
    let level = image.metadata_level();
    match records.iter().map(MetadataRecord::level).max() {
        Some(needed) if needed > level => {
            Err(QuorumError::Refused(ControllerError::unsupported_level(needed, level)))
        }
        _ => Ok(()),
    }
}
