//! Sends a broker what no client sends: sessions of real clients, mutated by the seed.
//!
//! A [`Session`] is what a client sends on one connection, frame by frame. A [`Corpus`] has those that real clients were
//! recorded with (`sessions`, by `tests/hostile/record.py`) and requests of every API, one each. [`mutate`] damages,
//! cuts, repeats and mixes them, and an [`Attack`] sends them on many connections at a time and reads what comes back.
//! A session is given by a seed and its number alone.
//!
//! Where clients are asked who they are, an [`Entrance`] says who sends them: a stranger, whose handshakes and tokens are
//! mutated, too, or a user who has logged in before.
//!
//! Every whole answer must be one to a request that was sent, at its version. What the broker makes of the rest, and
//! what others notice of it, is for whoever has started it to judge: `tests/hostile/test_sessions.py`.

mod answer;
mod attack;
mod corpus;
mod entrance;
mod mutate;
mod session;
mod stranger;
mod tally;

pub use attack::Attack;
pub use corpus::Corpus;
pub use entrance::Entrance;
pub use mutate::mutate;
pub use session::{Frame, Session};
pub use tally::Tally;
