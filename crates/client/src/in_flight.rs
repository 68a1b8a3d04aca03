//! The requests on a connection that wait for their responses.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::ConnectionFailure;
use crate::raw_connection::correlation_id;

/// Where the response to one request goes.
pub(crate) type Reply = oneshot::Sender<Result<Bytes, ConnectionFailure>>;

/// What is on its way, in the order written; brokers answer in that order.
///
/// Shared by the connection's two tasks. Once it has failed it stays so: what is waiting and what
/// is still to come gets the failure.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(i32, Reply)>,
    failure: Option<ConnectionFailure>,
}

impl InFlight {
    /// Notes a request that is about to be written. After a failure it gets that at once.
    pub(crate) fn expect(&self, correlation_id: i32, reply: Reply) {
        let mut state = self.lock();
        match &state.failure {
            // The other end may have stopped waiting, which is its right.
            Some(failure) => drop(reply.send(Err(failure.clone()))),
            None => state.waiting.push_back((correlation_id, reply)),
        }
    }

    /// Hands a response to the oldest request.
    ///
    /// # Errors
    ///
    /// The response does not belong to it: then nothing on this connection can be trusted.
    pub(crate) fn answer(&self, response: Bytes) -> Result<(), ConnectionFailure> {
        let actual = correlation_id(&response).ok_or(ConnectionFailure::ResponseTooShort)?;
        let mut state = self.lock();
        let &(expected, _) = state.waiting.front().ok_or(ConnectionFailure::Unasked)?;
        if actual != expected {
            return Err(ConnectionFailure::UnexpectedCorrelationId { expected, actual });
        }
        if let Some((_, reply)) = state.waiting.pop_front() {
            drop(reply.send(Ok(response)));
        }
        Ok(())
    }

    /// Ends everything, now and to come. The first failure counts.
    pub(crate) fn fail(&self, failure: ConnectionFailure) {
        let mut state = self.lock();
        let first = state.failure.get_or_insert(failure).clone();
        for (_, reply) in state.waiting.drain(..) {
            drop(reply.send(Err(first.clone())));
        }
    }

    /// How the connection failed, if it did.
    pub(crate) fn failure(&self) -> Option<ConnectionFailure> {
        self.lock().failure.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under this lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
