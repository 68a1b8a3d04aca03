//! What calls know of their connection.

use std::sync::Arc;

use logway_node::http_callers::HttpCaller;
use tokio::sync::{Notify, Semaphore, watch};

/// A connection, as its calls know it.
pub(crate) struct ConnectionInfo {
    pub(crate) caller: HttpCaller,
    /// Told when the connection is to be given up.
    pub(crate) give_up: Arc<Notify>,
    /// Whose filters may work now: of many readers of a connection a few at a time, so that those of others have their turn as often.
    pub(crate) evaluation: Arc<Semaphore>,
    /// How many calls are in work.
    pub(crate) calls: watch::Sender<usize>,
}

impl ConnectionInfo {
    /// One more call.
    pub(crate) fn begin_call(&self) -> CallInWork {
        self.calls.send_modify(|count| *count += 1);
        CallInWork(self.calls.clone())
    }
}

/// A call, until its response is sent.
#[derive(Debug)]
pub(crate) struct CallInWork(watch::Sender<usize>);

impl Drop for CallInWork {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
