//! Logway: a durable, partitioned log that speaks Kafka's protocol, in one binary.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use logway_server::log::{LimitedLines, write_fields};
use logway_server::log_filter;
use tracing_subscriber::EnvFilter;

/// Gives freed memory back and shares it between threads better than the system's allocator, which
/// matters to a process that receives every request into a fresh buffer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Says what is logged, in `tracing`'s filter language, e.g. `debug` or `logway_log=trace`.
const LOG_FILTER_VARIABLE: &str = "LOGWAY_LOG";

/// The consensus library is chatty about things that are normal for a lone voter.
const LOG_FILTER_DEFAULT: &str = "info,openraft=error";

fn main() -> ExitCode {
    let filter = std::env::var(LOG_FILTER_VARIABLE).ok();
    let filter = filter.filter(|text| !text.is_empty() && EnvFilter::try_new(text).is_ok());
    let filter = filter.unwrap_or_else(|| LOG_FILTER_DEFAULT.to_owned());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&filter))
        .with_writer(|| Unfailing(io::stderr()))
        // It would report a failed write to stderr, and panic over the failure of that.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .fmt_fields(write_fields())
        .event_format(LimitedLines::default())
        .with_filter_reloading();
    let handle = subscriber.reload_handle();
    subscriber.init();
    log_filter::set(filter, move |text| {
        let filter = EnvFilter::try_new(text).map_err(|error| error.to_string())?;
        handle.reload(filter).map_err(|error| error.to_string())
    });
    logway_server::run()
}

/// A writer that loses what it cannot write: a full disk or a closed pipe behind stderr must not
/// keep a broker from working.
struct Unfailing<W>(W);

impl<W: Write> Write for Unfailing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}
