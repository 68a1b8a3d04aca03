//! One of the processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;

use super::words::{Account, Begin, Job, Reply, Word, say};
use crate::generator::{Drive, Timetable, Window};

/// Sends what the input asks for, and tells what it saw.
///
/// # Errors
///
/// Nobody hears that it has failed.
pub(crate) fn serve(
    input: impl Read + Send + 'static,
    mut output: impl Write,
) -> anyhow::Result<()> {
    let account = send(input, &mut output).map_err(|error| format!("{error:#}"));
    say(&mut output, &account.map(|account| Word::Done(Box::new(account))))
}

fn send(input: impl Read + Send + 'static, output: &mut impl Write) -> anyhow::Result<Account> {
    let mut input = BufReader::new(input);
    let job: Job = hear(&mut input)?;
    let topic = job.topic()?;
    let to = (&job.leaders, &topic, job.version);
    let lanes = job.load.lanes(job.number, to, None)?;
    let drain = job.load.drain(job.number, to)?;
    say(output, &Reply::Ok(Word::Ready))?;
    let begin: Begin = hear(&mut input)?;
    let stop = stop_with(input)?;
    let Begin { warm_up, measured, .. } = begin;
    let start = begin.start.instant();
    let (number, of) = (job.number as u64, job.load.processes as u64);
    let timetable = |rate| Timetable::new(start, rate, warm_up + measured).part(number, of);
    let timetable = job.load.rate.map(timetable);
    let window = Window::starting_at(start, warm_up, measured);
    let mut drive = Drive { lanes, timetable, window, broker_pids: Vec::new(), stop: &stop };
    let mut observed = drive.run()?;
    drain(drive.lanes, &stop, &mut observed)?;
    Account::of(&observed)
}

fn hear<T: DeserializeOwned>(input: &mut impl BufRead) -> anyhow::Result<T> {
    let mut line = String::new();
    ensure!(input.read_line(&mut line)? > 0, "nobody says what to send");
    serde_json::from_str(&line).context("cannot understand what to send")
}

/// A flag that is set when the input ends.
fn stop_with(mut input: impl Read + Send + 'static) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&stop);
    let listen = move || {
        // An input that fails is as good as one that is over.
        let _ = std::io::copy(&mut input, &mut std::io::sink());
        ended.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().spawn(listen).context("cannot start a thread")?;
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use std::io::pipe;
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use logway_client::BrokerAddress;
    use logway_model::TopicName;

    use super::super::words::Moment;
    use super::*;
    use crate::generator::Observed;
    use crate::load::{Leaders, ProduceLoad};
    use crate::null_broker;

    const MEASURED: Duration = Duration::from_millis(200);

    /// A broker that does nothing, until the test's process ends.
    fn null() -> BrokerAddress {
        null_broker::started().parse().expect("an address")
    }

    fn job(address: &BrokerAddress, rate: f64) -> Job {
        let load = ProduceLoad { rate: Some(rate), connections: 2, ..ProduceLoad::default() };
        let topic = TopicName::new("t").expect("a name");
        Job::new(
            &Leaders::only(address.clone(), 1),
            &topic,
            crate::generator::VERSION_MAX,
            (load, 0),
        )
    }

    /// At once, for so long.
    fn begin(start: Instant, measured: Duration) -> Begin {
        Begin { start: Moment::of(start), warm_up: Duration::ZERO, measured }
    }

    fn line(what: &impl serde::Serialize) -> Vec<u8> {
        let mut line = Vec::new();
        say(&mut line, what).expect("it is plain");
        line
    }

    #[test]
    fn what_is_asked_for_is_sent_and_told() {
        let (input, mut ask) = pipe().expect("a pipe");
        let (answers, output) = pipe().expect("a pipe");
        let sender = std::thread::spawn(move || serve(input, output));
        let mut answers = BufReader::new(answers);
        let mut next = || -> Reply { hear(&mut answers).expect("it answers") };
        ask.write_all(&line(&job(&null(), 1000.0))).expect("it listens");
        assert!(matches!(next(), Ok(Word::Ready)));
        let from = Instant::now() + Duration::from_millis(20);
        let begin = begin(from, MEASURED);
        ask.write_all(&line(&begin)).expect("it listens");
        let Ok(Word::Done(account)) = next() else { panic!("it does not fail") };
        sender.join().expect("it ends").expect("it was heard");
        let mut observed = Observed::new(Window { from, to: from + MEASURED });
        account.add_to(&mut observed).expect("it is whole");
        assert_eq!(observed.lateness_ns.len(), 200);
        assert_eq!(observed.unanswered, 0);
    }

    #[test]
    fn a_run_is_called_off_when_nobody_asks_for_it_any_more() {
        let (input, mut ask) = pipe().expect("a pipe");
        let (answers, output) = pipe().expect("a pipe");
        let sender = std::thread::spawn(move || serve(input, output));
        let mut answers = BufReader::new(answers);
        ask.write_all(&line(&job(&null(), 10.0))).expect("it listens");
        let mut next = || -> Reply { hear(&mut answers).expect("it answers") };
        assert!(matches!(next(), Ok(Word::Ready)));
        let begin = begin(Instant::now(), Duration::from_secs(3600));
        ask.write_all(&line(&begin)).expect("it listens");
        drop(ask);
        let why = next().expect_err("there is an hour to go");
        assert!(why.contains("called off"), "{why}");
        sender.join().expect("it ends").expect("it was heard");
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let nowhere = TcpListener::bind("127.0.0.1:0").expect("an address");
        let port = nowhere.local_addr().expect("it listens").port();
        drop(nowhere);
        let address = BrokerAddress::new("127.0.0.1", port);
        for (asked, complaint) in [
            (line(&job(&address, 1.0)), "cannot connect"),
            (b"?\n".to_vec(), "cannot understand"),
            (Vec::new(), "nobody says"),
        ] {
            let mut output = Vec::new();
            serve(std::io::Cursor::new(asked), &mut output).expect("it is heard");
            let reply: Reply = hear(&mut output.as_slice()).expect("it answers");
            let why = reply.expect_err(complaint);
            assert!(why.contains(complaint), "{why}");
        }
    }
}
