//! Fetch sessions (KIP-227): the broker remembers which partitions a consumer wants, so that the
//! consumer only sends what changes and only receives what is new.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logway_log::random_uuid;
use logway_model::{ErrorCode, TopicName, Uuid};
use logway_wire::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use logway_wire::messages::fetch_response::PartitionData;

/// A request outside any session says this where its epoch would be.
const FINAL_EPOCH: i32 = -1;
/// A request that asks for a session, or replaces one, says this.
const INITIAL_EPOCH: i32 = 0;
const NO_SESSION: i32 = 0;

/// A session that was used within this time is not evicted to make room for another.
const EVICTABLE_AFTER: Duration = Duration::from_secs(120);

/// Which partition of which topic, as the client named it.
///
/// Until version 12 that is by name, and the id is zero; from 13 on by id, and the name is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FetchKey {
    /// The topic's name.
    pub(crate) topic: Arc<str>,
    /// The topic's id.
    pub(crate) topic_id: Uuid,
    /// The partition's number.
    pub(crate) partition: i32,
}

/// What the client wants of one partition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FetchWish {
    /// Which partition.
    pub(crate) key: FetchKey,
    /// From where, how much, and in which epoch.
    pub(crate) request: FetchPartition,
    /// What the topic's id stood for when it was first known, also if the topic is gone since.
    /// `None` where the client names topics by name, or the id was never known.
    pub(crate) known_name: Option<TopicName>,
}

/// How the topics of a request are named.
#[derive(Clone, Copy)]
pub(crate) enum TopicNaming<'a> {
    /// By name.
    ByName,
    /// By id; with a look at which topic has an id now.
    ById(&'a dyn Fn(Uuid) -> Option<TopicName>),
}

impl TopicNaming<'_> {
    fn is_by_id(self) -> bool {
        matches!(self, TopicNaming::ById(_))
    }

    fn name_of(self, id: Uuid) -> Option<TopicName> {
        match self {
            TopicNaming::ByName => None,
            TopicNaming::ById(name_of) => name_of(id),
        }
    }
}

/// What a session was last told of a partition: it hears of it again when that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
    error_code: i16,
}

#[derive(Debug)]
struct SessionPartition {
    request: FetchPartition,
    known_name: Option<TopicName>,
    told: Option<Told>,
}

#[derive(Debug)]
struct Session {
    next_epoch: i32,
    last_used: Instant,
    by_topic_id: bool,
    partitions: HashMap<FetchKey, SessionPartition>,
    /// Those that were served last are asked last, so that none starves behind a busy one.
    order: VecDeque<FetchKey>,
}

/// How a request stands to the sessions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FetchScope {
    /// Every partition to read, in the order in which they share the response.
    pub(crate) wishes: Vec<FetchWish>,
    /// What the response says: 0 where there is no session.
    pub(crate) session_id: i32,
    /// Whether partitions with nothing new are left out of the response.
    pub(crate) incremental: bool,
}

/// All sessions of a broker. Bounded in number and in the partitions they remember together;
/// a client that finds no room is served all the same, only without a session.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    sessions_max: usize,
    partitions_max: usize,
    inner: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    by_id: HashMap<i32, Session>,
    partitions: usize,
}

impl FetchSessions {
    /// No sessions, and room for so many with so many partitions among them.
    pub(crate) fn new(sessions_max: usize, partitions_max: usize) -> FetchSessions {
        FetchSessions { sessions_max, partitions_max, inner: Mutex::default() }
    }

    /// Finds out what a request wants, opening, advancing or closing its session.
    ///
    /// Errors, which are about the whole request: `FETCH_SESSION_ID_NOT_FOUND`,
    /// `INVALID_FETCH_SESSION_EPOCH`, `FETCH_SESSION_TOPIC_ID_ERROR`.
    pub(crate) fn scope(
        &self,
        session_id: i32,
        epoch: i32,
        topics: Vec<FetchTopic>,
        forgotten: &[ForgottenTopic],
        naming: TopicNaming<'_>,
    ) -> Result<FetchScope, ErrorCode> {
        let wishes = wishes_of(topics, naming);
        let mut sessions = self.sessions();
        if epoch != FINAL_EPOCH && epoch != INITIAL_EPOCH {
            let step = Step { session_id, epoch, wishes, forgotten, naming };
            return sessions.advance(step, self.partitions_max);
        }
        sessions.remove(session_id);
        let session_id = match epoch {
            INITIAL_EPOCH => self.open(&mut sessions, &wishes, naming.is_by_id()),
            _ => NO_SESSION,
        };
        Ok(FetchScope { wishes, session_id, incremental: false })
    }

    /// Decides, after the partitions are read, which of them the response mentions, and remembers
    /// what it tells the client. `answers` are in the order of the scope's wishes.
    pub(crate) fn filter_answers(
        &self,
        scope: &FetchScope,
        answers: &[PartitionData],
    ) -> Vec<bool> {
        let mut sessions = self.sessions();
        let Some(session) = sessions.by_id.get_mut(&scope.session_id) else {
            return vec![true; answers.len()];
        };
        let mut mentioned = Vec::with_capacity(answers.len());
        for (wish, answer) in scope.wishes.iter().zip(answers) {
            let news = session.tell(&wish.key, answer);
            mentioned.push(news || !scope.incremental);
        }
        mentioned
    }

    /// How many partitions a session remembers; none if there is no such session.
    pub(crate) fn partitions_of(&self, session_id: i32) -> usize {
        self.sessions().by_id.get(&session_id).map_or(0, |session| session.partitions.len())
    }

    /// How many sessions there are.
    pub(crate) fn count(&self) -> usize {
        self.sessions().by_id.len()
    }

    fn open(&self, sessions: &mut Sessions, wishes: &[FetchWish], by_topic_id: bool) -> i32 {
        let has_room = |sessions: &Sessions| {
            sessions.by_id.len() < self.sessions_max
                && sessions.partitions + wishes.len() <= self.partitions_max
        };
        while !has_room(sessions) && sessions.evict_idle(EVICTABLE_AFTER) {}
        match has_room(sessions) {
            true => sessions.insert(wishes, by_topic_id),
            false => NO_SESSION,
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that goes on with a session.
struct Step<'a> {
    session_id: i32,
    epoch: i32,
    wishes: Vec<FetchWish>,
    forgotten: &'a [ForgottenTopic],
    naming: TopicNaming<'a>,
}

impl Sessions {
    fn insert(&mut self, wishes: &[FetchWish], by_topic_id: bool) -> i32 {
        let mut session = Session {
            next_epoch: INITIAL_EPOCH + 1,
            last_used: Instant::now(),
            by_topic_id,
            partitions: HashMap::with_capacity(wishes.len()),
            order: VecDeque::with_capacity(wishes.len()),
        };
        session.set(wishes.to_vec());
        self.partitions += session.partitions.len();
        let id = self.unused_id();
        self.by_id.insert(id, session);
        id
    }

    /// An id by chance, as in Kafka: a client that goes on with a session of before a restart is not to hit another's.
    fn unused_id(&self) -> i32 {
        loop {
            let Uuid(random) = random_uuid();
            let id = i32::from_be_bytes([random[0], random[1], random[2], random[3]]) & i32::MAX;
            if id != NO_SESSION && !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    fn remove(&mut self, session_id: i32) {
        if let Some(session) = self.by_id.remove(&session_id) {
            self.partitions -= session.partitions.len();
        }
    }

    /// Ends the session that was idle for the longest, if that is long enough; whether there was one.
    fn evict_idle(&mut self, idle: Duration) -> bool {
        let oldest = self.by_id.iter().min_by_key(|(_, session)| session.last_used);
        let Some((&id, session)) = oldest else { return false };
        let is_idle = session.last_used.elapsed() >= idle;
        if is_idle {
            self.remove(id);
        }
        is_idle
    }

    fn advance(&mut self, step: Step<'_>, partitions_max: usize) -> Result<FetchScope, ErrorCode> {
        let Step { session_id, epoch, wishes, forgotten, naming } = step;
        let others = self.partitions;
        let session = self.by_id.get_mut(&session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.next_epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.by_topic_id != naming.is_by_id() {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        let before = session.partitions.len();
        session.set(wishes.clone());
        // Behind it, as in Kafka: what a request both names and forgets is forgotten.
        session.forget(forgotten);
        session.next_epoch = epoch.checked_add(1).unwrap_or(INITIAL_EPOCH + 1);
        session.last_used = Instant::now();
        self.partitions = others - before + session.partitions.len();
        if session.partitions.is_empty() {
            self.remove(session_id);
            return Ok(FetchScope { wishes, session_id: NO_SESSION, incremental: false });
        }
        let wishes = session.wishes(naming);
        if self.partitions > partitions_max {
            // The client opens a new one, and is told then that there is no room.
            self.remove(session_id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        if wishes.is_empty() {
            // There is nothing to remember: as in Kafka, the client is told that the session has ended.
            self.remove(session_id);
            return Ok(FetchScope { wishes, session_id: NO_SESSION, incremental: false });
        }
        Ok(FetchScope { wishes, session_id, incremental: true })
    }
}

impl Session {
    fn set(&mut self, wishes: Vec<FetchWish>) {
        for FetchWish { key, request, known_name } in wishes {
            match self.partitions.get_mut(&key) {
                Some(partition) => partition.request = request,
                None => {
                    self.order.push_back(key.clone());
                    let partition = SessionPartition { request, known_name, told: None };
                    self.partitions.insert(key, partition);
                }
            }
        }
    }

    fn forget(&mut self, forgotten: &[ForgottenTopic]) {
        for topic in forgotten {
            for &partition in &topic.partitions {
                let name: Arc<str> = (&*topic.topic).into();
                let key = FetchKey { topic: name, topic_id: topic.topic_id, partition };
                self.partitions.remove(&key);
            }
        }
        if !forgotten.is_empty() {
            self.order.retain(|key| self.partitions.contains_key(key));
        }
    }

    /// All that the session wants. A name that could be found is never looked for again, so that
    /// the topic that has gone is told apart from the id that nobody knew.
    fn wishes(&mut self, naming: TopicNaming<'_>) -> Vec<FetchWish> {
        let partitions = &mut self.partitions;
        let wish = |key: &FetchKey| {
            let partition = partitions.get_mut(key)?;
            if partition.known_name.is_none() {
                partition.known_name = naming.name_of(key.topic_id);
            }
            let (request, known_name) = (partition.request.clone(), partition.known_name.clone());
            Some(FetchWish { key: key.clone(), request, known_name })
        };
        self.order.iter().filter_map(wish).collect()
    }

    /// Remembers an answer; whether it is news to the client.
    fn tell(&mut self, key: &FetchKey, answer: &PartitionData) -> bool {
        let Some(partition) = self.partitions.get_mut(key) else { return true };
        let told = Told {
            high_watermark: answer.high_watermark,
            last_stable_offset: answer.last_stable_offset,
            log_start_offset: answer.log_start_offset,
            error_code: answer.error_code,
        };
        let has_records = answer.records.as_ref().is_some_and(|records| !records.is_empty());
        let is_error = answer.error_code != ErrorCode::None.code();
        // These say what to do next, whatever was told before.
        let has_nearer = answer.preferred_read_replica >= 0;
        let diverges = answer.diverging_epoch.end_offset >= 0;
        let news =
            has_records || is_error || has_nearer || diverges || partition.told != Some(told);
        partition.told = Some(told);
        if has_records {
            self.move_to_back(key);
        }
        news
    }

    fn move_to_back(&mut self, key: &FetchKey) {
        // Mostly the first: those with records are found in the order of asking.
        if let Some(place) = self.order.iter().position(|other| other == key)
            && let Some(key) = self.order.remove(place)
        {
            self.order.push_back(key);
        }
    }
}

/// The partitions of a request, each once: of two wishes for the same one the last counts.
fn wishes_of(topics: Vec<FetchTopic>, naming: TopicNaming<'_>) -> Vec<FetchWish> {
    let mut wishes: Vec<FetchWish> = Vec::new();
    let mut places: HashMap<FetchKey, usize> = HashMap::new();
    for topic in topics {
        // A copy, so that a session does not keep the whole request in memory.
        let name: Arc<str> = (&*topic.topic).into();
        let known_name = naming.name_of(topic.topic_id);
        for mut request in topic.partitions {
            request.unknown_tagged_fields.clear();
            let partition = request.partition;
            let key = FetchKey { topic: Arc::clone(&name), topic_id: topic.topic_id, partition };
            match places.entry(key) {
                Entry::Occupied(place) => wishes[*place.get()].request = request,
                Entry::Vacant(place) => {
                    let (key, known_name) = (place.key().clone(), known_name.clone());
                    wishes.push(FetchWish { key, request, known_name });
                    place.insert(wishes.len() - 1);
                }
            }
        }
    }
    wishes
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use logway_wire::Records;

    use super::TopicNaming::ByName;
    use super::*;

    fn topic(partitions: impl IntoIterator<Item = (i32, i64)>) -> Vec<FetchTopic> {
        let partitions = partitions.into_iter().map(|(partition, fetch_offset)| FetchPartition {
            partition,
            fetch_offset,
            ..Default::default()
        });
        let partitions = partitions.collect();
        vec![FetchTopic { topic: "t".into(), partitions, ..Default::default() }]
    }

    fn offsets(scope: &FetchScope) -> Vec<(i32, i64)> {
        let pair = |wish: &FetchWish| (wish.key.partition, wish.request.fetch_offset);
        scope.wishes.iter().map(pair).collect()
    }

    fn answer(high_watermark: i64, records: &'static [u8]) -> PartitionData {
        let records = Some(Records::from(Bytes::from_static(records)));
        PartitionData { high_watermark, records, ..Default::default() }
    }

    #[test]
    fn a_session_remembers_what_the_client_wants() {
        let sessions = FetchSessions::new(10, 100);
        let first = sessions.scope(0, 0, topic([(0, 5), (1, 6)]), &[], ByName).expect("opens");
        assert!(first.session_id > 0 && !first.incremental);
        let id = first.session_id;

        let same = sessions.scope(id, 1, Vec::new(), &[], ByName).expect("goes on");
        assert!(same.incremental);
        assert_eq!(offsets(&same), [(0, 5), (1, 6)]);

        let forgotten =
            ForgottenTopic { topic: "t".into(), partitions: vec![0], ..Default::default() };
        let changed = sessions.scope(id, 2, topic([(1, 7), (2, 0)]), &[forgotten], ByName);
        assert_eq!(offsets(&changed.expect("goes on")), [(1, 7), (2, 0)]);
    }

    #[test]
    fn an_incremental_response_mentions_only_what_is_new() {
        let sessions = FetchSessions::new(10, 100);
        let first = sessions.scope(0, 0, topic([(0, 0), (1, 0)]), &[], ByName).expect("opens");
        let quiet = [answer(3, b""), answer(4, b"")];
        assert_eq!(sessions.filter_answers(&first, &quiet), [true, true]);

        let next = sessions.scope(first.session_id, 1, Vec::new(), &[], ByName).expect("goes on");
        assert_eq!(sessions.filter_answers(&next, &quiet), [false, false]);
        assert_eq!(
            sessions.filter_answers(&next, &[answer(3, b"x"), answer(5, b"")]),
            [true, true]
        );
    }

    #[test]
    fn a_partition_that_was_served_goes_to_the_end_of_the_line() {
        let sessions = FetchSessions::new(10, 100);
        let first = sessions.scope(0, 0, topic([(0, 0), (1, 0)]), &[], ByName).expect("opens");
        sessions.filter_answers(&first, &[answer(3, b"x"), answer(4, b"")]);
        let next = sessions.scope(first.session_id, 1, Vec::new(), &[], ByName).expect("goes on");
        assert_eq!(offsets(&next), [(1, 0), (0, 0)]);
    }

    #[test]
    fn wrong_sessions_epochs_and_names_are_told_apart() {
        let sessions = FetchSessions::new(10, 100);
        let scope = |id, epoch, naming| {
            sessions.scope(id, epoch, topic([(0, 0)]), &[], naming).map(|scope| scope.session_id)
        };
        let by_id = TopicNaming::ById(&|_| None);
        let id = scope(0, 0, ByName).expect("opens");
        assert_eq!(scope(id + 1, 1, ByName), Err(ErrorCode::FetchSessionIdNotFound));
        assert_eq!(scope(id, 2, ByName), Err(ErrorCode::InvalidFetchSessionEpoch));
        assert_eq!(scope(id, 1, by_id), Err(ErrorCode::FetchSessionTopicIdError));
        assert_eq!(scope(id, -1, ByName), Ok(0));
        assert_eq!(scope(id, 1, ByName), Err(ErrorCode::FetchSessionIdNotFound));
    }

    #[test]
    fn a_session_without_partitions_ends() {
        let sessions = FetchSessions::new(10, 100);
        let forget_0 =
            || ForgottenTopic { topic: "t".into(), partitions: vec![0], ..Default::default() };
        let id = sessions.scope(0, 0, topic([(0, 5)]), &[], ByName).expect("opens").session_id;
        let empty = sessions.scope(id, 1, Vec::new(), &[forget_0()], ByName).expect("is told");
        assert_eq!((empty.session_id, offsets(&empty)), (0, vec![]));
        let gone = sessions.scope(id, 2, Vec::new(), &[], ByName);
        assert_eq!(gone, Err(ErrorCode::FetchSessionIdNotFound));

        // Named and forgotten at once.
        let id = sessions.scope(0, 0, topic([(0, 5)]), &[], ByName).expect("opens").session_id;
        let last = sessions.scope(id, 1, topic([(0, 7)]), &[forget_0()], ByName).expect("is told");
        assert_eq!((last.session_id, offsets(&last)), (0, vec![(0, 7)]));
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn what_a_topics_id_stood_for_is_remembered() {
        let name = TopicName::new("t").expect("a legal name");
        let topics = vec![FetchTopic {
            topic_id: Uuid([1; 16]),
            partitions: vec![FetchPartition::default()],
            ..Default::default()
        }];
        let (absent, present) = (|_| None, |_| Some(name.clone()));
        let (absent, present) = (TopicNaming::ById(&absent), TopicNaming::ById(&present));
        let sessions = FetchSessions::new(10, 100);
        let first = sessions.scope(0, 0, topics, &[], absent).expect("opens");
        let names = |scope: &FetchScope| scope.wishes[0].known_name.clone();
        assert_eq!(names(&first), None);
        for (epoch, naming, known) in
            [(1, absent, None), (2, present, Some(&name)), (3, absent, Some(&name))]
        {
            let scope = sessions.scope(first.session_id, epoch, Vec::new(), &[], naming);
            assert_eq!(names(&scope.expect("goes on")).as_ref(), known, "epoch {epoch}");
        }
    }

    #[test]
    fn a_session_can_begin_without_partitions() {
        let sessions = FetchSessions::new(10, 100);
        let id = sessions.scope(0, 0, Vec::new(), &[], ByName).expect("opens").session_id;
        assert_ne!(id, 0);
        let grown = sessions.scope(id, 1, topic([(0, 0)]), &[], ByName).expect("goes on");
        assert_eq!((grown.session_id, grown.wishes.len()), (id, 1));
    }

    #[test]
    fn a_session_ends_when_nothing_is_left_in_it() {
        let sessions = FetchSessions::new(10, 100);
        let id = sessions.scope(0, 0, Vec::new(), &[], ByName).expect("opens").session_id;
        let ended = sessions.scope(id, 1, Vec::new(), &[], ByName).expect("is served");
        assert_eq!(ended, FetchScope { wishes: Vec::new(), session_id: 0, incremental: false });
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn who_was_idle_for_long_makes_room_for_others_partitions() {
        let mut sessions = Sessions::default();
        let wishes = |count: i32| wishes_of(topic((0..count).map(|number| (number, 0))), ByName);
        let old = sessions.insert(&wishes(3), false);
        let new = sessions.insert(&wishes(2), false);
        assert!(!sessions.evict_idle(Duration::from_secs(3600)), "it was used lately");
        assert!(sessions.evict_idle(Duration::ZERO));
        let left = (sessions.by_id.contains_key(&old), sessions.by_id.contains_key(&new));
        assert_eq!((left, sessions.partitions), ((false, true), 2));
    }

    #[test]
    fn without_room_there_is_no_session_but_an_answer() {
        let few = FetchSessions::new(1, 100);
        few.scope(0, 0, topic([(0, 0)]), &[], ByName).expect("opens");
        let second = few.scope(0, 0, topic([(0, 0)]), &[], ByName).expect("is served");
        assert_eq!(second.session_id, 0);

        let small = FetchSessions::new(10, 1);
        let large = small.scope(0, 0, topic([(0, 0), (1, 0)]), &[], ByName).expect("is served");
        assert_eq!((large.session_id, large.wishes.len()), (0, 2));
        let id = small.scope(0, 0, topic([(0, 0)]), &[], ByName).expect("opens").session_id;
        let grown = small.scope(id, 1, topic([(1, 0)]), &[], ByName);
        assert_eq!(grown, Err(ErrorCode::FetchSessionIdNotFound));
        assert_eq!(small.count(), 0);
    }
}
