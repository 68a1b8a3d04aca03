//! How many streams may be open at a node, and how many of these one client may have.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use logway_node::access::Principal;

use crate::grpc::status::{Code, Status};

/// Streams that may be open here, over all connections. Each may wait for another node.
const STREAMS_MAX: usize = 4_000;

/// So many of these may be of one user, so that nobody takes all of them. Who was not asked for a name is one user, too.
const STREAMS_OF_USER_MAX: usize = STREAMS_MAX / 2;

/// Streams that are open to everybody, such as those that watch the health. They are no part of the others.
const OPEN_STREAMS_MAX: usize = 512;

/// So many of these may be of one address.
const OPEN_STREAMS_OF_HOST_MAX: usize = 64;

/// The streams of a node.
#[derive(Debug)]
pub(crate) struct OpenStreams {
    of_users: Places<Principal>,
    open: Places<IpAddr>,
}

impl Default for OpenStreams {
    fn default() -> OpenStreams {
        OpenStreams {
            of_users: Places::new(STREAMS_MAX, STREAMS_OF_USER_MAX),
            open: Places::new(OPEN_STREAMS_MAX, OPEN_STREAMS_OF_HOST_MAX),
        }
    }
}

impl OpenStreams {
    /// A place for a stream of a user.
    pub(crate) fn of_user(&self, user: &Principal) -> Result<StreamPlace, Status> {
        self.of_users.take(user.clone()).map_err(|full| match full {
            Full::OfOne => too_many(
                format!("{user} has {STREAMS_OF_USER_MAX} streams open at this node"),
                "end some of them, or ask another node",
            ),
            Full::OfAll => {
                too_many(format!("{STREAMS_MAX} streams are open at this node"), "ask another node")
            }
        })
    }

    /// A place for a stream that is open to everybody.
    pub(crate) fn of_host(&self, host: IpAddr) -> Result<StreamPlace, Status> {
        self.open.take(host).map_err(|full| match full {
            Full::OfOne => too_many(
                format!("{host} has {OPEN_STREAMS_OF_HOST_MAX} streams without a login open"),
                "end some of them, or ask again and again by Check",
            ),
            Full::OfAll => too_many(
                format!("{OPEN_STREAMS_MAX} streams without a login are open at this node"),
                "ask again and again by Check",
            ),
        })
    }
}

fn too_many(message: String, remedy: &'static str) -> Status {
    Status::new(Code::ResourceExhausted, "TOO_MANY_STREAMS", message).remedy(remedy)
}

/// A stream, until it has ended.
#[must_use]
pub(crate) struct StreamPlace {
    _release: Box<dyn Send + Sync>,
}

/// Which bound was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    OfOne,
    OfAll,
}

/// Places of many who share them.
#[derive(Debug)]
struct Places<K> {
    max: usize,
    of_one_max: usize,
    taken: Arc<Mutex<Taken<K>>>,
}

#[derive(Debug)]
struct Taken<K> {
    count: usize,
    /// Who has none is left out, so that this has `max` entries at most.
    by: HashMap<K, usize>,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Places<K> {
    fn new(max: usize, of_one_max: usize) -> Places<K> {
        let taken = Taken { count: 0, by: HashMap::new() };
        Places { max, of_one_max, taken: Arc::new(Mutex::new(taken)) }
    }

    fn take(&self, of: K) -> Result<StreamPlace, Full> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.by.get(&of).is_some_and(|count| *count >= self.of_one_max) {
            return Err(Full::OfOne);
        }
        if taken.count >= self.max {
            return Err(Full::OfAll);
        }
        taken.count += 1;
        *taken.by.entry(of.clone()).or_default() += 1;
        let release = Release { of, taken: Arc::clone(&self.taken) };
        Ok(StreamPlace { _release: Box::new(release) })
    }
}

/// Gives a place back.
struct Release<K: Hash + Eq> {
    of: K,
    taken: Arc<Mutex<Taken<K>>>,
}

impl<K: Hash + Eq> Drop for Release<K> {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.count -= 1;
        if let Some(count) = taken.by.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                taken.by.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_takes_many_leaves_some_for_others() {
        let places = Places::new(5, 3);
        let mut of_one: Vec<_> = (0..3).map(|_| places.take("one").ok()).collect();
        assert!(of_one.iter().all(Option::is_some));
        assert_eq!(places.take("one").err(), Some(Full::OfOne));
        let _others = [places.take("two").ok(), places.take("three").ok()];
        assert_eq!(places.take("four").err(), Some(Full::OfAll));
        of_one.pop();
        assert!(places.take("four").is_ok());
        drop(of_one);
        assert!(!places.taken.lock().expect("is fine").by.contains_key("one"));
    }
}
