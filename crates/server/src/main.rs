//! Logway: a durable, partitioned log that speaks Kafka's protocol, in one binary.

use std::process::ExitCode;

/// Gives freed memory back and shares it between threads better than the system's allocator, which
/// matters to a process that receives every request into a fresh buffer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    logway_server::run()
}
