//! Sends a broker what no client sends: sessions of real clients, mutated by the seed.
//!
//! A [`Session`] is what a client sends on one connection, frame by frame. A [`Corpus`] has those that real clients were
//! recorded with (`sessions`, by `tests/hostile/record.py`) and requests of every API, one each. [`mutate`] damages,
//! cuts, repeats and mixes them, and an [`Attack`] sends them on many connections at a time and reads what comes back.
//! A session is given by a seed and its number alone.
//!
//! Every whole answer must be one to a request that was sent, at its version. What the broker makes of the rest, and
//! what others notice of it, is for whoever has started it to judge: `tests/hostile/test_sessions.py`.

mod answer;
mod attack;
mod corpus;
mod mutate;
mod session;
mod tally;

pub use attack::Attack;
pub use corpus::Corpus;
pub use mutate::mutate;
pub use session::{Frame, Session};
pub use tally::Tally;
