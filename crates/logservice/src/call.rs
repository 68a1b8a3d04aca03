//! One call: who makes it, what it may use, and when it ends whatever happens.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use logway_metadata::{TopicImage, is_internal};
use logway_model::{ErrorCode, PartitionId};
use logway_node::accept::stopped;
use logway_node::access::{Operation, Requester, Resource};
use logway_node::http_callers::Known;
use logway_node::memory::BudgetShare;
use logway_node::streams::anywhere::Partition;
use logway_node::tasks::until;
use logway_node::{Failure, Node, audit};
use tokio::sync::mpsc::Permit;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;

use crate::client_turns::Client;
use crate::grpc::outbound::Reply;
use crate::grpc::status::{Code, Status};
use crate::open_streams::StreamPlace;
use crate::service::Service;
use crate::unread::Unread;

/// A call.
pub(crate) struct Call {
    pub(crate) service: Arc<Service>,
    pub(crate) known: Arc<Known>,
    pub(crate) host: IpAddr,
    /// What the client calls itself; empty if it does not.
    pub(crate) client_id: String,
    /// When the client does not want it any more.
    pub(crate) deadline: Option<Instant>,
    /// Told when its connection is to be given up.
    pub(crate) give_up: Arc<Notify>,
    /// Whose filters of the connection may work now.
    pub(crate) evaluation: Arc<Semaphore>,
    /// Its replies that are on their way.
    pub(crate) unread: Unread,
}

/// A log that the requester may use.
#[derive(Clone)]
pub(crate) struct FoundLog {
    pub(crate) topic: Arc<TopicImage>,
}

impl FoundLog {
    pub(crate) fn name(&self) -> &str {
        self.topic.name.as_str()
    }

    /// One of its partitions.
    pub(crate) fn partition(&self, number: u32) -> Result<Partition, Status> {
        let id = i32::try_from(number).ok().map(PartitionId);
        let id = id.filter(|id| self.topic.partition(*id).is_some());
        let id = id.ok_or_else(|| {
            let (name, count) = (self.name(), self.topic.partition_count());
            let message =
                format!("log '{name}' has {count} partitions; there is no partition {number}");
            Status::new(Code::NotFound, "UNKNOWN_LOG", message)
                .with("log", name)
                .with("partition", number)
        })?;
        Ok(Partition { topic: self.topic.id, number: id })
    }
}

/// Replies up to this size take no memory of the budget: there are few, and none waits for others' memory.
pub(crate) const UNCOUNTED_BYTES: usize = 32 << 10;

impl Call {
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.service.node
    }

    /// The log of a name, for a requester who may do that with it. A name is judged before it is looked up.
    pub(crate) fn log(&self, name: &str, operation: Operation) -> Result<FoundLog, Status> {
        let requester = Requester { principal: &self.known.principal, host: self.host };
        let memory = &self.known.access_memory;
        let about = |status: Status| status.with("log", name);
        let resource = Resource::Topic(name);
        let is_allowed = self.node().allows(&requester, operation, resource, memory);
        if operation.is_administration() {
            audit::authorization(&requester, "", operation, resource, is_allowed);
        }
        if !is_allowed {
            let message =
                format!("{} may not {} log '{name}'", requester.principal, operation.name());
            let failure = Failure::new(ErrorCode::TopicAuthorizationFailed, message);
            return Err(about(failure.into()));
        }
        if is_internal(name) {
            let message = format!("log '{name}' is internal");
            return Err(about(Failure::new(ErrorCode::InvalidTopicException, message).into()));
        }
        let Some(topic) = self.node().image().topic(name).cloned() else {
            let message = format!("there is no log '{name}'");
            return Err(about(Failure::new(ErrorCode::UnknownTopicOrPartition, message).into()));
        };
        Ok(FoundLog { topic })
    }

    /// Ends when the call has to, whatever it does; gives why.
    pub(crate) async fn over(&self) -> Status {
        let mut stopping = self.service.stopping.clone();
        tokio::select! {
            () = until(self.deadline) => Status::late(),
            () = until(self.known.until) => {
                let message = "the session is over: say again who you are";
                Status::new(Code::Unauthenticated, "SESSION_OVER", message)
            }
            () = stopped(&mut stopping) => Status::stopping(),
        }
    }

    /// Runs a stream until it or the call ends, and tells the client how. It is there until the client has taken the last reply:
    /// if the client takes nothing while memory is short, its connection is given up. What is on its way can be taken back in no
    /// other way.
    pub(crate) async fn run_stream(
        &self,
        replies: mpsc::Sender<Reply>,
        _place: StreamPlace,
        stream: impl Future<Output = Result<(), Status>>,
    ) {
        // It has the sender, so that a reply which was sent to nobody is gone with it.
        let told = async move {
            let status = tokio::select! {
                // What has ended by itself is told, rather than that time is over.
                biased;
                outcome = stream => outcome.err().unwrap_or(Status::OK),
                status = self.over() => status,
                // The client has gone.
                () = replies.closed() => return,
            };
            // Who has gone hears nothing.
            if let Ok(permit) = self.room(&replies).await {
                permit.send(Reply::End(status));
            }
        };
        let taken = async {
            told.await;
            self.unread.all_taken().await;
        };
        tokio::select! {
            () = taken => {}
            () = self.unread.is_given_up(&self.node().memory.replies, &self.service.reply_turns) => {
                self.give_up.notify_one();
            }
        }
    }

    /// A reply. A large one takes memory until the client has taken it, and waits for that.
    pub(crate) async fn reply(&self, message: Bytes) -> Reply {
        let share = match message.len() <= UNCOUNTED_BYTES {
            true => None,
            false => Some(self.reply_memory(message.len()).await),
        };
        Reply::Message(self.unread.pieces(message, share))
    }

    /// The share of a reply that was made: what was taken before, or what is to be had at once. A small reply has none.
    pub(crate) fn reply_share(
        &self,
        taken: Option<BudgetShare>,
        size_bytes: usize,
    ) -> Result<Option<BudgetShare>, NoRoom> {
        let replies = &self.node().memory.replies;
        match taken {
            _ if size_bytes <= UNCOUNTED_BYTES => Ok(None),
            // A reply that is larger than all of the memory has all of it.
            Some(share) if share.bytes() >= size_bytes.min(replies.limit_bytes()) => {
                Ok(Some(share.cut_to(size_bytes)))
            }
            other => {
                drop(other);
                replies.try_take(size_bytes).map(Some).ok_or(NoRoom)
            }
        }
    }

    /// Who has called, as turns are counted.
    pub(crate) fn client(&self) -> Client {
        (self.known.principal.clone(), self.host)
    }

    /// Takes memory for a reply, when it is its client's turn.
    pub(crate) async fn reply_memory(&self, size_bytes: usize) -> BudgetShare {
        self.service.reply_turns.take(self.client(), &self.node().memory.replies, size_bytes).await
    }

    /// Waits until there is room for another reply.
    pub(crate) async fn room<'a>(
        &self,
        replies: &'a mpsc::Sender<Reply>,
    ) -> Result<Permit<'a, Reply>, Status> {
        replies.reserve().await.map_err(|_| Status::stopping())
    }
}

/// There is no memory for a reply now. Who waits for some with [`Call::reply_memory`] drops the reply first, and makes it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// What came of a call with one reply.
pub(crate) type Outcome = Result<Bytes, Status>;
