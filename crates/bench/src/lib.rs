//! `logway-bench`: experiments against any broker that speaks Kafka's protocol.
//!
//! What others do, and what their users complain of, decided how this one works:
//!
//! - *Coordinated omission.* A generator that waits for a stalled broker and starts its clock when
//!   it can send again does not see the stall. Kafka's `kafka-producer-perf-test` counts from the
//!   call of `send`, `rdkafka_performance` from the enqueueing; OpenMessaging Benchmark learnt to
//!   report the delay of its own sends only after years. Here an open loop has a [timetable], and
//!   a latency counts from the moment in it, however late the request left.
//! - *Client-bound results.* Most published differences between brokers are those of their
//!   clients. Here requests are encoded before the run and the same bytes go to both sides, one
//!   thread serves all connections, its CPU time stands in each row, and a row whose generator was
//!   busy says so. The `null` side, a broker that does nothing, is the ceiling.
//! - *Unequal durability.* Both sides are told explicitly whether to sync before they acknowledge
//!   (`flush.messages`), and each row says which it was. What we do durably is also compared with
//!   what a peer does without, never the other way round.
//! - *One run, no variance.* Every run is repeated; the sides take turns within a round, the order
//!   changes, and ratios are those of neighbouring runs. Medians are shown with the least and the
//!   most, and how much of the machine others used stands beside them.
//! - *Figures that nobody can check.* A report has the raw histograms, each run's figures, the
//!   machine, the versions, and the commands and settings that the brokers were started with.
//!
//! From the bottom up: [`generator`] makes the load, [`senders`] has several processes make it, [`measure`] says what it cost, [`side`] starts
//! and ends the brokers, [`peer`] speaks with
//! those that do not speak Kafka's protocol, [`load`] is what a side is asked to do in one run, [`session`] repeats it
//! on all sides in turn, [`experiments`] are the lists of loads, [`report`] writes it all down.
//!
//! [timetable]: generator::Timetable

mod bare_broker;
mod cli;
mod experiments;
mod files;
mod generator;
mod load;
mod measure;
mod null_broker;
mod peer;
mod report;
mod senders;
mod session;
mod side;
mod vectored;
mod works;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

/// Does what the process's arguments say.
pub fn run() -> ExitCode {
    cli::run(cli::Cli::parse())
}

/// The definition of the command line, for the reference page.
pub fn command() -> clap::Command {
    cli::Cli::command()
}
