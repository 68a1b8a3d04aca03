//! A broker that only stores: the least that anything with these sockets and this disk has to do.
//!
//! One thread reads what has come over all sockets, writes it, syncs it once if any of it is to be on
//! the disk before it is acknowledged, and then answers. It looks into nothing: no CRC, no records, no
//! index, no budget, nobody who reads. So a broker that does all of that can come close to its
//! figures; what it does not reach itself, this machine does not allow.
//!
//! What need not be on the disk goes to one file for each partition, in Kafka's own format. What must
//! be goes to a journal that all partitions share ([`journal`]), as a sync costs the least there, and from memory
//! to its partition's file when it has become a large write or the journal is full.

mod connection;
mod journal;
mod store;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use connection::Connection;
use store::Store;

use crate::generator::send_at_once;
use crate::null_broker::{Replies, Topics};

/// What the listener is called among the sockets; connections are counted from the next number.
const LISTENER: u64 = 0;

/// Sockets that are served in one turn.
const EVENTS_MAX: usize = 1024;

struct BareBroker {
    listener: TcpListener,
    address: SocketAddr,
    epoll: OwnedFd,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    topics: Arc<Topics>,
    store: Store,
}

/// Serves until the process ends; `on_ready` gets the address.
///
/// # Errors
///
/// The directory cannot be written, or the listener fails.
pub(crate) fn serve(
    listener: TcpListener,
    directory: &Path,
    on_ready: impl FnOnce(&str),
) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut broker = BareBroker {
        listener,
        address,
        epoll,
        connections: BTreeMap::new(),
        next_connection: LISTENER + 1,
        topics: Arc::default(),
        store: Store::create(directory)?,
    };
    on_ready(&address.to_string());
    let mut events = Vec::with_capacity(EVENTS_MAX);
    loop {
        events.clear();
        match epoll::wait(&broker.epoll, spare_capacity(&mut events), None) {
            Ok(_) => broker.turn(&events)?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for clients"),
        }
    }
}

impl BareBroker {
    /// Reads from each socket once, stores all of it together, and answers.
    fn turn(&mut self, events: &[Event]) -> anyhow::Result<()> {
        let BareBroker { connections, store, topics, .. } = self;
        let mut served = Vec::with_capacity(events.len());
        let mut is_called = false;
        for event in events {
            let number = event.data.u64();
            let Some(connection) = connections.get_mut(&number) else {
                is_called |= number == LISTENER;
                continue;
            };
            match connection.read(number, store, topics) {
                Ok(()) => served.push(number),
                Err(error) => {
                    connection.give_up(&error);
                    // What it had sent may be among what is to be stored, so it goes after that.
                    served.push(number);
                }
            }
        }
        store.write(connections)?;
        for number in served {
            let is_over = connections.get_mut(&number).is_some_and(|it| it.answer().is_err());
            if is_over {
                // The system forgets a socket that is closed.
                connections.remove(&number);
            }
        }
        store.move_much()?;
        if is_called { self.accept() } else { Ok(()) }
    }

    fn accept(&mut self) -> anyhow::Result<()> {
        let (stream, _) = self.listener.accept().context("cannot accept a connection")?;
        send_at_once(&stream)?;
        let number = self.next_connection;
        self.next_connection += 1;
        epoll::add(&self.epoll, &stream, EventData::new_u64(number), EventFlags::IN)?;
        let replies = Replies::new(self.address, Arc::clone(&self.topics));
        self.connections.insert(number, Connection::new(stream, replies));
        Ok(())
    }
}
