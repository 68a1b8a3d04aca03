//! One connection of the generator.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Instant;

use anyhow::Context;

use super::intake::Intake;
use super::{Asked, Framing, Observed, Payload, Stream, Tape};

/// What is said over a connection, and what the answers mean.
pub(crate) trait Traffic: Send {
    /// How its answers are cut.
    fn framing(&self) -> Framing {
        Framing::Kafka
    }

    /// How much of an answer's beginning [`Traffic::answer`] looks at, in bytes.
    fn head_bytes_max(&self) -> usize;

    /// Changes a request before it is sent.
    fn prepare(&mut self, _frame: &mut [u8]) {}

    /// Takes what came, without its length; takes the requests that it answers, if it does, from
    /// those that were `asked`, and notes what it is worth.
    ///
    /// # Errors
    ///
    /// The broker refused: a benchmark of errors says nothing.
    fn answer(
        &mut self,
        head: &[u8],
        frame_bytes: usize,
        asked: &mut Asked,
        now: Instant,
        observed: &mut Observed,
    ) -> anyhow::Result<()>;

    /// Whether requests get an answer.
    fn is_answered(&self) -> bool {
        true
    }

    /// What the next request brings that gets no answer. To be asked once for each.
    fn sent_unanswered(&mut self) -> Payload {
        Payload { records: 0, value_bytes: 0 }
    }

    /// A batch with that in it was encoded for the next request, where that is done as it is due.
    fn will_send(&mut self, _payload: Payload) {}

    /// Whether a closed loop sends its next request now.
    fn goes_on(&self, now: Instant, observed: &Observed) -> bool {
        now < observed.window.to
    }
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The next when one is answered, with so many on their way.
    Closed(usize),
    /// By the run's timetable.
    Open,
}

/// Writes in a row over one connection: a broker that reads as fast as we write must not keep the
/// others waiting.
const WRITES_MAX: usize = 32;

/// What a lane sends.
enum Script {
    Tape(Tape),
    Stream(Stream),
}

/// How many requests a closed loop may begin.
#[derive(Debug, Clone, Copy)]
struct Bound {
    max: u64,
    left: u64,
}

/// A socket that never blocks, and what is on its way over it.
pub(crate) struct Lane {
    pub(crate) stream: TcpStream,
    pub(crate) pace: Pace,
    traffic: Box<dyn Traffic>,
    script: Script,
    /// What is being written.
    writing: Range<usize>,
    next_id: i32,
    /// When the requests that have not begun to be written were due.
    due: VecDeque<Instant>,
    /// Those without an answer.
    sent: Asked,
    intake: Intake,
    /// How many requests a closed loop may begin, if not any number.
    bound: Option<Bound>,
}

impl Lane {
    pub(crate) fn new(
        stream: TcpStream,
        pace: Pace,
        tape: Tape,
        traffic: Box<dyn Traffic>,
    ) -> Lane {
        Lane::of_script(stream, pace, Script::Tape(tape), traffic)
    }

    /// One whose requests are encoded as they are due.
    pub(crate) fn streaming(
        stream: TcpStream,
        pace: Pace,
        requests: Stream,
        traffic: Box<dyn Traffic>,
    ) -> Lane {
        Lane::of_script(stream, pace, Script::Stream(requests), traffic)
    }

    fn of_script(stream: TcpStream, pace: Pace, script: Script, traffic: Box<dyn Traffic>) -> Lane {
        let intake = Intake::new(traffic.framing(), traffic.head_bytes_max());
        Lane {
            stream,
            pace,
            traffic,
            script,
            writing: 0..0,
            next_id: 0,
            due: VecDeque::new(),
            sent: Asked::default(),
            intake,
            bound: None,
        }
    }

    /// The same, but a closed loop ends when it has begun so many requests, at least one, if the window does not before.
    pub(crate) fn with_requests_max(self, requests_max: Option<u64>) -> Lane {
        Lane { bound: requests_max.map(|max| Bound { max, left: max }), ..self }
    }

    /// Whether there is such a bound.
    pub(crate) fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    /// Whether it has begun half of the requests that it may.
    pub(crate) fn is_half_exhausted(&self) -> bool {
        self.bound.is_some_and(|bound| bound.left <= bound.max / 2)
    }

    /// Whether all requests that it may begin are answered.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.begins_no_more() && self.outstanding() == 0
    }

    fn begins_no_more(&self) -> bool {
        self.bound.is_some_and(|bound| bound.left == 0)
    }

    /// Puts the first requests of a closed loop in.
    pub(crate) fn begin(&mut self, now: Instant) {
        if let Pace::Closed(in_flight) = self.pace {
            let count = take(&mut self.bound, in_flight);
            self.due.extend(std::iter::repeat_n(now, count));
        }
    }

    /// Puts in a request that was due at `moment`.
    pub(crate) fn push(&mut self, moment: Instant) {
        self.due.push_back(moment);
    }

    /// Whether a closed loop has more to ask.
    pub(crate) fn goes_on(&self, now: Instant, observed: &Observed) -> bool {
        !self.begins_no_more() && self.traffic.goes_on(now, observed)
    }

    /// How many requests are unwritten or unanswered.
    pub(crate) fn outstanding(&self) -> usize {
        self.due.len() + self.sent.due.len() + usize::from(!self.writing.is_empty())
    }

    /// When each of those was due.
    pub(crate) fn outstanding_since(&self) -> impl Iterator<Item = Instant> {
        self.due.iter().chain(&self.sent.due).copied()
    }

    /// When each was due of which nothing is written.
    pub(crate) fn unwritten_since(&self) -> impl Iterator<Item = Instant> {
        self.due.iter().copied()
    }

    /// Writes as much as the socket takes, but not for ever. Returns whether something is left.
    pub(crate) fn write(&mut self, observed: &mut Observed) -> anyhow::Result<bool> {
        for _ in 0..WRITES_MAX {
            if self.writing.is_empty() && !self.take_due(observed)? {
                return Ok(false);
            }
            let bytes = match &self.script {
                Script::Tape(tape) => tape.bytes(self.writing.clone()),
                Script::Stream(stream) => &stream.bytes()[self.writing.clone()],
            };
            match self.stream.write(bytes) {
                Ok(written) => self.writing.start += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot write to the broker"),
            }
        }
        Ok(true)
    }

    /// Takes the next stretch of the tape, or encodes one; returns whether there is one.
    fn take_due(&mut self, observed: &mut Observed) -> anyhow::Result<bool> {
        let now = Instant::now();
        let is_answered = self.traffic.is_answered();
        if !is_answered && self.due.is_empty() && now < observed.window.to {
            // Nothing answers, so the socket itself is what holds the loop back.
            self.begin(now);
        }
        if self.due.is_empty() {
            return Ok(false);
        }
        let (most, traffic) = (self.due.len(), &mut self.traffic);
        let taken = match &mut self.script {
            Script::Tape(tape) => {
                let prepare = |frame: &mut [u8]| traffic.prepare(frame);
                let (stretch, taken) = tape.advance(most, &mut self.next_id, prepare);
                self.writing = stretch;
                taken
            }
            Script::Stream(stream) => {
                let waited_before = stream.waiting();
                let taken = stream
                    .advance(most, &mut self.next_id, |payload| traffic.will_send(payload))?;
                observed.note_waiting(now, stream.waiting() - waited_before);
                self.writing = 0..stream.bytes().len();
                taken
            }
        };
        for due in self.due.drain(..taken) {
            if self.pace == Pace::Open && observed.window.contains(due) {
                observed.note_lateness(now.saturating_duration_since(due));
            }
            if is_answered {
                self.sent.push(due);
            } else {
                // However late it leaves: until it has arrived, time is counted as well.
                let payload = self.traffic.sent_unanswered();
                observed.entrusted_records += payload.records;
                observed.count(due, payload);
            }
        }
        Ok(true)
    }

    /// Reads once, and puts in what a closed loop sends next.
    pub(crate) fn read(&mut self, observed: &mut Observed) -> anyhow::Result<()> {
        let mut clock = None;
        let Lane { traffic, sent, due, pace, bound, .. } = self;
        let in_flight = match pace {
            Pace::Closed(in_flight) => *in_flight,
            Pace::Open => 0,
        };
        self.intake.read(&mut self.stream, |head, frame_bytes| {
            // All that came with one read came at one moment.
            let now = *clock.get_or_insert_with(Instant::now);
            traffic.answer(head, frame_bytes, sent, now, observed)?;
            while sent.due.len() + due.len() < in_flight
                && traffic.goes_on(now, observed)
                && take(bound, 1) == 1
            {
                due.push_back(now);
            }
            Ok(())
        })
    }
}

/// Takes so many requests of those that are left, or all of them.
fn take(bound: &mut Option<Bound>, wanted: usize) -> usize {
    let Some(Bound { left, .. }) = bound else { return wanted };
    let taken = wanted.min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= taken as u64;
    taken
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::generator::{Acks, Payloads, ProduceTraffic, VERSION_MAX, Window};

    #[test]
    fn what_leaves_after_the_window_counts_if_it_was_due_in_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("it listens");
        let stream = TcpStream::connect(address).expect("it accepts");
        let payloads = [7, 5].map(|records| Payload { records, value_bytes: 10 * records });
        let payloads = Payloads::InTurn { payloads: payloads.to_vec(), counted: 0 };
        let traffic = ProduceTraffic::of_payloads(payloads, Acks::None, VERSION_MAX, Pace::Open);
        let tape = Tape::repeating(&[0; 100], 3);
        let mut lane = Lane::new(stream, Pace::Open, tape, Box::new(traffic));

        let from = Instant::now();
        let window = Window { from, to: from + Duration::from_nanos(2) };
        let mut observed = Observed::new(window);
        for moment in [window.from, window.from + Duration::from_nanos(1), window.to] {
            lane.push(moment);
        }
        assert!(!lane.write(&mut observed).expect("the socket has room"));
        assert_eq!((observed.requests, observed.records, observed.value_bytes), (2, 12, 120));
    }
}
