//! A load that comes from several processes.
//!
//! The program starts itself again, as often as it is asked to. Each process is told over its standard input what to
//! send, connects, encodes, and says that it is ready; then all are told when to begin, by the clock that the processes
//! of a machine share, and each tells in the end what it saw. They are numbered through: each sends its part of the rate,
//! so that their requests are as evenly spaced as those of one, and has records of its own where one would make others
//! for each connection.
//!
//! A process whose input is closed calls its run off, so none outlives the one that started it, whatever ends that.

mod fleet;
mod sender;
mod words;

pub(crate) use fleet::Fleet;
pub(crate) use sender::serve as serve_sender;
