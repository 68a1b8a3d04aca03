//! What is mutated.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use bytes::Bytes;
use logway_log::fs::sim::Rng;
use logway_wire::messages::create_topics_request::CreatableTopic;
use logway_wire::messages::{CreateTopicsRequest, MetadataRequest};
use logway_wire::{ApiKey, Decoder, Message, WireString, decode_request_header, encode_request};

use crate::{Frame, Session};

/// Sessions as clients send them.
#[derive(Debug)]
pub struct Corpus {
    recorded: Vec<Session>,
    requests: Vec<Frame>,
    /// Makes the topics that recorded sessions ask about.
    topics: Session,
}

impl Corpus {
    /// Reads what is in the source tree: recorded sessions, and the inputs of the fuzz target for requests.
    ///
    /// # Errors
    ///
    /// The files cannot be read.
    pub fn load() -> anyhow::Result<Corpus> {
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let recorded = contents(&crate_dir.join("sessions"))?;
        let requests = contents(&crate_dir.join("../../fuzz/corpus/request"))?;
        ensure!(!recorded.is_empty() && !requests.is_empty(), "there is nothing to mutate");
        let recorded: Vec<_> = recorded.iter().map(|stream| Session::parse(stream)).collect();
        let topics = making_topics(&recorded);
        Ok(Corpus { topics, recorded, requests: requests.into_iter().map(Frame::new).collect() })
    }

    /// A session that makes the topics which others ask about, and which others again delete.
    pub(crate) fn topics(&self) -> Session {
        self.topics.clone()
    }

    /// A recorded session.
    pub(crate) fn session(&self, random: &mut Rng) -> Session {
        self.recorded[random.below(self.recorded.len())].clone()
    }

    /// A request of any API at any version, with any content.
    pub(crate) fn request(&self, random: &mut Rng) -> Frame {
        self.requests[random.below(self.requests.len())].clone()
    }
}

/// A request for all topics that are named in requests for metadata.
fn making_topics(recorded: &[Session]) -> Session {
    const VERSION: i16 = 5;
    let frames = recorded.iter().flat_map(|session| &session.frames);
    let names: BTreeSet<WireString> = frames.flat_map(topics_asked_about).collect();
    let topic = |name| CreatableTopic {
        name,
        num_partitions: 3,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    let topics = names.into_iter().map(topic).collect();
    let request = CreateTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() };
    let encoded = encode_request(0, None, VERSION, &request).expect("the version has this");
    Session::parse(&encoded.bytes)
}

fn topics_asked_about(frame: &Frame) -> Vec<WireString> {
    let mut decoder = Decoder::new(Bytes::copy_from_slice(&frame.payload));
    let Ok((ApiKey::Metadata, header)) = decode_request_header(&mut decoder) else {
        return Vec::new();
    };
    let request = MetadataRequest::decode(&mut decoder, header.request_api_version);
    let topics = request.ok().and_then(|request| request.topics).unwrap_or_default();
    topics.into_iter().filter_map(|topic| topic.name).collect()
}

/// The files of a directory, in the order of their names.
fn contents(dir: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let name = || dir.display().to_string();
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).with_context(name)? {
        paths.push(entry.with_context(name)?.path());
    }
    paths.sort();
    paths.iter().map(|path| fs::read(path).with_context(|| path.display().to_string())).collect()
}
