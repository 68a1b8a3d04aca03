//! A network in memory that loses, delays, repeats and reorders messages, and that can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use logway_log::fs::sim::Rng;
use logway_quorum::{Lane, MetadataQuorum, Peer, PeerCall, PeerError, PeerNetwork};
use tokio::time::{Instant, sleep};

/// How bad the network is. Chances are in thousands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) lost: usize,
    pub(crate) repeated: usize,
    /// A message takes so long at most; each takes its own time, so they overtake each other.
    pub(crate) delay_max_ms: usize,
}

impl Weather {
    pub(crate) const FAIR: Weather = Weather { lost: 0, repeated: 0, delay_max_ms: 2 };
}

/// The network of one world. Clones are the same network.
#[derive(Clone)]
pub(crate) struct Network(Arc<Mutex<Inner>>);

struct Inner {
    /// Of each way from one address to another.
    chances: BTreeMap<(String, String), Rng>,
    seed: u64,
    weather: Weather,
    /// Who listens where.
    listeners: BTreeMap<String, Listener>,
    /// From where no message gets where.
    cuts: BTreeSet<(String, String)>,
    /// Of each data directory, the last term in which it gave its vote away.
    granted: BTreeMap<String, u64>,
    /// Sums up everything that was delivered, when and where.
    trace: DefaultHasher,
    delivered: u64,
    started: Instant,
}

#[derive(Clone)]
struct Listener {
    quorum: Weak<MetadataQuorum>,
    is_alive: Arc<AtomicBool>,
    directory: String,
}

/// What happens to one message on its way.
struct Fate {
    is_lost: bool,
    is_reply_lost: bool,
    is_repeated: bool,
    there: Duration,
    back: Duration,
    again: Duration,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Network {
        Network(Arc::new(Mutex::new(Inner {
            chances: BTreeMap::new(),
            seed,
            weather: Weather::FAIR,
            listeners: BTreeMap::new(),
            cuts: BTreeSet::new(),
            granted: BTreeMap::new(),
            trace: DefaultHasher::new(),
            delivered: 0,
            started: Instant::now(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One process's way into the network, which ends with it.
    pub(crate) fn link(&self, address: &str, is_alive: &Arc<AtomicBool>) -> Arc<dyn PeerNetwork> {
        let is_alive = Arc::clone(is_alive);
        Arc::new(Link { network: self.clone(), address: address.to_owned(), is_alive })
    }

    /// From now on a process listens at an address.
    pub(crate) fn listen(
        &self,
        address: &str,
        directory: &str,
        quorum: &Arc<MetadataQuorum>,
        is_alive: &Arc<AtomicBool>,
    ) {
        let quorum = Arc::downgrade(quorum);
        let (is_alive, directory) = (Arc::clone(is_alive), directory.to_owned());
        let listener = Listener { quorum, is_alive, directory };
        self.lock().listeners.insert(address.to_owned(), listener);
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.lock().weather = weather;
    }

    /// Lets no message get from one address to another.
    pub(crate) fn cut(&self, from: &str, to: &str) {
        self.lock().cuts.insert((from.to_owned(), to.to_owned()));
    }

    pub(crate) fn cut_both(&self, one: &str, other: &str) {
        self.cut(one, other);
        self.cut(other, one);
    }

    pub(crate) fn heal(&self) {
        let mut inner = self.lock();
        inner.cuts.clear();
        inner.weather = Weather::FAIR;
    }

    /// The last term in which a directory gave its vote away; 0 for none.
    pub(crate) fn granted(&self, directory: &str) -> u64 {
        self.lock().granted.get(directory).copied().unwrap_or(0)
    }

    /// What was delivered: equal for equal worlds.
    pub(crate) fn trace(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.delivered, inner.trace.finish())
    }

    fn fate(&self, from: &str, to: &str) -> Fate {
        let mut inner = self.lock();
        let Weather { lost, repeated, delay_max_ms } = inner.weather;
        let seed = inner.seed;
        let begin = || {
            let mut hasher = DefaultHasher::new();
            (seed, from, to).hash(&mut hasher);
            Rng::new(hasher.finish())
        };
        let way = (from.to_owned(), to.to_owned());
        let rng = inner.chances.entry(way).or_insert_with(begin);
        let mut chance = |of_thousand: usize| rng.below(1_000) < of_thousand;
        let (is_lost, is_reply_lost) = (chance(lost), chance(lost));
        let is_repeated = chance(repeated);
        let mut delay = || Duration::from_millis(rng.below(delay_max_ms + 1) as u64);
        let (there, back) = (delay(), delay());
        let again = delay() * 20;
        Fate { is_lost, is_reply_lost, is_repeated, there, back, again }
    }

    fn is_cut(&self, from: &str, to: &str) -> bool {
        self.lock().cuts.contains(&(from.to_owned(), to.to_owned()))
    }

    /// Hands a message to whoever listens there now.
    async fn deliver(&self, from: &str, to: &str, message: &[u8]) -> Option<Vec<u8>> {
        let listener = {
            let mut inner = self.lock();
            let at = inner.started.elapsed();
            inner.delivered += 1;
            (from, to, message, at).hash(&mut inner.trace);
            inner.listeners.get(to).cloned()?
        };
        if !listener.is_alive.load(Ordering::Relaxed) {
            return None;
        }
        let quorum = listener.quorum.upgrade()?;
        let reply = quorum.handle(message).await;
        if !listener.is_alive.load(Ordering::Relaxed) {
            return None;
        }
        self.note_vote(&listener.directory, &reply);
        Some(reply)
    }

    fn note_vote(&self, directory: &str, reply: &[u8]) {
        let Ok(reply) = serde_json::from_slice::<serde_json::Value>(reply) else { return };
        let vote = &reply["vote"];
        if vote["vote_granted"] == true
            && let Some(term) = vote["vote"]["leader_id"]["term"].as_u64()
        {
            let mut inner = self.lock();
            let granted = inner.granted.entry(directory.to_owned()).or_default();
            *granted = (*granted).max(term);
        }
    }
}

/// See [`Network::link`].
struct Link {
    network: Network,
    address: String,
    is_alive: Arc<AtomicBool>,
}

impl PeerNetwork for Link {
    fn call(&self, to: &Peer, _lane: Lane, request: Vec<u8>, timeout: Duration) -> PeerCall {
        let (network, is_alive) = (self.network.clone(), Arc::clone(&self.is_alive));
        let (from, to) = (self.address.clone(), to.address.clone());
        Box::pin(async move {
            let called = call(&network, &from, &to, request, &is_alive);
            match tokio::time::timeout(timeout, called).await {
                Ok(result) => result,
                Err(_) => Err(PeerError::TimedOut),
            }
        })
    }
}

async fn call(
    network: &Network,
    from: &str,
    to: &str,
    request: Vec<u8>,
    is_alive: &AtomicBool,
) -> Result<Vec<u8>, PeerError> {
    let never = std::future::pending::<Result<Vec<u8>, PeerError>>;
    let fate = network.fate(from, to);
    if !is_alive.load(Ordering::Relaxed) {
        return never().await;
    }
    if fate.is_repeated {
        let (network, request) = (network.clone(), request.clone());
        let (from, to) = (from.to_owned(), to.to_owned());
        tokio::spawn(async move {
            sleep(fate.there + fate.again).await;
            if !network.is_cut(&from, &to) {
                network.deliver(&from, &to, &request).await;
            }
        });
    }
    sleep(fate.there).await;
    if fate.is_lost || network.is_cut(from, to) {
        return never().await;
    }
    // The other node goes on with a request that nobody waits for any longer.
    let (handler, network) = (network.clone(), network.clone());
    let (sender, receiver) = (from.to_owned(), to.to_owned());
    let handling = tokio::spawn(async move { handler.deliver(&sender, &receiver, &request).await });
    let Some(reply) = handling.await.ok().flatten() else {
        sleep(fate.back).await;
        return Err(PeerError::Unreachable("nobody listens there".to_owned()));
    };
    sleep(fate.back).await;
    if fate.is_reply_lost || network.is_cut(to, from) || !is_alive.load(Ordering::Relaxed) {
        return never().await;
    }
    Ok(reply)
}
