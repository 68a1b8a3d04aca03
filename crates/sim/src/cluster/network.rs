//! A network within the process that loses, delays and repeats messages, and that can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use logway_log::fs::sim::Rng;
use logway_model::{ClusterId, DirectoryId};
use logway_peers::{CallHandler, Carried, Carrier, Greeting, Identity, Kind, Lane, PeerError};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::life::{End, Life};

/// How bad the network is, beside being cut. Chances are in thousands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weather {
    lost: usize,
    repeated: usize,
    delayed: usize,
    delay_max_ms: usize,
}

impl Weather {
    pub(super) const FAIR: Weather = Weather { lost: 0, repeated: 0, delayed: 0, delay_max_ms: 0 };

    pub(super) fn new(random: &mut Rng) -> Weather {
        match random.below(3) {
            0 => Weather::FAIR,
            1 => Weather { lost: 0, repeated: 20, delayed: 100, delay_max_ms: 20 },
            _ => Weather { lost: 2, repeated: 20, delayed: 200, delay_max_ms: 60 },
        }
    }
}

/// How often something comes once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    AsWeather,
    /// As over TCP.
    Never,
    Often,
}

/// The network of one world. Clones are the same network.
#[derive(Clone)]
pub(super) struct Network(Arc<Mutex<Inner>>);

struct Inner {
    random: Rng,
    weather: Weather,
    /// Nothing comes a second time any more.
    is_calm: bool,
    of_clients: Repeats,
    /// Who listens where, or listened last.
    listeners: BTreeMap<String, Listener>,
    /// From where no message gets where.
    cuts: BTreeSet<(String, String)>,
    /// Changes when calls that were lost are given up: connections are made anew.
    healed: watch::Sender<u64>,
}

#[derive(Clone)]
struct Listener {
    life: Life,
    runtime: Handle,
    cluster: Option<ClusterId>,
    handler: Option<Arc<dyn CallHandler>>,
}

/// What becomes of one call.
struct Fate {
    is_lost: bool,
    is_reply_lost: bool,
    is_repeated: bool,
    there: Duration,
    back: Duration,
    again: Duration,
}

/// Where a node listens. The address is its machine's, in all its lives.
pub(super) fn address_of(number: usize) -> SocketAddr {
    let last = u8::try_from(number).unwrap_or(u8::MAX);
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), 9_093)
}

impl Network {
    pub(super) fn new(seed: u64) -> Network {
        Network(Arc::new(Mutex::new(Inner {
            random: Rng::new(seed),
            weather: Weather::FAIR,
            is_calm: false,
            of_clients: Repeats::AsWeather,
            listeners: BTreeMap::new(),
            cuts: BTreeSet::new(),
            healed: watch::Sender::new(0),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One process's way into the network, and that of others to it. It ends with the process's life.
    pub(super) fn carrier(&self, number: usize, life: &Life, runtime: &Handle) -> Arc<dyn Carrier> {
        let address = address_of(number);
        let (life, runtime) = (life.clone(), runtime.clone());
        let listener = Listener { life: life.clone(), runtime, cluster: None, handler: None };
        self.lock().listeners.insert(address.to_string(), listener);
        let nobody = Identity { cluster: None, node: None, directory: DirectoryId::UNASSIGNED };
        let (network, own) = (self.clone(), RwLock::new(nobody));
        Arc::new(SimCarrier { network, address, life, own })
    }

    pub(super) fn set_weather(&self, weather: Weather) {
        self.lock().weather = weather;
    }

    /// Says how often what nodes ask for their clients comes once more, and late.
    pub(super) fn set_repeats_of_clients(&self, repeats: Repeats) {
        self.lock().of_clients = repeats;
    }

    /// A number of the seed's.
    pub(super) fn number(&self) -> u64 {
        self.lock().random.next_u64()
    }

    /// Lets nothing get from one node to another.
    pub(super) fn cut(&self, from: usize, to: usize) {
        let cut = (address_of(from).to_string(), address_of(to).to_string());
        self.lock().cuts.insert(cut);
    }

    /// Mends all that is cut. What was lost meanwhile is not waited for any longer.
    pub(super) fn heal(&self) {
        let mut inner = self.lock();
        inner.cuts.clear();
        inner.healed.send_modify(|healed| *healed += 1);
    }

    /// No more messages are lost, delayed or repeated, nor comes what was to be repeated later.
    pub(super) fn calm(&self) {
        {
            let mut inner = self.lock();
            inner.weather = Weather::FAIR;
            inner.is_calm = true;
        }
        self.heal();
    }

    fn fate(&self, lane: Lane) -> Fate {
        let inner = &mut *self.lock();
        let Weather { lost, repeated, delayed, delay_max_ms } = inner.weather;
        let repeated = match inner.of_clients {
            _ if lane != Lane::Clients => repeated,
            Repeats::AsWeather => repeated,
            Repeats::Never => 0,
            Repeats::Often => 200,
        };
        let random = &mut inner.random;
        let mut chance = |of_thousand: usize| random.below(1_000) < of_thousand;
        let (is_lost, is_reply_lost) = (chance(lost), chance(lost));
        let (is_repeated, is_delayed, is_back_delayed) =
            (chance(repeated), chance(delayed), chance(delayed));
        let mut delay = |is_delayed: bool, of: usize| match is_delayed {
            true => Duration::from_millis(random.below(of + 1) as u64),
            false => Duration::ZERO,
        };
        let there = delay(is_delayed, delay_max_ms);
        let back = delay(is_back_delayed, delay_max_ms);
        let again = delay(is_repeated, 2_000);
        Fate { is_lost, is_reply_lost, is_repeated, there, back, again }
    }

    fn is_calm(&self) -> bool {
        self.lock().is_calm
    }

    fn is_cut(&self, from: &str, to: &str) -> bool {
        self.lock().cuts.contains(&(from.to_owned(), to.to_owned()))
    }

    fn listener(&self, address: &str) -> Option<Listener> {
        self.lock().listeners.get(address).cloned()
    }

    /// Ends when a call that was lost is given up, before its time is over.
    async fn lost(&self) -> PeerError {
        let mut healed = self.lock().healed.subscribe();
        // The sender is in `self`.
        _ = healed.changed().await;
        PeerError::Unreachable("the connection broke".to_owned())
    }
}

/// See [`Network::carrier`].
struct SimCarrier {
    network: Network,
    address: SocketAddr,
    life: Life,
    own: RwLock<Identity>,
}

/// One call on its way.
struct Call {
    network: Network,
    life: Life,
    own: Identity,
    from: String,
    to: String,
    lane: Lane,
}

impl Call {
    /// Hands a request to the node that listens there, and waits for the reply.
    async fn carry(self, kind: Kind, request: Bytes) -> Result<Bytes, PeerError> {
        let Fate { is_lost, is_reply_lost, is_repeated, there, back, again } =
            self.network.fate(self.lane);
        if !self.life.is_alive() {
            return pending().await;
        }
        if is_repeated {
            let repeated = Call { from: self.from.clone(), to: self.to.clone(), ..self.again() };
            let request = request.clone();
            tokio::spawn(async move {
                sleep(there + again).await;
                let network = &repeated.network;
                if !network.is_calm() && !network.is_cut(&repeated.from, &repeated.to) {
                    _ = repeated.deliver(kind, request).await;
                }
            });
        }
        pause(there).await;
        if is_lost || self.network.is_cut(&self.from, &self.to) {
            return Err(self.network.lost().await);
        }
        let reply = self.deliver(kind, request).await?;
        pause(back).await;
        if is_reply_lost || self.network.is_cut(&self.to, &self.from) {
            return Err(self.network.lost().await);
        }
        match self.life.is_alive() {
            true => Ok(reply),
            false => pending().await,
        }
    }

    fn again(&self) -> Call {
        let (network, life, own) = (self.network.clone(), self.life.clone(), self.own);
        Call { network, life, own, from: self.from.clone(), to: self.to.clone(), lane: self.lane }
    }

    async fn deliver(&self, kind: Kind, request: Bytes) -> Result<Bytes, PeerError> {
        let unreachable = |reason: &str| Err(PeerError::Unreachable(reason.to_owned()));
        let Some(listener) = self.network.listener(&self.to) else {
            return unreachable("nobody listens there");
        };
        match listener.life.end() {
            None => {}
            Some(End::PowerCut) => return Err(self.network.lost().await),
            Some(End::Process) => return unreachable("nobody listens there"),
        }
        let is_other = matches!((self.own.cluster, listener.cluster), (Some(a), Some(b)) if a != b);
        if is_other {
            return unreachable("it belongs to another cluster");
        }
        let Some(handler) = &listener.handler else {
            return unreachable("the node does not answer that yet");
        };
        // The other node goes on with a request that nobody waits for any longer.
        let handling = listener.runtime.spawn(handler.handle(self.own, kind, request));
        let ended = match handling.await {
            Ok(Some(reply)) if listener.life.is_alive() => return Ok(reply.into()),
            Ok(None) => return unreachable("the node does not answer that yet"),
            Ok(Some(_)) | Err(_) => listener.life.end(),
        };
        match ended {
            Some(End::PowerCut) => Err(self.network.lost().await),
            Some(End::Process) | None => unreachable("the connection broke"),
        }
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

impl SimCarrier {
    fn call(&self, to: &str, lane: Lane) -> Call {
        Call {
            network: self.network.clone(),
            life: self.life.clone(),
            own: *self.own.read().unwrap_or_else(PoisonError::into_inner),
            from: self.address.to_string(),
            to: to.to_owned(),
            lane,
        }
    }

    /// What this process listens with, if no later one of its machine does.
    fn change_listener(&self, change: impl FnOnce(&mut Listener)) {
        let mut inner = self.network.lock();
        let listener = inner.listeners.get_mut(&self.address.to_string());
        if let Some(listener) = listener.filter(|listener| listener.life.is(&self.life)) {
            change(listener);
        }
    }
}

impl Carrier for SimCarrier {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn set_own(&self, own: Identity) {
        *self.own.write().unwrap_or_else(PoisonError::into_inner) = own;
    }

    fn request(
        &self,
        address: &str,
        lane: Lane,
        kind: Kind,
        payload: Vec<u8>,
        time_max: Duration,
    ) -> Carried<Result<Bytes, PeerError>> {
        let call = self.call(address, lane);
        Box::pin(async move {
            let carried = timeout(time_max, call.carry(kind, payload.into())).await;
            carried.unwrap_or(Err(PeerError::TimedOut))
        })
    }

    fn greet(&self, address: &str, time_max: Duration) -> Carried<Result<Greeting, PeerError>> {
        let Call { network, from, to, .. } = self.call(address, Lane::Control);
        let own_address = self.address.ip();
        Box::pin(async move {
            if network.is_cut(&from, &to) || network.is_cut(&to, &from) {
                sleep(time_max).await;
                return Err(PeerError::TimedOut);
            }
            match network.listener(&to).filter(|listener| listener.life.is_alive()) {
                Some(listener) => Ok(Greeting { cluster: listener.cluster, own_address }),
                None => Err(PeerError::Unreachable("nobody listens there".to_owned())),
            }
        })
    }

    fn is_vacant(&self, address: &str, time_max: Duration) -> Carried<bool> {
        let Call { network, from, to, .. } = self.call(address, Lane::Control);
        Box::pin(async move {
            let end = network.listener(&to).and_then(|listener| listener.life.end());
            let is_silent = end == Some(End::PowerCut);
            if is_silent || network.is_cut(&from, &to) || network.is_cut(&to, &from) {
                sleep(time_max).await;
                return false;
            }
            end == Some(End::Process)
        })
    }

    fn belongs_to(&self, cluster: ClusterId) {
        self.change_listener(|listener| listener.cluster = Some(cluster));
    }

    fn serve(&self, handler: Arc<dyn CallHandler>) {
        self.change_listener(|listener| listener.handler = Some(handler));
    }

    fn stop(&self) -> Carried<()> {
        self.change_listener(|listener| listener.handler = None);
        Box::pin(async {})
    }
}
