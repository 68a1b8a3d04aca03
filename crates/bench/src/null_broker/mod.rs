//! A broker that answers without doing anything: it reads each frame and writes a fixed reply.
//!
//! No broker can be faster over these sockets with this generator, so its figures are the ceiling
//! of a machine. It keeps nothing; a fetch is answered from a file with `sendfile`, as a
//! broker that did nothing else would.

mod connection;
mod fetch_source;
mod produced;
mod replies;
mod topics;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;

use connection::Connection;
use fetch_source::FetchSource;
pub(crate) use produced::{correlation_id, is_produce};
pub(crate) use replies::{Replies, Reply};
pub(crate) use topics::Topics;

use crate::bare_broker;
use crate::generator::send_at_once;

/// Run a broker that does nothing, or only stores: the limits that this machine sets
///
/// Without `--store` it answers without doing anything, which is what `--against null` starts: the
/// limit of sockets. With it, it writes what it is sent and nothing else, which is `--against bare`:
/// the limit of sockets and disk. It serves until it is killed.
#[derive(Debug, Clone, Args)]
pub(crate) struct NullArgs {
    /// Where to listen
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// A directory for what it is sent
    #[arg(long, value_name = "DIRECTORY")]
    pub store: Option<PathBuf>,
    /// A directory for the 256 MiB that fetches get [default: that of temporary files]
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "store")]
    pub source: Option<PathBuf>,
}

/// Serves until the process ends, one thread for each connection if it stores nothing; `on_ready`
/// gets the address.
///
/// # Errors
///
/// It cannot listen or store there.
pub(crate) fn serve(args: &NullArgs, on_ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let listener = TcpListener::bind(&args.listen);
    let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    if let Some(directory) = &args.store {
        return bare_broker::serve(listener, directory, on_ready);
    }
    on_ready(&address.to_string());
    let topics = Arc::new(Topics::default());
    let directory = args.source.clone().unwrap_or_else(std::env::temp_dir);
    let source = Arc::new(FetchSource::new(directory));
    loop {
        let (stream, _) = listener.accept().context("cannot accept a connection")?;
        send_at_once(&stream)?;
        let replies = Replies::new(address, Arc::clone(&topics));
        let connection = Connection::new(stream, replies, Arc::clone(&source));
        // A connection that ends, ends its thread and nothing else.
        std::thread::Builder::new()
            .spawn(move || connection.serve())
            .context("cannot start a thread")?;
    }
}

/// One for a test, until the test's process ends; its address.
#[cfg(test)]
pub(crate) fn started() -> String {
    let (ready, address) = std::sync::mpsc::channel();
    let listen = "127.0.0.1:0".to_owned();
    let args = NullArgs { listen, store: None, source: None };
    std::thread::spawn(move || {
        serve(&args, |address| ready.send(address.to_owned()).expect("is heard"))
    });
    address.recv().expect("it listens")
}
