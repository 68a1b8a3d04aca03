//! Objects in stores and directories: complete, named by what is in them, and nothing missing after kills.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Response;
use flate2::read::GzDecoder;
use serde_json::json;

use super::running::{count, wait_for};
use super::toml;
use super::web::{answer, assert_signed, counting, dead_letters, serve_bytes};
use crate::agent::RunningAgent;
use crate::counters::Registry;

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).expect("is gzip");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_signed_and_sent_again_under_the_same_name() {
    let folder = tempfile::tempdir().expect("is made");
    let objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
    let refused: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let (stored, once) = (Arc::clone(&objects), Arc::clone(&refused));
    let address = serve_bytes(move |_, path, headers, body| {
        assert_signed("PUT", path, headers, body);
        assert_eq!(headers["x-amz-security-token"], "token");
        // Each object fails at first; one of the failures is an answer that is lost when all is there.
        if once.lock().expect("no panic").insert(path.to_owned()) {
            if objects_are_empty(&stored) {
                stored.lock().expect("no panic").insert(path.to_owned(), body.to_vec());
                return None;
            }
            // And one is a page of somebody who is no store.
            let count = once.lock().expect("no panic").len();
            return answer(if count == 2 { 200 } else { 503 }, &json!("SlowDown"));
        }
        stored.lock().expect("no panic").insert(path.to_owned(), body.to_vec());
        let stored = Response::builder().header("etag", "\"x\"").body(Body::empty());
        Some(stored.expect("is an answer"))
    })
    .await;
    let sink = format!(
        "type = 's3'\nurl = 's3://bucket/a b/%Y'\nendpoint = 'http://{address}'\nregion = 'r'\naccessKeyId = 'key'\n\
         secretAccessKey = 'secret'\nsessionToken = 'token'\nrollCount = 30\nbatchSize = 10\nrollInterval = 2\nformat = 'text'\n"
    );
    let (agent, registry) = counting(folder.path(), &sink).await;
    wait_for("all events", || count(&registry, "SINK.k", "EventDrainSuccessCount") == 100).await;
    let objects = objects.lock().expect("no panic").clone();
    // Three of thirty, and what is left when two seconds are over.
    assert_eq!(objects.len(), 4, "{:?}", objects.keys());
    assert_eq!(
        objects.keys().cloned().collect::<BTreeSet<_>>(),
        *refused.lock().expect("no panic")
    );
    assert!(
        objects.keys().all(|path| path.starts_with("/bucket/a%20b/2") && path.ends_with(".txt.gz"))
    );
    let mut numbers: Vec<u32> = objects
        .values()
        .flat_map(|body| {
            unpacked(body)
                .lines()
                .map(|line| line.parse().expect("is a number"))
                .collect::<Vec<_>>()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<u32>>());
    agent.end_sinks().await;
}

fn objects_are_empty(objects: &Mutex<BTreeMap<String, Vec<u8>>>) -> bool {
    objects.lock().expect("no panic").is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_whose_path_leads_elsewhere_is_a_dead_letter() {
    let folder = tempfile::tempdir().expect("is made");
    let target = folder.path().join("objects");
    let sink = format!(
        "type = 'object_store'\nurl = 'file://{}/%{{kind}}'\nrollInterval = 1\ncompression = 'none'\nformat = 'json'\n\
         [[sources.r.interceptors]]\ntype = 'regex_extractor'\nregex = '^(..)$'\n\
         [sources.r.interceptors.serializers.s]\nname = 'kind'\n\
         [[sources.r.interceptors]]\ntype = 'static'\nkey = 'kind'\nvalue = '../x'\n",
        target.display()
    );
    let (agent, registry) = counting(folder.path(), &sink).await;
    wait_for("all events", || count(&registry, "SINK.d", "EventDrainSuccessCount") == 10).await;
    wait_for("the rest", || count(&registry, "SINK.k", "EventDrainSuccessCount") == 90).await;
    let letters = dead_letters(folder.path());
    assert_eq!(letters.keys().copied().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert!(letters[&1].contains("../x"), "{letters:?}");
    assert!(!folder.path().join("x").exists());
    assert_eq!(files(&target).len(), 90);
    agent.end_sinks().await;
}

/// All files that are complete, in all directories below.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("is there").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension != "part"))
        .collect()
}

/// Sinks end in the middle, with objects written and not committed.
#[tokio::test(flavor = "multi_thread")]
async fn each_event_is_in_an_object_wherever_a_sink_is_cut_off() {
    const EVENTS: u64 = 2000;
    let folder = tempfile::tempdir().expect("is made");
    let target = folder.path().join("objects");
    let channel = format!(
        "[channels.c]\ntype = 'file'\ndataDirs = '{}'\nminimumRequiredSpace = 1048576\n",
        folder.path().join("channel").display()
    );
    let source = format!(
        "[sources.r]\ntype = 'seq'\ntotalEvents = {EVENTS}\nbatchSize = 100\nchannels = ['c']\n{channel}"
    );
    let start = async |text: &str| {
        let registry = Registry::default();
        let config = toml(text).expect("makes sense");
        let agent = RunningAgent::start(config, &registry).await;
        (agent.expect("starts"), registry)
    };
    let close = async |agent: RunningAgent| {
        for (_, (_, channel)) in agent.end_sinks().await {
            channel.close().await;
        }
    };
    let (agent, registry) = start(&source).await;
    wait_for("all events", || count(&registry, "CHANNEL.c", "EventPutSuccessCount") == EVENTS)
        .await;
    close(agent).await;
    let sink = format!(
        "{channel}[sinks.k]\ntype = 'object_store'\nchannel = 'c'\nurl = 'file://{}'\nrollCount = 70\nbatchSize = 7\n\
         rollInterval = 1\nformat = 'text'\ncompression = 'none'\n",
        target.display()
    );
    for kill in 1..=8 {
        let (agent, registry) = start(&sink).await;
        let before = files(&target).len();
        wait_for("objects", || {
            files(&target).len() > before || count(&registry, "CHANNEL.c", "ChannelSize") == 0
        })
        .await;
        if kill < 8 {
            // The task is cut off wherever it is. Then its files are closed, so that the next one can have them.
            close(agent).await;
            continue;
        }
        wait_for("the end", || count(&registry, "CHANNEL.c", "ChannelSize") == 0).await;
        close(agent).await;
    }
    let texts =
        files(&target).into_iter().map(|file| std::fs::read_to_string(file).expect("is text"));
    let numbers: BTreeSet<u64> = texts
        .flat_map(|text| {
            text.lines().map(|line| line.parse().expect("is a number")).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(numbers, (0..EVENTS).collect::<BTreeSet<u64>>());
}
