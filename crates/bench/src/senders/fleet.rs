//! All of the processes, for the one that started them.

use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, bail, ensure};
use logway_model::TopicName;

use super::words::{Account, Begin, Job, Moment, Reply, Word, say};
use crate::generator::{Meter, Observed, STOP_CHECK_INTERVAL};
use crate::load::{Leaders, ProduceLoad, Run};
use crate::side::OwnedProcess;

/// Processes that are ready to send. They end with this.
#[derive(Debug)]
pub(crate) struct Fleet {
    members: Vec<Member>,
    replies: Receiver<(usize, anyhow::Result<Word>)>,
    /// Kept, so that who has heard all still waits as long as it is told to.
    _heard: Sender<(usize, anyhow::Result<Word>)>,
}

#[derive(Debug)]
struct Member {
    _process: OwnedProcess,
    input: ChildStdin,
}

impl Fleet {
    /// Starts them, and waits until they are ready. Blocks.
    ///
    /// # Errors
    ///
    /// One cannot be started, or cannot do what the load asks for, or the run is called off.
    pub(crate) fn start(
        load: &ProduceLoad,
        (leaders, topic, version): (&Leaders, &TopicName, i16),
        stop: &AtomicBool,
    ) -> anyhow::Result<Fleet> {
        let (heard, replies) = channel();
        let mut members = Vec::new();
        for number in 0..load.processes {
            let command = ["/proc/self/exe", "sender"].map(str::to_owned);
            let (process, mut input, output) = OwnedProcess::spawn_to_talk(&command)?;
            say(&mut input, &Job::new(leaders, topic, version, (load.clone(), number)))?;
            let listen = {
                let heard = heard.clone();
                move || hear_all(output, number, &heard)
            };
            std::thread::Builder::new().spawn(listen).context("cannot start a thread")?;
            members.push(Member { _process: process, input });
        }
        let fleet = Fleet { members, replies, _heard: heard };
        for _ in 0..load.processes {
            let word = fleet.hear(stop, None)?;
            ensure!(matches!(word, Some(Word::Ready)), "a sender has not said that it is ready");
        }
        Ok(fleet)
    }

    /// Has them send for as long as the run takes, and adds up what they saw. Blocks.
    pub(crate) fn send(
        mut self,
        run: &Run,
        start: Instant,
        broker_pids: Vec<u32>,
    ) -> anyhow::Result<Observed> {
        let window = run.window(start);
        let begin =
            Begin { start: Moment::of(start), warm_up: run.warm_up, measured: run.measured };
        for member in &mut self.members {
            say(&mut member.input, &begin).context("a sender has ended early")?;
        }
        let mut meter = Meter::new(broker_pids);
        let mut accounts: Vec<Account> = Vec::new();
        while accounts.len() < self.members.len() || !meter.is_closed() {
            let now = Instant::now();
            meter.look(now, &window);
            let edges = [window.from, window.to].into_iter().filter(|&edge| edge > now).min();
            match self.hear(&run.stop, edges)? {
                Some(Word::Done(account)) => accounts.push(*account),
                Some(Word::Ready) => bail!("a sender has not heard when to begin"),
                None => {}
            }
        }
        if accounts.iter().any(|account| account.ended_after(&window)) {
            meter.go_on();
        }
        let mut observed = Observed::new(window);
        observed.read(&meter);
        accounts.iter().try_for_each(|account| account.add_to(&mut observed))?;
        Ok(observed)
    }

    /// What the next one says; nothing if it is the moment before anybody does.
    ///
    /// # Errors
    ///
    /// One has failed or ended, or the run is called off.
    fn hear(&self, stop: &AtomicBool, until: Option<Instant>) -> anyhow::Result<Option<Word>> {
        loop {
            ensure!(!stop.load(Ordering::Relaxed), "the run was called off");
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let patience = left.map_or(STOP_CHECK_INTERVAL, |left| left.min(STOP_CHECK_INTERVAL));
            match self.replies.recv_timeout(patience) {
                Ok((number, reply)) => {
                    return reply.with_context(|| format!("sender {number}")).map(Some);
                }
                Err(_) if left == Some(Duration::ZERO) => return Ok(None),
                Err(_) => {}
            }
        }
    }
}

/// Passes on what one says, until it has said the last word.
fn hear_all(output: ChildStdout, number: usize, heard: &Sender<(usize, anyhow::Result<Word>)>) {
    let mut lines = BufReader::new(output).lines();
    loop {
        let word = next_word(&mut lines);
        let is_last = !matches!(word, Ok(Word::Ready));
        // Who no longer listens has its reason.
        if heard.send((number, word)).is_err() || is_last {
            return;
        }
    }
}

fn next_word(lines: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<Word> {
    let line = lines.next().context("it has ended without saying why")??;
    let reply: Reply = serde_json::from_str(&line).context("it says what is no reply")?;
    reply.map_err(Error::msg)
}
