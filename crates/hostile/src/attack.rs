//! Sessions, sent to a broker.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bytes::{Buf, Bytes, BytesMut};
use logway_log::fs::sim::Rng;
use rustix::net::sockopt::set_socket_linger;

use crate::answer::error_codes;
use crate::entrance::is_open_to_strangers;
use crate::{Corpus, Entrance, Session, Tally, mutate};

/// How long an answer, or room for more requests, is waited for.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a connection is waited for: with thousands a second the broker's queue is full at times.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// An attack on a broker.
#[derive(Debug, Clone)]
pub struct Attack {
    /// Where the broker is.
    pub address: SocketAddr,
    /// Who sends the sessions.
    pub entrance: Entrance,
    /// Gives all sessions, together with their numbers.
    pub seed: u64,
    /// The number of the first session.
    pub first: u64,
    /// How many.
    pub sessions: u64,
    /// How many at a time.
    pub connections: usize,
}

impl Attack {
    /// Sends all sessions, on some connections at a time.
    ///
    /// # Errors
    ///
    /// The broker cannot be reached any more.
    pub fn run(&self, corpus: &Corpus) -> anyhow::Result<Tally> {
        let next = AtomicU64::new(self.first);
        thread::scope(|scope| {
            let lane = || scope.spawn(|| self.send_some(corpus, &next));
            let lanes: Vec<_> = (0..self.connections).map(|_| lane()).collect();
            let mut total = Tally::default();
            for lane in lanes {
                total += lane.join().expect("a lane does not panic")?;
            }
            Ok(total)
        })
    }

    /// Sends one session after the other until all are sent.
    fn send_some(&self, corpus: &Corpus, next: &AtomicU64) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.first + self.sessions {
                return Ok(tally);
            }
            let mut random = Rng::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let session = mutate(corpus, &self.entrance, &mut random);
            let is_waited_for = random.below(4) > 0;
            self.send(&session, is_waited_for, &mut random, &mut tally)
                .with_context(|| format!("session {number} of seed {}", self.seed))?;
        }
    }

    /// Sends a session on a connection of its own. Some leave without waiting for an answer.
    ///
    /// # Errors
    ///
    /// The broker cannot be reached, or does not let a user in.
    fn send(
        &self,
        session: &Session,
        is_waited_for: bool,
        random: &mut Rng,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let stream = session.encode();
        let mut socket = TcpStream::connect_timeout(&self.address, CONNECT_PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        // Closed with a reset: a million connections in TIME_WAIT would use all ports up.
        set_socket_linger(&socket, Some(Duration::ZERO))?;
        self.entrance.log_in(&mut socket, random)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        tally.sessions += 1;
        tally.frames += session.frames.len() as u64;
        tally.bytes += stream.len() as u64;
        // The broker may end the connection before it has read all.
        let _ = socket.write_all(&stream);
        if is_waited_for {
            let _ = socket.shutdown(Shutdown::Write);
            self.read_answers(&mut socket, session, tally);
        }
        Ok(())
    }

    /// Reads answers until the broker ends the connection, or has nothing to say for a while.
    fn read_answers(&self, socket: &mut TcpStream, session: &Session, tally: &mut Tally) {
        let mut received = BytesMut::new();
        let mut earlier = None;
        let mut part = vec![0; 64 << 10];
        loop {
            match socket.read(&mut part) {
                Ok(0) => break tally.ended += 1,
                Ok(read) => received.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    break tally.ended += 1;
                }
                Err(_) => break tally.left += 1,
            }
            while let Some(frame) = take_frame(&mut received) {
                tally.answers += 1;
                if self.is_raw_challenge(&frame, session) {
                    continue;
                }
                if session.is_in_frames() {
                    earlier = self.note_answer(&frame, session, earlier, tally);
                }
            }
        }
    }

    /// Whether an answer is a token by itself that asks for another one. Another token by itself would let a stranger in.
    fn is_raw_challenge(&self, frame: &Bytes, session: &Session) -> bool {
        let is_stranger = matches!(self.entrance, Entrance::Stranger { .. });
        is_stranger && session.has_raw_tokens() && frame.starts_with(b"r=")
    }

    /// Holds an answer against the request that it says it is to, which must be behind that of the answer before it; gives
    /// the request's place. A stranger is answered nothing but what is open to everybody.
    fn note_answer(
        &self,
        frame: &Bytes,
        session: &Session,
        earlier: Option<usize>,
        tally: &mut Tally,
    ) -> Option<usize> {
        let place = frame.first_chunk().map(|id| u32::from_be_bytes(*id) as usize);
        let due = place.filter(|place| earlier.is_none_or(|earlier| *place > earlier));
        let is_stranger = matches!(self.entrance, Entrance::Stranger { .. });
        let request = due.and_then(|place| session.frames.get(place)?.request());
        let request = request.filter(|(api, _)| !is_stranger || is_open_to_strangers(*api));
        match request.map(|(api_key, version)| error_codes(frame, api_key, version)) {
            Some(Ok(codes)) => {
                for code in codes {
                    *tally.error_codes.entry(code).or_default() += 1;
                }
            }
            wrong => {
                let bytes = &frame[..frame.len().min(64)];
                tally.wrong_answers.push(format!("{wrong:?} to {request:?}: {bytes:02x?}"));
            }
        }
        place
    }
}

fn take_frame(received: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_be_bytes(*received.first_chunk()?) as usize;
    if received.len() < 4 + length {
        return None;
    }
    received.advance(4);
    Some(received.split_to(length).freeze())
}
