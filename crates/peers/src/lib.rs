//! How the nodes of a cluster talk to each other: connections, frames, calls.
//!
//! Each node listens on an address for other nodes only, apart from its clients. A node
//! *calls* another one: it sends a request, and the other's handler gives the bytes of the reply. What the
//! bytes mean is the business of those who call: the metadata quorum, replication.
//!
//! Calls of one [`Lane`] share a connection, and any number of them are under way at a time. Each lane has a
//! connection of its own, because a vote must not wait behind a snapshot: neither in a socket nor in a queue.
//!
//! | file | idea |
//! |---|---|
//! | [`hello`] | who is there: the first message on a connection |
//! | [`frame`] | a message among others, in bytes |
//! | [`connection`] | the caller's end of a connection |
//! | [`client`] | calling any node |
//! | [`server`] | being called |
//! | [`newest`] | a call that comes late, by a connection that was given up, is not begun |
//! | [`tls`] | who is believed to be a node of the cluster |
//! | [`carrier`] | both, as a node has them: over TCP, or as a simulation carries them |
//!
//! # Why not gRPC, or Kafka's protocol
//!
//! Two of the best that replicate logs chose a protocol of their own for this: Redpanda's internal RPC has a
//! header with a correlation number and a checksum, TigerBeetle's has fixed frames. Kafka uses its clients'
//! protocol, in order for each connection; so its brokers open further connections where one request must not
//! wait for another. Frames with a number are some 300 lines. They need no schema compiler, and TLS
//! goes under them like under any stream.

mod carrier;
mod client;
mod connection;
mod frame;
mod hello;
mod newest;
mod server;
mod tls;

pub use carrier::{Carried, Carrier, QuorumCalls, TcpCarrier};
pub use client::{Greeting, Peers, ask_for_admission};
pub use frame::Kind;
pub use hello::Identity;
pub use logway_quorum::{Lane, Peer, PeerError};
pub use server::{CallHandler, HandledCall, PeerListener, PeerServer};
pub use tls::{Admission, PeerTls};
