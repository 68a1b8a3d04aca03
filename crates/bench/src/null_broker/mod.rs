//! A broker that answers without doing anything: it reads each frame and writes a fixed reply.
//!
//! No broker can be faster over these sockets with this generator, so its figures are the ceiling
//! of a machine. It keeps nothing; a fetch is answered from a file in memory with `sendfile`, as a
//! broker that did nothing else would.

mod connection;
mod fetch_source;
mod replies;
mod topics;

use std::net::TcpListener;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;

use connection::Connection;
use fetch_source::FetchSource;
use replies::Replies;
use topics::Topics;

use crate::generator::send_at_once;

/// Run a broker that answers without doing anything: the limit that sockets set on this machine
///
/// It is what `--against null` starts, and serves until it is killed.
#[derive(Debug, Clone, Args)]
pub struct NullArgs {
    /// Where to listen
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub listen: String,
}

/// Serves until the process ends, one thread for each connection; `on_ready` gets the address.
///
/// # Errors
///
/// It cannot listen there.
pub fn serve(args: &NullArgs, on_ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let listener = TcpListener::bind(&args.listen);
    let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    on_ready(&address.to_string());
    let topics = Arc::new(Topics::default());
    let source = Arc::new(FetchSource::new()?);
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
