//! Appends numbers and reads them again, over breaks of its own and of the brokers.
//!
//! `client HOST:PORT[,HOST:PORT...] LOG COUNT`. When half is acknowledged it prints "half"; the last append waits for a line on
//! stdin. At the end it prints "done".

use std::error::Error;
use std::io::stdin;
use std::time::Duration;

use logway_logservice_suite::append_reply::Reply;
use logway_logservice_suite::append_request::Request;
use logway_logservice_suite::log_service_client::LogServiceClient;
use logway_logservice_suite::read_request::From;
use logway_logservice_suite::{
    Append, AppendReply, AppendRequest, InfoRequest, NewRecord, OpenAppend, ReadRequest,
    SessionPosition, append,
};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

type Failure = Box<dyn Error>;

const PER_APPEND: u64 = 20;
const WINDOW: u64 = 500;
const WAIT: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(100);

/// What one does over all connections.
struct Client {
    addresses: Vec<String>,
    log: String,
    count: u64,
    connections: usize,
    session: Vec<u8>,
    /// The last append that was acknowledged, and how far the session is then.
    acked: u64,
    position: u64,
    has_gone: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let mut arg = || args.next().ok_or("HOST:PORT[,HOST:PORT...] LOG COUNT");
    let (addresses, log, count) = (arg()?, arg()?, arg()?.parse()?);
    let mut client = Client {
        addresses: addresses.split(',').map(str::to_owned).collect(),
        log,
        count,
        connections: 0,
        session: Vec::new(),
        acked: 0,
        position: 0,
        has_gone: false,
    };
    client.append_all().await?;
    client.read_all().await?;
    client.check_end().await?;
    println!("done");
    Ok(())
}

/// Passes over what another try may help against.
fn passing<T>(outcome: Result<T, Status>) -> Result<Option<T>, Status> {
    match outcome {
        Ok(it) => Ok(Some(it)),
        Err(status) => match status.code() {
            Code::Unavailable | Code::Cancelled | Code::Unknown | Code::Internal => Ok(None),
            _ => Err(status),
        },
    }
}

impl Client {
    /// A connection to the next of the brokers, if that can be reached.
    async fn connect(&mut self) -> Option<LogServiceClient<Channel>> {
        let address = &self.addresses[self.connections % self.addresses.len()];
        self.connections += 1;
        LogServiceClient::connect(format!("http://{address}")).await.ok()
    }

    /// Breaks the stream off at each third of the way.
    async fn append_all(&mut self) -> Result<(), Failure> {
        let last = self.count / PER_APPEND;
        let mut part = 1;
        while self.acked < last {
            let break_at = if part < 3 { part * last / 3 } else { last };
            if let Some(service) = self.connect().await {
                self.append(service, break_at).await?;
            }
            match self.acked >= break_at {
                true => part += 1,
                false => sleep(RETRY).await,
            }
        }
        Ok(())
    }

    /// Appends until so many are acknowledged or the stream breaks.
    async fn append(
        &mut self,
        mut service: LogServiceClient<Channel>,
        break_at: u64,
    ) -> Result<(), Failure> {
        let (requests, receiver) = mpsc::unbounded_channel();
        let log = self.log.clone();
        let position = SessionPosition { log, partition: 0, records: self.position };
        let positions = if self.position > 0 { vec![position] } else { Vec::new() };
        let session = self.session.clone().into();
        let open = OpenAppend { session, positions, ..OpenAppend::default() };
        requests.send(AppendRequest { request: Some(Request::Open(open)) })?;
        let begun = timeout(WAIT, service.append(UnboundedReceiverStream::new(receiver))).await?;
        let Some(begun) = passing(begun)? else { return Ok(()) };
        let mut replies = begun.into_inner();
        let last = self.count / PER_APPEND;
        let mut sent = self.acked;
        while self.acked < break_at {
            let Some(reply) = passing(timeout(WAIT, replies.message()).await?)?.flatten() else {
                return Ok(());
            };
            self.take(reply)?;
            while sent < last && sent < self.acked + WINDOW {
                if sent + 1 == last && !self.may_finish()? {
                    break;
                }
                sent += 1;
                // A broken stream takes no more; the next one goes on.
                if requests.send(self.nth(sent)).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, reply: AppendReply) -> Result<(), Failure> {
        match reply.reply {
            Some(Reply::Opened(opened)) => self.session = opened.session.to_vec(),
            Some(Reply::Appended(appended)) if appended.sequence == self.acked + 1 => {
                self.acked += 1;
                self.position = appended.session_records;
                if self.acked == self.count / PER_APPEND / 2 {
                    println!("half");
                }
            }
            other => return Err(format!("{other:?} where {} comes next", self.acked + 1).into()),
        }
        Ok(())
    }

    /// Whether the last append may be sent: when all others are acknowledged, and the line has come.
    fn may_finish(&mut self) -> Result<bool, Failure> {
        if !self.has_gone && self.acked + 1 == self.count / PER_APPEND {
            stdin().read_line(&mut String::new())?;
            self.has_gone = true;
        }
        Ok(self.has_gone)
    }

    /// The n-th append, with the records from (n-1) * PER_APPEND on.
    fn nth(&self, sequence: u64) -> AppendRequest {
        let numbers = (sequence - 1) * PER_APPEND..sequence * PER_APPEND;
        let records = numbers.map(|number| NewRecord {
            value: Some(number.to_string().into()),
            ..NewRecord::default()
        });
        let append = Append {
            sequence,
            log: self.log.clone(),
            to: Some(append::To::Partition(0)),
            records: records.collect(),
        };
        AppendRequest { request: Some(Request::Append(append)) }
    }

    /// Reads a third at a time, each on a connection of its own, and goes on where a broken one was.
    async fn read_all(&mut self) -> Result<(), Failure> {
        let mut next = 0;
        while next < self.count {
            if let Some(mut service) = self.connect().await {
                let request = ReadRequest {
                    log: self.log.clone(),
                    from: Some(From::Offset(next.try_into()?)),
                    records_max: self.count / 3,
                    ..ReadRequest::default()
                };
                let Some(begun) = passing(timeout(WAIT, service.read(request)).await?)? else {
                    sleep(RETRY).await;
                    continue;
                };
                let mut replies = begun.into_inner();
                // A stream that may bring more than is left does not end by itself.
                while next < self.count
                    && let Some(reply) = passing(timeout(WAIT, replies.message()).await?)?.flatten()
                {
                    for record in reply.records {
                        let is_next = record.offset == i64::try_from(next)?
                            && record.value() == next.to_string().as_bytes();
                        if !is_next {
                            return Err(format!("{record:?} where {next} comes next").into());
                        }
                        next += 1;
                    }
                }
            }
            sleep(RETRY).await;
        }
        Ok(())
    }

    async fn check_end(&mut self) -> Result<(), Failure> {
        let waiting = async {
            loop {
                if let Some(mut service) = self.connect().await {
                    let info = service.info(InfoRequest { log: self.log.clone() }).await;
                    let partition =
                        passing(info)?.map(|info| info.into_inner().partitions.remove(0));
                    if let Some(end) = partition.and_then(|partition| partition.end_offset) {
                        return Ok::<i64, Status>(end);
                    }
                }
                sleep(RETRY).await;
            }
        };
        let end = timeout(WAIT, waiting).await??;
        match end == i64::try_from(self.count)? {
            true => Ok(()),
            false => Err(format!("the log ends at {end} and not at {}", self.count).into()),
        }
    }
}
