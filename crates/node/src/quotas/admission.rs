//! Whether a connection may be opened, and when it is served: the same for every front door.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use logway_metadata::quota::QuotaKey;
use logway_metadata::settings::{BrokerSettings, ListenerSettings};
use tokio::time::{Instant, sleep_until};

use super::connection_rates::{ConnectionRates, Rated};
use super::per_address::AddressSeat;
use crate::{CLIENTS, Node};

/// Connections that wait because their addresses open too many take no more than this part of
/// `max.connections`.
const WAITING_PART: usize = 4;

/// The connections of a node, over all listeners of all front doors. How many there may be can change at any
/// time.
#[derive(Debug, Default)]
pub(crate) struct ConnectionSeats {
    all: Seats,
    waiting: Seats,
}

/// How many connections one listener has, and may have (KIP-612). What is not limited is not counted.
#[derive(Debug)]
pub struct ListenerLimits {
    name: String,
    connections: Option<(Seats, usize)>,
    rate: Option<(ConnectionRates, u32)>,
}

impl ListenerLimits {
    /// Of a listener to which nobody has connected yet.
    pub fn new(settings: &BrokerSettings, listener: &ListenerSettings) -> ListenerLimits {
        let rate = |max| (ConnectionRates::new(settings, max), max);
        ListenerLimits {
            name: listener.name.clone(),
            connections: listener.connections_max.map(|max| (Seats::default(), max)),
            rate: listener.connections_per_second_max.map(rate),
        }
    }

    /// Of a listener that has only the limits of all.
    pub fn none(name: &str) -> ListenerLimits {
        ListenerLimits { name: name.to_owned(), connections: None, rate: None }
    }

    /// Counts a connection; says for how long no further one is to be accepted.
    fn count(&self) -> Duration {
        self.rate.as_ref().map_or(Duration::ZERO, |(rate, max)| rate.count(*max))
    }
}

/// A connection that is let in, as long as it lives.
#[derive(Debug)]
pub struct Admitted {
    _of_all: Seat,
    _of_listener: Option<Seat>,
    _of_address: AddressSeat,
    /// Until when it waits, and its seat among those that do.
    waiting: Option<(Instant, Seat)>,
}

/// What becomes of a connection that was opened.
#[derive(Debug)]
pub struct Admission {
    /// The connection, to be served behind [`Admitted::turn`]; `None` if it must be closed.
    pub admitted: Option<Admitted>,
    /// The next connection is to be accepted after so long (`max.connection.creation.rate`).
    pub pause: Duration,
}

/// Counts what there may be so many of.
#[derive(Debug, Default)]
struct Seats(Arc<AtomicUsize>);

/// One of them, as long as it lives.
#[derive(Debug)]
struct Seat(Arc<AtomicUsize>);

impl Seats {
    /// One more, if there are fewer than `max`.
    fn take(&self, max: usize) -> Option<Seat> {
        let more = |taken| (taken < max).then_some(taken + 1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Seat(Arc::clone(&self.0)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admitted {
    /// Ends when the connection may be served. Nothing is read from it before.
    pub async fn turn(&mut self) {
        if let Some((time, seat)) = self.waiting.take() {
            sleep_until(time).await;
            drop(seat);
        }
    }
}

impl Node {
    /// Judges a connection that was opened: `max.connections`, `max.connections.per.ip`, and the rates at
    /// which all and each address may open them (KIP-612), of the whole broker and of the listener.
    pub fn admit(&self, peer: SocketAddr, listener: &ListenerLimits) -> Admission {
        let rated = self.connection_rates.admit(&self.image(), peer.ip());
        let pause = match rated {
            Rated::In(_) => {
                let of_all = self.connection_rates.count(self.connections_per_second_max());
                of_all.max(listener.count())
            }
            Rated::Refused => Duration::ZERO,
        };
        Admission { admitted: self.seat(rated, peer, listener), pause }
    }

    fn seat(&self, rated: Rated, peer: SocketAddr, listener: &ListenerLimits) -> Option<Admitted> {
        let max = self.connections_max();
        let Some(of_all) = self.connection_seats.all.take(max) else {
            return self.refuse_connection(peer, "max.connections", max);
        };
        let of_listener = match &listener.connections {
            Some((seats, max)) => match seats.take(*max) {
                Some(seat) => Some(seat),
                None => {
                    let setting = format!("max.connections of listener {}", listener.name);
                    return self.refuse_connection(peer, &setting, *max);
                }
            },
            None => None,
        };
        let of_address_max = self.connections_max_of(peer.ip());
        let Some(of_address) = self.connections_by_address.take(peer.ip(), of_address_max) else {
            return self.refuse_connection(peer, "max.connections.per.ip", of_address_max);
        };
        let Rated::In(wait) = rated else { return self.refuse_for_now(peer.ip()) };
        let admitted = |waiting| Admitted {
            _of_all: of_all,
            _of_listener: of_listener,
            _of_address: of_address,
            waiting,
        };
        if wait.is_zero() {
            return Some(admitted(None));
        }
        let Some(seat) = self.connection_seats.waiting.take(max.div_ceil(WAITING_PART)) else {
            return self.refuse_for_now(peer.ip());
        };
        self.metrics.quotas.throttled(QuotaKey::ConnectionCreationRate, wait);
        Some(admitted(Some((Instant::now() + wait, seat))))
    }

    fn refuse_connection(&self, peer: SocketAddr, setting: &str, max: usize) -> Option<Admitted> {
        self.metrics.connections.refused.inc();
        tracing::warn!(target: CLIENTS, %peer, max, "connection refused: {setting} is reached");
        None
    }

    /// Its address has opened too many connections for this one to wait.
    fn refuse_for_now(&self, address: IpAddr) -> Option<Admitted> {
        self.metrics.connections.over_rate.inc();
        tracing::debug!(%address, "connection refused: its address opens too many per second");
        None
    }
}
