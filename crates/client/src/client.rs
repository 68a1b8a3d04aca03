//! A client of a cluster: whom to ask what.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logway_model::{BrokerId, ErrorCode, TopicName, TopicPartition};
use logway_wire::messages::metadata_request::MetadataRequestTopic;
use logway_wire::messages::{MetadataRequest, MetadataResponse};
use logway_wire::{Request, WireString};

use crate::delay::Delays;
use crate::error::check;
use crate::retry::Backoff;
use crate::{
    BrokerAddress, ClientError, ClusterMetadata, Connection, ConnectionOptions, DelayObserver,
};

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// How each connection behaves.
    pub connection: ConnectionOptions,
    /// How long to repeat what a broker refused for a reason that passes, such as an election.
    pub retry_patience: Duration,
    /// Who is told when something is tried again for a while.
    pub on_delay: DelayObserver,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connection: ConnectionOptions::default(),
            retry_patience: Duration::from_secs(10),
            on_delay: DelayObserver::default(),
        }
    }
}

/// Which topics to ask for.
#[derive(Debug, Clone, Copy)]
pub enum TopicSelection<'a> {
    /// Every topic there is.
    All,
    /// These; none if empty.
    Named(&'a BTreeSet<TopicName>),
}

/// What to do about a topic that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingTopic {
    /// Ask the broker to create it, which it does if it is configured so.
    Create,
    /// Wait for it: it has been created, but not every broker may know yet.
    Await,
    /// Report it.
    Refuse,
}

/// Connections to the brokers of one cluster, and what they last said about it; clones share both.
///
/// Questions are repeated when the connection breaks or the broker's answer says that a later
/// attempt may succeed. Nothing that changes the cluster is repeated after a broken connection.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    bootstrap: Vec<BrokerAddress>,
    options: ClientOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    metadata: Arc<ClusterMetadata>,
    connections: HashMap<BrokerAddress, Connection>,
    /// Where a broker has answered: not more than the cluster had brokers.
    reached: HashSet<BrokerAddress>,
}

impl Client {
    /// A client that will find the cluster through any of `bootstrap`; connects when first used.
    pub fn new(bootstrap: Vec<BrokerAddress>, options: ClientOptions) -> Client {
        let state = Mutex::default();
        Client { shared: Arc::new(Shared { bootstrap, options, state }) }
    }

    /// A client of the same cluster with connections of its own: so that its long requests hold
    /// nobody else up.
    #[must_use]
    pub fn fork(&self) -> Client {
        let reached = self.lock().reached.clone();
        let state = State { metadata: self.metadata(), connections: HashMap::new(), reached };
        Client {
            shared: Arc::new(Shared {
                bootstrap: self.shared.bootstrap.clone(),
                options: self.shared.options.clone(),
                state: Mutex::new(state),
            }),
        }
    }

    /// How this client was asked to behave.
    pub fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    /// What the cluster last said about itself; empty before the first
    /// [`Client::refresh_metadata`].
    pub fn metadata(&self) -> Arc<ClusterMetadata> {
        Arc::clone(&self.lock().metadata)
    }

    /// A connection to any broker: one that is open, else to the first that answers, bootstrap
    /// addresses before advertised ones.
    pub async fn any(&self) -> Result<Connection, ClientError> {
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let metadata = self.metadata();
        let advertised = metadata.brokers.values().map(|broker| &broker.address);
        let mut failures = Vec::new();
        let bootstrap = &self.shared.bootstrap;
        let advertised = advertised.filter(|&address| !bootstrap.contains(address));
        for address in bootstrap.iter().chain(advertised) {
            match self.connect(address).await {
                Ok(connection) => return Ok(connection),
                Err(error) => failures.push(error),
            }
        }
        Err(ClientError::NoBroker { failures })
    }

    /// A connection to one broker, at the address that the metadata gives.
    pub async fn broker(&self, id: BrokerId) -> Result<Connection, ClientError> {
        let metadata = self.metadata();
        match metadata.brokers.get(&id) {
            Some(broker) => self.connect(&broker.address).await,
            None => Err(ClientError::UnknownBroker { id }),
        }
    }

    /// A connection to the broker that takes changes to the cluster.
    pub async fn controller(&self) -> Result<Connection, ClientError> {
        if self.metadata().brokers.is_empty() {
            self.refresh_metadata(TopicSelection::Named(&BTreeSet::new()), MissingTopic::Refuse)
                .await?;
        }
        match self.metadata().controller {
            Some(controller) => self.broker(controller).await,
            None => self.any().await,
        }
    }

    /// Asks any broker something that may be asked twice.
    pub async fn call_any<R: Request>(&self, request: &R) -> Result<R::Response, ClientError> {
        self.ask_any(|connection| async move { connection.call(request).await }).await
    }

    /// The same with a question of several parts.
    pub(crate) async fn ask_any<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        ask: impl Fn(Connection) -> F,
    ) -> Result<T, ClientError> {
        let mut backoff = self.backoff();
        loop {
            // Who can reach no broker at all learns it at once.
            let connection = self.any().await?;
            let error = match ask(connection).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !error.is_retriable() || !backoff.pause(&error).await {
                return Err(error);
            }
        }
    }

    /// Asks about topics, and remembers the answer beside what is known of other topics.
    ///
    /// An error of a single topic is part of the answer.
    pub async fn refresh_metadata(
        &self,
        topics: TopicSelection<'_>,
        missing: MissingTopic,
    ) -> Result<Arc<ClusterMetadata>, ClientError> {
        let response = self.call_any(&metadata_request(topics, missing)).await?;
        self.remember(&response, topics)
    }

    /// The same about all topics, from the broker at the other end of a connection.
    pub(crate) async fn refresh_metadata_from(
        &self,
        broker: &Connection,
    ) -> Result<Arc<ClusterMetadata>, ClientError> {
        let request = metadata_request(TopicSelection::All, MissingTopic::Refuse);
        self.remember(&broker.call(&request).await?, TopicSelection::All)
    }

    fn remember(
        &self,
        response: &MetadataResponse,
        topics: TopicSelection<'_>,
    ) -> Result<Arc<ClusterMetadata>, ClientError> {
        check(|| "read the cluster's metadata".to_owned(), response.error_code, None)?;
        let mut fresh = ClusterMetadata::from_response(response);
        let mut state = self.lock();
        if let TopicSelection::Named(names) = topics {
            let known = state.metadata.topics.iter().filter(|(name, _)| !names.contains(*name));
            fresh.topics.extend(known.map(|(name, topic)| (name.clone(), topic.clone())));
        }
        state.metadata = Arc::new(fresh);
        Ok(Arc::clone(&state.metadata))
    }

    /// Asks about topics until all exist and their partitions have leaders.
    ///
    /// # Errors
    ///
    /// What is wrong with the first topic that is not ready: at once if waiting does not help,
    /// or when [`ClientOptions::retry_patience`] is over.
    pub async fn await_topics(
        &self,
        names: &BTreeSet<TopicName>,
        missing: MissingTopic,
    ) -> Result<Arc<ClusterMetadata>, ClientError> {
        self.await_metadata(names, missing, not_ready).await
    }

    /// Asks about topics until all exist; partitions may lack their leaders.
    ///
    /// # Errors
    ///
    /// As [`Client::await_topics`].
    pub async fn find_topics(
        &self,
        names: &BTreeSet<TopicName>,
        missing: MissingTopic,
    ) -> Result<Arc<ClusterMetadata>, ClientError> {
        self.await_metadata(names, missing, not_found).await
    }

    /// Asks about a topic until it exists and at least one of its partitions has a leader.
    pub(crate) async fn await_any_leader(
        &self,
        topic: &TopicName,
        missing: MissingTopic,
    ) -> Result<Arc<ClusterMetadata>, ClientError> {
        let names = BTreeSet::from([topic.clone()]);
        self.await_metadata(&names, missing, |metadata, name| {
            let mut partitions = metadata.topics.get(name).into_iter().flat_map(|t| &t.partitions);
            match partitions.any(|partition| partition.leader.is_some()) {
                true => not_found(metadata, name),
                false => not_ready(metadata, name),
            }
        })
        .await
    }

    /// Asks about topics until nothing is `lacking` in any of them.
    async fn await_metadata(
        &self,
        names: &BTreeSet<TopicName>,
        missing: MissingTopic,
        lacking: impl Fn(&ClusterMetadata, &TopicName) -> Option<ClientError>,
    ) -> Result<Arc<ClusterMetadata>, ClientError> {
        let mut backoff = self.backoff();
        loop {
            let metadata = self.refresh_metadata(TopicSelection::Named(names), missing).await?;
            let Some(error) = names.iter().find_map(|name| lacking(&metadata, name)) else {
                return Ok(metadata);
            };
            let is_missing = error.code() == Some(ErrorCode::UnknownTopicOrPartition);
            let is_final = is_missing && missing == MissingTopic::Refuse;
            if is_final || !error.is_retriable() || !backoff.pause(&error).await {
                return Err(error);
            }
        }
    }

    /// Pauses between repetitions, within this client's patience.
    pub(crate) fn backoff(&self) -> Backoff {
        self.backoff_within(self.shared.options.retry_patience)
    }

    /// Pauses between repetitions, within another patience.
    pub(crate) fn backoff_within(&self, patience: Duration) -> Backoff {
        Backoff::within(patience, &self.shared.options.on_delay)
    }

    /// Counts the attempts at things that have a way of their own to repeat them.
    pub(crate) fn delays<K: Clone + Ord>(&self) -> Delays<K> {
        Delays::new(self.shared.options.on_delay.clone())
    }

    fn open_connection(&self) -> Option<Connection> {
        let mut state = self.lock();
        state.connections.retain(|_, connection| !connection.is_broken());
        state.connections.values().next().cloned()
    }

    /// A connection to whoever listens at an address.
    pub(crate) async fn connect(&self, address: &BrokerAddress) -> Result<Connection, ClientError> {
        let open = self.lock().connections.get(address).cloned();
        if let Some(connection) = open.filter(|connection| !connection.is_broken()) {
            return Ok(connection);
        }
        let opened = Connection::open(address, &self.shared.options.connection).await;
        let mut state = self.lock();
        let fresh = opened.map_err(|error| match error {
            ClientError::Connect { address, source, .. } => {
                let was_reached = state.reached.contains(&address);
                ClientError::Connect { address, source, was_reached }
            }
            other => other,
        })?;
        // Of two callers that connected at the same time both get a connection that works; the
        // later one stays.
        state.connections.insert(address.clone(), fresh.clone());
        state.reached.insert(address.clone());
        Ok(fresh)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under this lock can leave the state half changed.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn metadata_request(topics: TopicSelection<'_>, missing: MissingTopic) -> MetadataRequest {
    let named = match topics {
        TopicSelection::All => None,
        TopicSelection::Named(names) => Some(names.iter().map(requested_topic).collect()),
    };
    MetadataRequest {
        topics: named,
        allow_auto_topic_creation: missing == MissingTopic::Create,
        ..MetadataRequest::default()
    }
}

fn requested_topic(name: &TopicName) -> MetadataRequestTopic {
    MetadataRequestTopic {
        name: Some(WireString::copy_of(name.as_str())),
        ..MetadataRequestTopic::default()
    }
}

/// Why a topic, or one of its partitions, cannot be used yet.
pub(crate) fn not_ready(metadata: &ClusterMetadata, name: &TopicName) -> Option<ClientError> {
    not_found(metadata, name).or_else(|| {
        let partitions = &metadata.topics.get(name)?.partitions;
        let leaderless = partitions.iter().find(|partition| partition.leader.is_none())?;
        let partition = TopicPartition::new(name.clone(), leaderless.id);
        Some(ClientError::NoLeader { partition })
    })
}

/// Why nothing is known of a topic yet.
pub(crate) fn not_found(metadata: &ClusterMetadata, name: &TopicName) -> Option<ClientError> {
    let error = match metadata.topics.get(name) {
        None => ErrorCode::UnknownTopicOrPartition,
        Some(topic) if topic.error.is_error() => topic.error,
        Some(topic) if topic.partitions.is_empty() => ErrorCode::LeaderNotAvailable,
        Some(_) => return None,
    };
    check(|| format!("find topic '{name}'"), error.code(), None).err()
}
