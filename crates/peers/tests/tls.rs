//! Nodes that talk by TLS, and those that are no nodes.

use std::collections::HashSet;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use logway_metadata::join_token::Digest;
use logway_model::{BrokerId, ClusterId, DirectoryId, Uuid};
use logway_peers::{
    Admission, CallHandler, HandledCall, Identity, Kind, Lane, PeerError, PeerListener, PeerServer,
    PeerTls, Peers, ask_for_admission,
};
use logway_security::authority::{Authority, node_key_digest};
use logway_security::nodes::{NodeTls, joining_client};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(20);
const CLUSTER: ClusterId = ClusterId(Uuid([1; 16]));
/// The callers' and the called node's.
const CALLER: DirectoryId = DirectoryId(Uuid([7; 16]));
const CALLED: DirectoryId = DirectoryId(Uuid([8; 16]));

/// What a cluster knows, in a set.
#[derive(Default)]
struct Known(Mutex<HashSet<(DirectoryId, Digest)>>);

impl Known {
    fn add(&self, directory: DirectoryId, key: Digest) {
        self.0.lock().expect("nobody panics").insert((directory, key));
    }

    fn remove_all(&self) {
        self.0.lock().expect("nobody panics").clear();
    }
}

impl Admission for Known {
    fn admits(
        self: Arc<Self>,
        key: Digest,
        directory: Option<DirectoryId>,
    ) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let all = self.0.lock().expect("nobody panics");
        let mut all = all.iter();
        let found = all.any(|(of, it)| *it == key && directory.is_none_or(|it| it == *of));
        Box::pin(async move { found })
    }

    fn still_admits(&self, key: Digest, directory: DirectoryId) -> bool {
        self.0.lock().expect("nobody panics").contains(&(directory, key))
    }
}

/// Says what kind of call it was.
struct Echo;

impl CallHandler for Echo {
    fn handle(&self, _from: Identity, kind: Kind, _payload: Bytes) -> HandledCall {
        Box::pin(async move { Some(format!("{kind:?}").into_bytes()) })
    }
}

/// A node of an authority, with its files.
struct Node {
    dir: TempDir,
    authority: Authority,
}

impl Node {
    fn new() -> Node {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::open_or_create(&dir.path().join("secure")).expect("is made");
        Node { dir, authority }
    }

    /// Another node of the same authority.
    fn of_same(&self) -> Node {
        let dir = tempfile::tempdir().expect("a directory");
        let (key, certificate) = self.authority.to_pem();
        let secure = dir.path().join("secure");
        Authority::adopt(&secure, &key, &certificate).expect("has none");
        let authority = Authority::open_or_create(&secure).expect("is there");
        Node { dir, authority }
    }

    fn secure(&self) -> impl AsRef<Path> {
        self.dir.path().join("secure")
    }

    fn key(&self) -> Digest {
        node_key_digest(self.secure().as_ref()).expect("has one")
    }

    fn tls(&self, known: &Arc<Known>) -> PeerTls {
        let (file, _) = self.authority.renew_node(self.secure().as_ref()).expect("is signed");
        let tls = NodeTls::load(&file, SystemTime::now()).expect("is right");
        PeerTls { tls: Arc::new(tls), admission: Arc::clone(known) as Arc<dyn Admission> }
    }
}

async fn serve(node: &Node, known: &Arc<Known>) -> (PeerServer, String) {
    let listener = PeerListener::bind("127.0.0.1:0").await.expect("any port will do");
    let address = listener.address().to_string();
    let server = PeerServer::start(listener, Some(node.tls(known)));
    server.belongs_to(CLUSTER);
    server.serve(Arc::new(Echo));
    (server, address)
}

fn identity(directory: DirectoryId) -> Identity {
    Identity { cluster: Some(CLUSTER), node: Some(BrokerId(7)), directory }
}

async fn ask(peers: &Peers, address: &str) -> Result<String, String> {
    let asked = peers.request(address, Lane::Control, Kind::Quorum, Vec::new(), PATIENCE).await;
    match asked {
        Ok(reply) => Ok(String::from_utf8(reply.into()).expect("is text")),
        Err(PeerError::Unreachable(reason)) => Err(reason),
        Err(PeerError::TimedOut) => Err("timed out".to_owned()),
    }
}

/// A node that is called, one of its authority that calls, and what both know.
async fn two() -> (Node, Node, Arc<Known>, PeerServer, String) {
    let (called, known) = (Node::new(), Arc::<Known>::default());
    let caller = called.of_same();
    known.add(CALLED, called.key());
    let (server, address) = serve(&called, &known).await;
    (called, caller, known, server, address)
}

#[tokio::test]
async fn only_who_is_known_by_his_key_is_answered() {
    let (_called, caller, known, _server, address) = two().await;
    let peers = Peers::new(identity(CALLER), Some(caller.tls(&known)));
    let refusal = ask(&peers, &address).await.expect_err("is not known");
    assert!(refusal.contains("does not know this node by its key"), "{refusal}");
    known.add(CALLER, caller.key());
    assert_eq!(ask(&peers, &address).await.expect("is known"), "Quorum");
    // In the name of another directory.
    let other = Peers::new(identity(CALLED), Some(caller.tls(&known)));
    let refusal = ask(&other, &address).await.expect_err("the key is another's");
    assert!(refusal.contains("does not know this node by its key"), "{refusal}");
    // A new certificate of the same key.
    std::fs::remove_file(caller.secure().as_ref().join("node.pem")).expect("is there");
    let renewed = Peers::new(identity(CALLER), Some(caller.tls(&known)));
    assert!(ask(&renewed, &address).await.is_ok());
}

#[tokio::test]
async fn who_is_removed_is_cut_off_and_refused() {
    let (called, caller, known, _server, address) = two().await;
    known.add(CALLER, caller.key());
    // The caller goes on believing, whatever the called one does.
    let believing = Arc::<Known>::default();
    believing.add(CALLED, called.key());
    let peers = Peers::new(identity(CALLER), Some(caller.tls(&believing)));
    assert!(ask(&peers, &address).await.is_ok());
    known.remove_all();
    assert!(ask(&peers, &address).await.is_err(), "the open connection ends");
    let refusal = ask(&peers, &address).await.expect_err("is not known any more");
    assert!(refusal.contains("it was removed"), "{refusal}");
}

#[tokio::test]
async fn a_caller_looks_whom_it_calls() {
    let (_called, caller, _known, _server, address) = two().await;
    let knows_nobody = Arc::<Known>::default();
    let peers = Peers::new(identity(CALLER), Some(caller.tls(&knows_nobody)));
    let refusal = ask(&peers, &address).await.expect_err("is not known");
    assert!(refusal.contains("the key of the node there"), "{refusal}");
}

#[tokio::test]
async fn nodes_of_a_foreign_authority_are_refused_on_both_sides() {
    let (_called, _caller, known, _server, address) = two().await;
    let foreign = Node::new();
    // Not even if somebody were to know its key.
    known.add(CALLER, foreign.key());
    let peers = Peers::new(identity(CALLER), Some(foreign.tls(&known)));
    let refusal = ask(&peers, &address).await.expect_err("is foreign");
    assert!(refusal.contains("certificate"), "{refusal}");
}

#[tokio::test]
async fn a_certificate_for_clients_is_none_of_a_node() {
    let node = Node::new();
    let file = node.secure().as_ref().join("server.pem");
    node.authority.renew(&file, &["localhost".to_owned()]).expect("is signed");
    let error = NodeTls::load(&file, SystemTime::now()).expect_err("is no node's");
    assert!(error.to_string().contains("not that of a node"), "{error}");
}

#[tokio::test]
async fn a_stranger_can_ask_to_be_admitted_and_nothing_else() {
    let (called, _caller, _known, _server, address) = two().await;
    let own = Identity { cluster: None, node: None, directory: CALLER };
    let config = joining_client(called.authority.digest().expect("is there")).expect("is made");
    let ask = |payload| ask_for_admission(&address, Arc::clone(&config), own, payload, PATIENCE);
    assert_eq!(&ask(Vec::new()).await.expect("is answered")[..], b"Admission");
    assert!(ask(vec![0; 5_000]).await.is_err(), "longer than anything to be asked");
    let foreign = joining_client(Node::new().authority.digest().expect("is there"));
    let foreign = foreign.expect("is made");
    let refused = ask_for_admission(&address, foreign, own, Vec::new(), PATIENCE).await;
    assert!(refused.is_err(), "the token is of another authority");
    // Whatever a peer without TLS says.
    let mut plain = TcpStream::connect(&address).await.expect("listens");
    plain.write_all(b"LOGWAYND\x00\x01\x00").await.expect("is taken");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.windows(8).any(|bytes| bytes == b"LOGWAYND"), "{answer:?}");
    let peers = Peers::new(identity(CALLER), None);
    assert!(self::ask(&peers, &address).await.is_err());
}
