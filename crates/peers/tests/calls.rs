//! Nodes that call each other over loopback.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use logway_model::{BrokerId, ClusterId, DirectoryId, Uuid};
use logway_peers::{
    CallHandler, HandledCall, Identity, Kind, Lane, PeerError, PeerListener, PeerServer, Peers,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

fn identity(cluster: u8, node: i32) -> Identity {
    Identity {
        cluster: Some(ClusterId(Uuid([cluster; 16]))),
        node: Some(BrokerId(node)),
        directory: DirectoryId(Uuid([node as u8; 16])),
    }
}

/// Says what it was told, and by whom. `wait` waits for a signal first.
#[derive(Default)]
struct Echo {
    signal: Arc<Notify>,
    /// What it was told, in order.
    told: Arc<Mutex<Vec<Bytes>>>,
}

impl CallHandler for Echo {
    fn handle(&self, from: Identity, kind: Kind, payload: Bytes) -> HandledCall {
        let signal = Arc::clone(&self.signal);
        self.told.lock().expect("nobody panics").push(payload.clone());
        Box::pin(async move {
            match &payload[..] {
                b"wait" => signal.notified().await,
                b"ignore" => return None,
                _ => {}
            }
            let node = from.node.map_or(-1, |node| node.0);
            let mut reply = format!("{node} {kind:?} ").into_bytes();
            reply.extend_from_slice(&payload);
            Some(reply)
        })
    }
}

async fn server(cluster: u8) -> (PeerServer, String, Arc<Notify>) {
    let listener = PeerListener::bind("127.0.0.1:0").await.expect("any port will do");
    let address = listener.address().to_string();
    let server = PeerServer::start(listener, None);
    server.belongs_to(ClusterId(Uuid([cluster; 16])));
    let echo = Echo::default();
    let signal = Arc::clone(&echo.signal);
    server.serve(Arc::new(echo));
    (server, address, signal)
}

/// The first bytes of node 7, for a lane by its number.
fn hello(lane: u8) -> Vec<u8> {
    [b"LOGWAYND", &[0, 1, lane][..], &[1; 16], &[0, 0, 0, 7], &[7; 16]].concat()
}

fn call(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(9 + payload.len()).expect("fits").to_be_bytes();
    [&length[..], &[0; 8], &[1], payload].concat()
}

async fn ask(peers: &Peers, address: &str, payload: &[u8]) -> Result<String, PeerError> {
    let reply = peers.request(address, Lane::Control, Kind::Quorum, payload.to_vec(), PATIENCE);
    Ok(String::from_utf8(reply.await?.into()).expect("is text"))
}

#[tokio::test]
async fn calls_of_one_connection_overtake_each_other() {
    let (_server, address, signal) = server(1).await;
    let peers = Peers::new(identity(1, 7), None);
    let slow = {
        let (peers, address) = (peers.clone(), address.clone());
        tokio::spawn(async move { ask(&peers, &address, b"wait").await })
    };
    for number in 0..100 {
        let text = format!("call {number}");
        let reply = ask(&peers, &address, text.as_bytes()).await.expect("is answered");
        assert_eq!(reply, format!("7 Quorum {text}"));
    }
    assert!(!slow.is_finished());
    signal.notify_one();
    assert_eq!(slow.await.expect("no panic").expect("is answered"), "7 Quorum wait");
}

#[tokio::test]
async fn a_large_message_holds_up_no_vote() {
    let (_server, address, _signal) = server(1).await;
    let peers = Peers::new(identity(1, 7), None);
    let large = vec![b'x'; 32 << 20];
    let (bulk, vote) = tokio::join!(
        peers.request(&address, Lane::Bulk, Kind::Fetch, large.clone(), PATIENCE),
        ask(&peers, &address, b"vote"),
    );
    assert_eq!(bulk.expect("is answered").len(), large.len() + "7 Fetch ".len());
    assert_eq!(vote.expect("is answered"), "7 Quorum vote");
    let too_large = vec![0; logway_quorum::PEER_MESSAGE_MAX_BYTES + 1];
    let refused = peers.request(&address, Lane::Bulk, Kind::Fetch, too_large, PATIENCE).await;
    assert!(matches!(refused, Err(PeerError::Unreachable(_))), "{refused:?}");
    assert!(ask(&peers, &address, b"next").await.is_ok(), "the next connection is whole");
}

#[tokio::test]
async fn many_calls_that_wait_hold_up_no_other() {
    let (_server, address, _signal) = server(1).await;
    let peers = Peers::new(identity(1, 7), None);
    let mut waiting = JoinSet::new();
    for _ in 0..1_000 {
        let (peers, address) = (peers.clone(), address.clone());
        waiting.spawn(async move {
            let payload = b"wait".to_vec();
            peers.request(&address, Lane::Waiting, Kind::Partition, payload, PATIENCE).await
        });
        tokio::task::yield_now().await;
    }
    let payload = b"!".to_vec();
    let next = peers.request(&address, Lane::Waiting, Kind::Partition, payload, PATIENCE / 2);
    assert_eq!(next.await.expect("is answered"), "7 Partition !");
}

#[tokio::test]
async fn who_can_be_sent_no_replies_is_not_worked_for() {
    let (_server, address, _signal) = server(1).await;
    let mut socket = TcpStream::connect(&address).await.expect("it listens");
    socket.write_all(&hello(0)).await.expect("is read");
    socket.read_exact(&mut [0; 27]).await.expect("is welcome");
    // The reply is longer than the request, and than a message may be.
    let longest = vec![0; logway_quorum::PEER_MESSAGE_MAX_BYTES];
    socket.write_all(&call(&longest)).await.expect("is read");
    let sending = async { while socket.write_all(&call(&[0; 1_000])).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, sending).await.expect("the connection ends");
}

#[tokio::test]
async fn what_waits_in_a_connection_that_was_given_up_is_not_begun() {
    let listener = PeerListener::bind("127.0.0.1:0").await.expect("any port will do");
    let address = listener.address().to_string();
    let server = PeerServer::start(listener, None);
    let echo = Echo::default();
    let (signal, told) = (Arc::clone(&echo.signal), Arc::clone(&echo.told));
    server.serve(Arc::new(echo));
    let mut given_up = TcpStream::connect(&address).await.expect("it listens");
    given_up.write_all(&hello(4)).await.expect("is read");
    given_up.read_exact(&mut [0; 27]).await.expect("is welcome");
    let under_way_max = 256;
    let calls = [call(b"wait").repeat(under_way_max), call(b"late")].concat();
    given_up.write_all(&calls).await.expect("is read");
    while told.lock().expect("nobody panics").len() < under_way_max {
        tokio::task::yield_now().await;
    }
    let peers = Peers::new(identity(1, 7), None);
    let again = peers.request(&address, Lane::Clients, Kind::Quorum, b"again".to_vec(), PATIENCE);
    assert_eq!(again.await.expect("is answered"), "7 Quorum again");
    signal.notify_waiters();
    let mut answers = Vec::new();
    let ending = given_up.read_to_end(&mut answers);
    // Closed with a reset: `late` was not read.
    let _ = tokio::time::timeout(PATIENCE, ending).await.expect("the connection ends");
    let told = told.lock().expect("nobody panics");
    assert_eq!(told.len(), under_way_max + 1);
    assert_eq!(told[under_way_max], b"again"[..]);
}

#[tokio::test]
async fn a_node_of_another_cluster_is_told_so() {
    let (_server, address, _signal) = server(1).await;
    let refused = ask(&Peers::new(identity(2, 7), None), &address, b"hello").await;
    let Err(PeerError::Unreachable(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("belongs to cluster"), "{reason}");
    let joining = Peers::new(Identity { cluster: None, node: None, ..identity(1, 7) }, None);
    assert_eq!(ask(&joining, &address, b"join").await.as_deref(), Ok("-1 Quorum join"));
    joining.set_own(identity(1, 9));
    assert_eq!(ask(&joining, &address, b"joined").await.as_deref(), Ok("9 Quorum joined"));
}

#[tokio::test]
async fn who_is_not_there_is_known_at_once_and_found_when_it_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("any port will do");
    let address = listener.local_addr().expect("is bound").to_string();
    drop(listener);
    let peers = Peers::new(identity(1, 7), None);
    assert!(matches!(ask(&peers, &address, b"?").await, Err(PeerError::Unreachable(_))));

    let server =
        PeerServer::start(PeerListener::bind(&address).await.expect("is free again"), None);
    let unanswered = ask(&peers, &address, b"?").await;
    assert!(matches!(unanswered, Err(PeerError::Unreachable(_))), "it has only begun to start");
    server.serve(Arc::new(Echo::default()));
    assert!(ask(&peers, &address, b"!").await.is_ok());
    assert!(matches!(ask(&peers, &address, b"ignore").await, Err(PeerError::Unreachable(_))));

    server.stop().await;
    let ended = ask(&peers, &address, b"?").await;
    assert!(matches!(ended, Err(PeerError::Unreachable(_))), "{ended:?}");
    let server =
        PeerServer::start(PeerListener::bind(&address).await.expect("is free again"), None);
    server.serve(Arc::new(Echo::default()));
    assert!(ask(&peers, &address, b"!").await.is_ok());
}

#[tokio::test]
async fn a_node_that_is_silent_is_given_up_and_its_connection_too() {
    // It says welcome, and then nothing, as one that is stopped or cut off.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("any port will do");
    let address = listener.local_addr().expect("is bound").to_string();
    let (_real, real_address, _signal) = server(1).await;
    let relay = tokio::spawn(async move {
        let (mut silent, _) = listener.accept().await.expect("it calls");
        let mut hello = [0; 47];
        silent.read_exact(&mut hello).await.expect("a hello");
        let mut welcome = hello[..27].to_vec();
        welcome[10] = 0;
        silent.write_all(&welcome).await.expect("is read");
        // The next connection leads to one that answers.
        let (mut caller, _) = listener.accept().await.expect("it calls again");
        let mut real = TcpStream::connect(real_address).await.expect("it listens");
        let _ = tokio::io::copy_bidirectional(&mut caller, &mut real).await;
        drop(silent);
    });
    let peers = Peers::new(identity(1, 7), None);
    let call = peers.request(&address, Lane::Control, Kind::Quorum, b"?".to_vec(), SHORT).await;
    assert_eq!(call, Err(PeerError::TimedOut));
    assert_eq!(ask(&peers, &address, b"again").await.as_deref(), Ok("7 Quorum again"));
    relay.abort();
}

#[tokio::test]
async fn strangers_get_nothing() {
    let (_server, address, _signal) = server(1).await;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], &[255; 100]] {
        let mut socket = TcpStream::connect(&address).await.expect("it listens");
        socket.write_all(bytes).await.expect("is sent");
        let mut answer = Vec::new();
        // Closed with a reset where something was not read.
        let _ =
            tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("ends");
        assert_eq!(answer, b"");
    }
    assert!(ask(&Peers::new(identity(1, 7), None), &address, b"!").await.is_ok());
}
