//! The load: one thread that keeps requests on their way over many connections.
//!
//! It must cost less than the broker does. So requests are encoded before the run and lie in
//! memory as they go over the socket ([`Tape`]); of each only the correlation id changes, and in
//! a fetch the offset. Only a [`Stream`] encodes as the run goes on, for those who ask for it. Many
//! small requests leave in one write and many answers come with one read. A large answer passes
//! through a small buffer that stays in the processor's cache. What is left is mostly the system's
//! work, and it is measured too: see [`crate::measure::Usage`].

mod asked;
mod connect;
mod drive;
mod fetch;
mod frames;
mod framing;
mod intake;
mod lane;
mod meter;
mod observed;
mod payloads;
mod peer_traffic;
mod produce;
mod records;
mod sensors;
mod stream;
mod tail;
mod tape;
mod timetable;
mod window;

pub(crate) use asked::Asked;
pub(crate) use connect::{connect, send_at_once};
pub(crate) use drive::{Drive, STOP_CHECK_INTERVAL};
pub(crate) use fetch::{FetchTraffic, Span};
pub(crate) use frames::{
    Acks, BatchShape, BatchSize, EncodedBatch, FetchShape, Payload, ProduceShape, VERSION_MAX,
    filler,
};
pub(crate) use framing::Framing;
pub(crate) use intake::Intake;
pub(crate) use lane::{Lane, Pace, Traffic};
pub(crate) use meter::Meter;
pub(crate) use observed::{Observed, TIMELINE_STEP};
pub(crate) use payloads::Payloads;
pub(crate) use peer_traffic::PeerTraffic;
pub(crate) use produce::ProduceTraffic;
pub(crate) use records::{HeldValues, Origin};
pub(crate) use stream::Stream;
pub(crate) use tail::{TAIL_BYTES_MAX, TailTraffic};
pub(crate) use tape::Tape;
pub(crate) use timetable::Timetable;
pub(crate) use window::Window;
