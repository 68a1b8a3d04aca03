//! `logway-bench`: measures Logway and other brokers.

use std::process::ExitCode;

/// That of `logway`: the generator and the brokers that do nothing allocate as the broker beside them does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    logway_bench::run()
}
