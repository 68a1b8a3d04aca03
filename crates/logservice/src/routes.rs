//! The one table of what is served: from an HTTP request to its response.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, ORIGIN};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::mpsc;

use crate::authentication::authenticate;
use crate::call::{Call, Outcome};
use crate::connection_info::{CallInWork, ConnectionInfo};
use crate::grpc::inbound::Inbound;
use crate::grpc::outbound::{Outbound, Reply};
use crate::grpc::status::{Code, Status};
use crate::grpc::timeout::deadline;
use crate::open_streams::StreamPlace;
use crate::quota::client_id;
use crate::service::Service;
use crate::unread::Unread;
use crate::{append, health, info, logspec, read, reflection};

/// What a listener is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Door {
    /// The log service.
    Log,
    /// `logspec`, on this topic.
    Logspec(String),
}

/// The metadata by which a client of `logspec` names its log where the listener does not.
const LOG_NAME: &str = "log";

/// Replies of a stream that are made before the client takes them.
const REPLIES_AHEAD: usize = 1;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    Append,
    Read,
    Truncate,
    Info,
    Watch,
    LogspecAppend,
    LogspecDiscard,
    LogspecRead,
    LogspecInfo,
    LogspecInfoStream,
    HealthCheck,
    HealthWatch,
    Reflect,
}

const METHODS: &[(&str, Served)] = &[
    ("/logway.log.v1.LogService/Append", Served::Append),
    ("/logway.log.v1.LogService/Read", Served::Read),
    ("/logway.log.v1.LogService/Truncate", Served::Truncate),
    ("/logway.log.v1.LogService/Info", Served::Info),
    ("/logway.log.v1.LogService/Watch", Served::Watch),
    ("/logspec.Log/Append", Served::LogspecAppend),
    ("/logspec.Log/Discard", Served::LogspecDiscard),
    ("/logspec.Log/Read", Served::LogspecRead),
    ("/logspec.Log/Info", Served::LogspecInfo),
    ("/logspec.Log/InfoStream", Served::LogspecInfoStream),
    ("/grpc.health.v1.Health/Check", Served::HealthCheck),
    ("/grpc.health.v1.Health/Watch", Served::HealthWatch),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Served::Reflect),
    // The same messages under an older name, by which many tools still ask.
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Served::Reflect),
];

impl Served {
    /// Whether nobody is asked who he is: those who look after machines ask for health.
    fn is_open(self) -> bool {
        matches!(self, Served::HealthCheck | Served::HealthWatch)
    }

    fn is_on(self, door: &Door) -> bool {
        let is_of_log_service = matches!(
            self,
            Served::Append | Served::Read | Served::Truncate | Served::Info | Served::Watch
        );
        *door == Door::Log || !is_of_log_service
    }
}

/// Answers a call.
pub(crate) async fn answer(
    service: Arc<Service>,
    connection: Arc<ConnectionInfo>,
    door: Arc<Door>,
    in_work: CallInWork,
    request: Request<Incoming>,
) -> Response<Outbound> {
    let headers = request.headers();
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let is_grpc = request.method() == Method::POST && content_type.starts_with(b"application/grpc");
    // Browsers say which page a request is of. A page must not use what its reader can reach.
    if !is_grpc || headers.contains_key(ORIGIN) {
        let mut response = Response::new(Outbound::whole(Err(not_grpc()), in_work));
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    let body = match begin(service, connection, &door, request).await {
        Ok(Begun::Whole(outcome)) => Outbound::whole(outcome, in_work),
        Ok(Begun::Stream(replies)) => Outbound::stream(replies, in_work),
        Err(status) => Outbound::whole(Err(status), in_work),
    };
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

fn not_grpc() -> Status {
    Status::invalid("this port speaks gRPC, and not to web pages")
}

/// What a call's response is made of.
enum Begun {
    Whole(Outcome),
    Stream(mpsc::Receiver<Reply>),
}

async fn begin(
    service: Arc<Service>,
    connection: Arc<ConnectionInfo>,
    door: &Door,
    request: Request<Incoming>,
) -> Result<Begun, Status> {
    let path = request.uri().path();
    let served = METHODS.iter().find(|(it, served)| *it == path && served.is_on(door));
    let Some((_, served)) = served else {
        let message = format!("there is no method {path:.200} here");
        return Err(Status::new(Code::Unimplemented, "UNKNOWN_METHOD", message)
            .remedy("ask the reflection service what is served here"));
    };
    let deadline = deadline(request.headers())?;
    let known = match served.is_open() {
        true => connection.caller.of_certificate(),
        false => authenticate(&service, &connection.caller, request.headers()).await?,
    };
    let log_name = match door {
        Door::Logspec(topic) => Some(topic.clone()),
        Door::Log => {
            let named = request.headers().get(LOG_NAME).and_then(|name| name.to_str().ok());
            named.map(str::to_owned)
        }
    };
    let logspec_log = || {
        log_name.ok_or_else(|| {
            Status::new(Code::FailedPrecondition, "NO_LOG", "which log? none is named")
                .remedy("name it in the metadata 'log'")
        })
    };
    let node = Arc::clone(&service.node);
    let host = connection.caller.peer.ip().to_canonical();
    let (give_up, evaluation) =
        (Arc::clone(&connection.give_up), Arc::clone(&connection.evaluation));
    let client_id = client_id(request.headers());
    let unread = Unread::default();
    let call = Call { service, known, host, client_id, deadline, give_up, evaluation, unread };
    let mut inbound = Inbound::new(request.into_body(), node);
    let whole = |outcome| Ok(Begun::Whole(outcome));
    match served {
        Served::HealthCheck => whole(health::check(&mut inbound).await),
        Served::Info => whole(in_time(&call, info::info(&call, &mut inbound)).await),
        Served::Truncate => whole(in_time(&call, info::truncate(&call, &mut inbound)).await),
        Served::LogspecDiscard => {
            let log = logspec_log()?;
            whole(in_time(&call, logspec::discard(&call, &log, &mut inbound)).await)
        }
        Served::LogspecInfo => {
            let log = logspec_log()?;
            whole(in_time(&call, logspec::info(&call, &log, &mut inbound)).await)
        }
        Served::Append => stream(call, of_user, |call, out| append::append(call, inbound, out)),
        Served::Read => stream(call, of_user, |call, out| read::read(call, inbound, out)),
        Served::Watch => stream(call, of_user, |call, out| info::watch(call, inbound, out)),
        Served::HealthWatch => stream(call, of_host, |call, out| health::watch(call, inbound, out)),
        Served::Reflect => {
            stream(call, of_user, |call, out| reflection::reflect(call, inbound, out))
        }
        Served::LogspecAppend => {
            let log = logspec_log()?;
            stream(call, of_user, |call, out| logspec::append(call, log, inbound, out))
        }
        Served::LogspecRead => {
            let log = logspec_log()?;
            stream(call, of_user, |call, out| logspec::read(call, log, inbound, out))
        }
        Served::LogspecInfoStream => {
            let log = logspec_log()?;
            stream(call, of_user, |call, out| logspec::watch(call, log, inbound, out))
        }
    }
}

fn of_user(call: &Call) -> Result<StreamPlace, Status> {
    call.service.streams.of_user(&call.known.principal)
}

/// Of those who were not asked who they are.
fn of_host(call: &Call) -> Result<StreamPlace, Status> {
    call.service.streams.of_host(call.host)
}

/// Begins a stream, if there is a place for it.
fn stream<F: Future<Output = Result<(), Status>> + Send + 'static>(
    call: Call,
    place: fn(&Call) -> Result<StreamPlace, Status>,
    work: impl FnOnce(Arc<Call>, mpsc::Sender<Reply>) -> F,
) -> Result<Begun, Status> {
    let place = place(&call)?;
    let (replies, receiver) = mpsc::channel(REPLIES_AHEAD);
    let call = Arc::new(call);
    let work = work(Arc::clone(&call), replies.clone());
    tokio::spawn(async move { call.run_stream(replies, place, work).await });
    Ok(Begun::Stream(receiver))
}

/// Does something unless the call is over before.
async fn in_time(call: &Call, work: impl Future<Output = Outcome>) -> Outcome {
    tokio::select! {
        outcome = work => outcome,
        status = call.over() => Err(status),
    }
}
