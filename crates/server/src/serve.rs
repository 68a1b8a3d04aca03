//! `logway serve`: run a broker until it is told to stop.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use logway_http::{HttpListeners, HttpState, ProcessCollector, Refresh};
use logway_kinesis::ListenError as KinesisListenError;
use logway_log::LogError;
use logway_logservice::LogServer;
use logway_metadata::MetadataError;
use logway_metadata::settings::broker::{NODE_ROLE_SETTING, broker_setting, broker_settings};
use logway_metadata::settings::{BrokerSettings, Effect, NodeRole, parse_config_file};
use logway_node::cluster::WrongCluster;
use logway_node::listener::{ListenError, ListenerError};
use logway_node::log_levels::LogLevels;
use logway_node::{Node, NodeError};
use logway_quorum::{AdmissionRefusal, QuorumError};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::agent::{AgentOptions, BrokersAgent};
use crate::descriptors::raise_descriptor_limit;
use crate::log::{self, AuditLog, LEVEL_VARIABLE, Logs};
use crate::nodes::NodeListenError;
use crate::notify::{self, notify};
use crate::running::{BrokerError, RunningBroker};
use crate::secure::SecureError;
use crate::{COMMIT, VERSION, secure};

/// Run a broker.
///
/// No flag is needed to try it. Every setting is in docs/reference/settings.md; flags win over the
/// file. When the broker accepts requests it prints one line to stdout:
/// `ready kafka=ADDR http=ADDR node=ID data=DIR ms=N`, with `kinesis=ADDR`, `log=ADDR` and `logspec=ADDR` behind it where those
/// listen, and without `kafka=` if the node only votes. It tells systemd if that has started it.
#[derive(Debug, Args)]
#[command(version = VERSION, display_name = "logway")]
pub(crate) struct ServeArgs {
    /// Settings, as TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the logs, or several with commas between them [default: ./logway-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where Kafka clients connect; port 0 takes a free one [default: 127.0.0.1:9092]
    #[arg(long, value_name = "ADDR")]
    kafka_listen: Option<String>,
    /// Where Kafka clients connect by TLS and with a password (SASL_SSL), beside --kafka-listen
    #[arg(long, value_name = "ADDR", requires = "tls_files")]
    kafka_secure_listen: Option<String>,
    /// PEM files of the private key and its certificates, with commas between them
    #[arg(long, value_name = "FILE")]
    tls_files: Option<String>,
    /// Sees to TLS, users and permissions: makes an authority, certificates, and a user 'admin' whose password and settings
    /// for clients are below DIR/secure; listeners are SASL_SSL
    #[arg(long, conflicts_with_all = ["kafka_secure_listen", "tls_files", "insecure"])]
    secure: bool,
    /// Where Kinesis clients connect, e.g. 127.0.0.1:4567; port 0 takes a free one [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    kinesis_listen: Option<String>,
    /// Where clients of the log service connect, over gRPC, e.g. 127.0.0.1:4572; port 0 takes a free one [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    log_listen: Option<String>,
    /// Where clients of Akutan's logspec connect, and the topic that is their log
    #[arg(long, value_name = "ADDR=TOPIC")]
    logspec: Option<String>,
    /// Addresses of nodes of a cluster to join, for clients or for nodes; a node with data belongs to its cluster
    /// without it, and only refuses those of another one
    #[arg(long, value_name = "ADDR")]
    join: Option<String>,
    /// A token of 'logway cluster token create', or @FILE: with --secure, this node is admitted by it to the cluster that
    /// has made it
    #[arg(long, value_name = "TOKEN", requires = "secure")]
    join_token: Option<String>,
    /// Where other nodes connect [default: the port after that of Kafka clients]
    #[arg(long, value_name = "ADDR")]
    node_listen: Option<String>,
    /// The number of the node in its cluster [default: that of its data directory, or what the cluster gives it]
    #[arg(long, value_name = "ID")]
    node_id: Option<u32>,
    /// The node takes the place of the dead one that has this number, whose disk or machine is lost: it is admitted with an empty
    /// directory, and copies what the other one had. The old directory is refused from then on. To be said once, at the first
    /// start
    #[arg(long, requires = "node_id")]
    replace: bool,
    /// The failure domain that the node stands in, e.g. a zone
    #[arg(long, value_name = "NAME")]
    rack: Option<String>,
    /// What the node is: a broker, or a voter, which only votes in the metadata quorum: the third machine of a cluster of two
    /// brokers. A voter joins a cluster, and listens for nodes (--node-listen) and health alone [default: broker]
    #[arg(long, value_name = "ROLE", value_parser = ["broker", "voter"])]
    role: Option<String>,
    /// Lets other machines reach addresses where nothing is encrypted or nobody is asked who he is: that for nodes, and
    /// listeners without TLS or without users
    #[arg(long)]
    insecure: bool,
    /// Where health and metrics are served [default: 127.0.0.1:9644]
    #[arg(long, value_name = "ADDR")]
    http_listen: Option<String>,
    /// The least important lines of the log on stderr: off, error, warn, info, debug or trace, and other
    /// levels for parts of the program, as in info,logway_log=debug [default: info]
    #[arg(long, value_name = "LEVEL", env = LEVEL_VARIABLE)]
    log_level: Option<String>,
    /// How the log is written: text, json (one object a line), journal (for systemd), or auto, which is
    /// journal where stderr is connected to it, else text [default: auto]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Runs an agent in the broker's process, as 'logway agent run FILE' would beside it. Components that name no brokers
    /// speak to this one, by its first listener
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// The agent's file is in the form of Apache Flume's properties, and this is its agent
    #[arg(long, value_name = "NAME", requires = "agent")]
    agent_flume_name: Option<String>,
    /// Where the agent's counters are served [default: nowhere]
    #[arg(long, value_name = "ADDR", requires = "agent")]
    agent_metrics: Option<String>,
    /// Any other setting, e.g. --set num.partitions=3
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_assignment)]
    set: Vec<(String, String)>,
}

fn parse_assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A broker that is ready to be run, and its log.
pub(crate) struct Prepared {
    started_at: Instant,
    settings: BrokerSettings,
    /// Whether it takes the place of a node that is lost.
    replaces: bool,
    agent: Option<AgentOptions>,
    pub(crate) logs: Logs,
}

impl Prepared {
    /// Settles what the broker goes by, and sets up its log.
    pub(crate) fn new(mut args: ServeArgs) -> anyhow::Result<Prepared> {
        let started_at = Instant::now();
        let metrics = args.agent_metrics.take();
        let flume_name = args.agent_flume_name.take();
        let agent = args.agent.take().map(|path| AgentOptions { path, flume_name, metrics });
        if let Some(agent) = &agent {
            agent.check()?;
        }
        let replaces = args.replace;
        let settings = settings_of(args)?;
        if agent.is_some() && settings.cluster.role == NodeRole::Voter {
            anyhow::bail!(
                "a voter serves no clients, and an agent speaks to the broker that it runs in"
            );
        }
        let logs = log::init_for_broker(&settings)?;
        Ok(Prepared { started_at, settings, replaces, agent, logs })
    }

    /// Runs the broker until SIGTERM, SIGINT or, when its terminal closes and it has no agent, SIGHUP; a clean stop is
    /// success.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        tracing::info!(version = VERSION, "starting");
        raise_descriptor_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let audit = self.logs.audit.clone();
        let outcome = run_to_end(runtime, serve(self));
        if let Some(audit) = audit {
            audit.flush();
        }
        outcome
    }
}

/// Runs the work; what it has left behind does not matter.
fn run_to_end<T>(runtime: Runtime, work: impl Future<Output = T>) -> T {
    let outcome = runtime.block_on(work);
    // What is to be safe is. To wait for threads that a disk holds up would keep the process, and
    // with it whoever restarts it.
    runtime.shutdown_background();
    outcome
}

fn settings_of(args: ServeArgs) -> anyhow::Result<BrokerSettings> {
    let mut settings = match &args.config {
        Some(path) => read_config(path)?,
        None => Vec::new(),
    };
    let data_dir = args.data_dir.map(|dir| dir.to_string_lossy().into_owned());
    let kafka_secure_listen =
        args.kafka_secure_listen.map(|address| format!("SASL_SSL://{address}"));
    let flags = [
        ("log.dirs", data_dir),
        ("listeners", listeners(args.kafka_listen, kafka_secure_listen)),
        ("ssl.keystore.location", args.tls_files),
        ("logway.secure", args.secure.then(|| "true".to_owned())),
        ("kinesis.listen", args.kinesis_listen),
        ("logservice.listen", args.log_listen),
        ("logservice.logspec.listen", args.logspec),
        ("logway.join", args.join),
        ("logway.join.token", args.join_token),
        ("logway.node.listen", args.node_listen),
        ("node.id", args.node_id.map(|id| id.to_string())),
        ("broker.rack", args.rack),
        (NODE_ROLE_SETTING, args.role),
        ("logway.insecure", args.insecure.then(|| "true".to_owned())),
        ("logway.http.listen", args.http_listen),
        ("logway.log.level", args.log_level),
        ("logway.log.format", args.log_format),
    ];
    let given = |(name, value): (&str, Option<String>)| Some((name.to_owned(), value?));
    settings.extend(args.set);
    settings.extend(flags.into_iter().filter_map(given));
    Ok(BrokerSettings::new(secure::with_defaults(settings))?)
}

/// The usual two listeners. With a secure one alone, the machine itself keeps the other.
fn listeners(plain: Option<String>, secure: Option<String>) -> Option<String> {
    let default = || broker_setting("listeners").ok()?.default.map(str::to_owned);
    match secure {
        Some(secure) => Some(format!("{},{secure}", plain.or_else(default)?)),
        None => plain,
    }
}

fn read_config(path: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
    parse_config_file(&text).with_context(|| path.display().to_string())
}

/// Whether a broker ended because it was removed from its cluster: another start of it ends in the same way.
pub(crate) fn was_removed(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<BrokerError>(),
        Some(BrokerError::Node(NodeError::Quorum(
            QuorumError::Removed { .. } | QuorumError::Admission(AdmissionRefusal::Removed { .. }),
        )))
    )
}

/// What can be done about a broker that did not run.
pub(crate) fn advice(error: &anyhow::Error) -> Option<&'static str> {
    match error.downcast_ref::<BrokerError>() {
        Some(BrokerError::Listen(error)) => return advice_for_listener(error, Listener::Kafka),
        Some(BrokerError::ListenForHttp(error)) => {
            return advice_for_listener(error, Listener::Http);
        }
        Some(BrokerError::ListenForLog(error)) => {
            return advice_for_listener(error, Listener::Log);
        }
        Some(BrokerError::ListenForKinesis(KinesisListenError::Tls { .. })) => {
            return Some(
                "listener.name.kinesis.ssl.keystore.location names the PEM files of the private key and its certificates",
            );
        }
        Some(BrokerError::ListenForKinesis(KinesisListenError::Bind { source, .. })) => {
            return Some(advice_for_address(source, Listener::Kinesis));
        }
        Some(BrokerError::ListenForKinesis(KinesisListenError::Exposed { .. })) => {
            return Some(
                "--secure gives it both; or listen on an address of this machine alone, or say --insecure where the network \
                 is yours",
            );
        }
        Some(BrokerError::ListenForNodes(NodeListenError::Exposed { .. })) => {
            return Some(
                "listen on an address of this machine alone, or say --insecure where the network is yours",
            );
        }
        Some(BrokerError::ListenForNodes(NodeListenError::NotSecure)) => {
            return Some("say --secure, as when the node was made");
        }
        Some(BrokerError::Secure(
            SecureError::NoToken | SecureError::NotAToken | SecureError::Admission(_),
        )) => {
            return Some(
                "'logway cluster token create', with a profile of a node that is there, makes one for --join-token",
            );
        }
        Some(BrokerError::Secure(SecureError::TokenFile { .. })) => {
            return Some(
                "the user that the broker runs as must be able to read it, and nobody else should: chown logway: FILE; \
                 chmod 600 FILE",
            );
        }
        Some(BrokerError::Secure(_)) => {
            return Some(
                "what serve --secure has made is below 'secure' in the first log directory",
            );
        }
        Some(BrokerError::ListenForNodes(NodeListenError::Bind { .. })) => {
            return Some("choose another address with --node-listen HOST:PORT");
        }
        Some(BrokerError::Node(error)) => return advice_for_node(error),
        None => {}
    }
    match error.downcast_ref::<MetadataError>() {
        Some(MetadataError::ConfigFile { .. }) => Some(
            "settings are TOML, as in num.partitions = 3, with quotes around texts; a file of \
             Kafka's properties is not taken",
        ),
        Some(_) => {
            Some("docs/reference/settings.md lists every setting with the values that it can have")
        }
        None => None,
    }
}

/// Whether a file has what this version does not know, by what is said of it.
fn is_of_newer_version(reason: &str) -> bool {
    // The last two are serde's.
    let unknown = ["unknown version", "unknown variant", "unknown field"];
    unknown.into_iter().any(|unknown| reason.contains(unknown))
}

fn advice_for_node(error: &NodeError) -> Option<&'static str> {
    match error {
        NodeError::Log(LogError::Malformed { reason, .. })
        | NodeError::Quorum(
            QuorumError::Log { reason, .. } | QuorumError::Snapshot { reason, .. },
        ) if is_of_newer_version(reason) => {
            Some("a newer version of Logway has written it: start that one; nothing was changed")
        }
        NodeError::Log(LogError::Locked { .. }) => {
            Some("another broker runs on it: stop that one, or name another --data-dir")
        }
        NodeError::Log(LogError::Io { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Some("the broker must be able to write there: name another with --data-dir")
        }
        NodeError::Quorum(QuorumError::Unreachable { .. }) => Some(
            "--join takes HOST:PORT of nodes that run, the address for clients or the one for nodes; a \
             majority of the cluster must be up, and its first node is started without --join",
        ),
        NodeError::Quorum(QuorumError::Admission(AdmissionRefusal::NumberTaken { .. })) => Some(
            "leave --node-id away to get a free number; a node that was there before comes back with \
             its own --data-dir; if that is lost, --replace gives this one its place",
        ),
        NodeError::Quorum(QuorumError::Admission(AdmissionRefusal::NotReplaced { .. })) => Some(
            "'logway cluster status' shows all nodes; a node that alone has records is better started again: to give them up, say \
             'logway cluster remove NODE --force --yes', and then this again",
        ),
        NodeError::Quorum(
            QuorumError::Removed { .. } | QuorumError::Admission(AdmissionRefusal::Removed { .. }),
        ) => Some(
            "its data is as it was; to join again as a new node, name an empty --data-dir with --join",
        ),
        NodeError::Quorum(QuorumError::NotJoined { .. }) => {
            Some("start it with --join once, or name another --data-dir to found a cluster")
        }
        NodeError::LonelyVoter => Some(
            "say --join HOST:PORT, or --join-token TOKEN, of the cluster that it is to vote in",
        ),
        NodeError::VoterWasBroker { .. } => Some(
            "start it as the broker that it is; 'logway cluster decommission NODE' takes that out of the cluster, and then it joins \
             as a voter with an empty --data-dir",
        ),
        NodeError::WrongCluster(WrongCluster::Two { .. }) => {
            Some("name nodes of the one cluster with --join that this node shall belong to")
        }
        NodeError::WrongCluster(WrongCluster::NotOurs { .. }) => Some(
            "leave --join away to run the node that it is; to join with a new node, name an empty \
             --data-dir",
        ),
        _ => None,
    }
}

/// For a front door whose listeners have names.
fn advice_for_listener(error: &ListenError, listener: Listener) -> Option<&'static str> {
    match error {
        ListenError::Bind { source, .. } => Some(advice_for_address(source, listener)),
        ListenError::Files { source: ListenerError::Keys(_), .. } => {
            Some("sasl.oauthbearer.jwks.endpoint.url names a JSON Web Key Set")
        }
        ListenError::Files { source: ListenerError::Tls(_), .. } => Some(
            "ssl.keystore.location names the PEM files of the private key and its certificates, \
             ssl.truststore.location those of authorities",
        ),
        ListenError::Exposed { .. } => Some(
            "logway.secure = true, or --secure, sees to both; by hand, make it SASL_SSL, or SSL with ssl.client.auth=required \
             (docs/OPERATING.md). Where the network is yours, say logway.insecure = true, or --insecure",
        ),
    }
}

fn advice_for_address(source: &io::Error, listener: Listener) -> &'static str {
    match (source.kind(), listener) {
        (io::ErrorKind::AddrInUse, Listener::Http) => {
            "something else listens there: choose another with --http-listen HOST:PORT"
        }
        (io::ErrorKind::AddrInUse, Listener::Kafka) => {
            "something else listens there, maybe another broker: choose another address with \
             --kafka-listen HOST:PORT (and others with --http-listen and --data-dir)"
        }
        (io::ErrorKind::AddrInUse, Listener::Kinesis) => {
            "something else listens there: choose another with --kinesis-listen HOST:PORT"
        }
        (io::ErrorKind::AddrInUse, Listener::Log) => {
            "something else listens there: choose another with --log-listen HOST:PORT, or with --logspec HOST:PORT=TOPIC"
        }
        (_, Listener::Log) => {
            "--log-listen takes an address of this machine, as HOST:PORT, and --logspec one as HOST:PORT=TOPIC"
        }
        (_, Listener::Kinesis) => "--kinesis-listen takes an address of this machine, as HOST:PORT",
        (_, Listener::Http) => "--http-listen takes an address of this machine, as HOST:PORT",
        (_, Listener::Kafka) => "--kafka-listen takes an address of this machine, as HOST:PORT",
    }
}

#[derive(Debug, Clone, Copy)]
enum Listener {
    Kafka,
    Kinesis,
    Log,
    Http,
}

/// How long a broker that has failed may take to stop.
const FAILED_STOP_MAX: Duration = Duration::from_secs(10);

async fn serve(prepared: Prepared) -> anyhow::Result<()> {
    let Prepared { started_at, settings, replaces, agent, logs } = prepared;
    let lost = logs.audit.as_ref().map(AuditLog::lost).unwrap_or_default();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // With an agent a hangup ends nothing: it has the agent's file read, as in a process of its own.
    let reload_now = agent.is_some().then(Arc::<Notify>::default);
    let mut hangup = hangups(reload_now.is_some())?;
    // By habit these ask daemons to do something that is not needed here, such as opening the log anew.
    // Nobody means by them that the broker should end at once, as the system would have it.
    let _ignored = [signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?];
    let log_dirs = settings.log_dirs.clone();

    warn_of_settings_without_effect(&settings);
    // A node that comes back waits for a majority of its cluster, perhaps for long.
    let (broker, http, registry) = tokio::select! {
        started = start_broker(settings, replaces, logs.levels, lost) => started?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
        () = hung_up(&mut hangup, reload_now.as_deref()) => return Ok(()),
    };
    let node_id = broker.node().settings.node_id;
    let http_addresses = listed(&http.addresses());
    let stopping = Arc::new(AtomicBool::new(false));
    let is_ready = is_ready(&broker, &stopping);
    let is_in_sync = is_in_sync(&broker, Arc::clone(&is_ready));
    let refresh = refresh(&broker);
    let node = Arc::downgrade(broker.node());
    let registry = Arc::new(registry);
    let state = HttpState { registry, is_ready, is_in_sync, refresh, node };
    let http_server = tokio::spawn(logway_http::serve(http, state));
    let address = broker.addresses().first().copied();
    let mut agent = match agent.zip(address) {
        Some((options, address)) => {
            match BrokersAgent::start(options, address, reload_now.clone().unwrap_or_default())
                .await
            {
                Ok(agent) => Some(agent),
                Err(error) => {
                    broker.stop().await?;
                    return Err(error);
                }
            }
        }
        None => None,
    };
    let ready_ms = started_at.elapsed().as_millis();
    // A voter has none.
    let kafka = listed(broker.addresses());
    let kafka = if kafka.is_empty() { kafka } else { format!("kafka={kafka} ") };
    let data = log_dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(",");
    let kinesis = broker.kinesis_address().map(|address| format!(" kinesis={address}"));
    let kinesis = kinesis.unwrap_or_default();
    let log_service = broker.log_service().map(log_service_addresses).unwrap_or_default();
    print_line(&format!(
        "ready {kafka}http={http_addresses} node={node_id} data={data} ms={ready_ms}{kinesis}{log_service}"
    ))?;

    notify(notify::READY);

    let outcome = tokio::select! {
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
        () = hung_up(&mut hangup, reload_now.as_deref()) => Ok("SIGHUP"),
        error = broker.failed() => Err(error.into()),
        error = failed(&mut agent) => Err(error),
    };
    stopping.store(true, Ordering::Relaxed);
    notify(notify::STOPPING);
    match outcome {
        Ok(signal) => {
            tracing::info!(signal, "stopping");
            // First: what it has in memory goes to this broker.
            if let Some(agent) = agent {
                agent.stop().await;
            }
            broker.stop().await?;
        }
        Err(error) => {
            // What can still be closed in good order is; a disk that does not answer is not waited
            // for.
            tracing::error!(%error, "the broker cannot go on");
            let _ = tokio::time::timeout(FAILED_STOP_MAX, broker.stop()).await;
            return Err(error);
        }
    }
    // The HTTP server may be waiting for a client that reads no answer; the data is safe already.
    http_server.abort();
    Ok(())
}

/// Waits until the agent cannot go on, if there is one.
async fn failed(agent: &mut Option<BrokersAgent>) -> anyhow::Error {
    match agent {
        Some(agent) => agent.failed().await,
        None => std::future::pending().await,
    }
}

/// Where the log service listens, as the line of readiness tells it.
fn log_service_addresses(log_service: &LogServer) -> String {
    let told = [("log", log_service.addresses()), ("logspec", log_service.logspec_addresses())];
    let told = told.into_iter().filter(|(_, addresses)| !addresses.is_empty());
    told.map(|(name, addresses)| format!(" {name}={}", listed(addresses))).collect()
}

/// The closing of the terminal. An agent wants it in any case; without one, `nohup` and the like have it ignored.
fn hangups(has_agent: bool) -> io::Result<Option<Signal>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !has_agent && is_ignored(SignalKind::hangup(), &status) {
        return Ok(None);
    }
    signal(SignalKind::hangup()).map(Some)
}

/// Whether a process of this `/proc/PID/status` ignores a signal.
fn is_ignored(kind: SignalKind, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// Waits for a hangup that ends the broker. With an agent none does: its file is read again.
async fn hung_up(signals: &mut Option<Signal>, reload_now: Option<&Notify>) {
    loop {
        next_of(signals).await;
        match reload_now {
            Some(reload_now) => reload_now.notify_one(),
            None => return,
        }
    }
}

async fn next_of(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => _ = signals.recv().await,
        None => std::future::pending().await,
    }
}

/// Starts a broker, and returns it with what is to show health and metrics, and with every metric of the process. `replaces` says
/// whether a node without data takes the place of the one that has its number.
pub async fn start_broker(
    settings: BrokerSettings,
    replaces: bool,
    log_levels: LogLevels,
    audit_lines_lost: Counter,
) -> anyhow::Result<(RunningBroker, HttpListeners, Registry)> {
    let mut registry = Registry::default();
    let help = "Lines of the audit log that came too fast or could not be written";
    registry.register("audit_lines_lost", help, audit_lines_lost);
    registry.register_collector(Box::new(ProcessCollector));
    register_build_info(&mut registry);
    let (broker, http) =
        RunningBroker::start(settings, replaces, log_levels, &mut registry).await?;
    Ok((broker, http, registry))
}

/// Who carries a configuration over from Kafka learns what of it does nothing here.
fn warn_of_settings_without_effect(settings: &BrokerSettings) {
    for setting in broker_settings() {
        if let (Effect::Nothing(reason), Some(value)) =
            (setting.effect, settings.given(setting.name))
        {
            tracing::warn!(setting = setting.name, value, reason, "a setting has no effect here");
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    commit: &'static str,
}

/// Tells which program runs, as other exporters do: by labels, at a value that never changes.
fn register_build_info(registry: &mut Registry) {
    let info = Family::<BuildLabels, Gauge>::default();
    let labels = BuildLabels { version: env!("CARGO_PKG_VERSION"), commit: COMMIT };
    info.get_or_create(&labels).set(1);
    let help = "The version of the program that runs, and the commit that it is built of; always 1";
    registry.register("logway_build_info", help, info);
}

/// Ready is who can serve: not on the way out, with a writer, with metadata that can still be changed, and not fenced
/// by its cluster.
fn is_ready(
    broker: &RunningBroker,
    stopping: &Arc<AtomicBool>,
) -> Arc<dyn Fn() -> bool + Send + Sync> {
    let node = Arc::downgrade(broker.node());
    let stopping = Arc::clone(stopping);
    Arc::new(move || {
        let can_work = |node: Arc<Node>| {
            node.log_dirs.is_running() && node.quorum.check_running().is_ok() && node.is_active()
        };
        !stopping.load(Ordering::Relaxed) && node.upgrade().is_some_and(can_work)
    })
}

/// In sync is who is ready and has no replica that the others would miss.
fn is_in_sync(
    broker: &RunningBroker,
    is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
) -> Arc<dyn Fn() -> bool + Send + Sync> {
    let node = Arc::downgrade(broker.node());
    Arc::new(move || is_ready() && node.upgrade().is_some_and(|node| node.is_in_sync()))
}

/// Some numbers are measured when somebody wants to know.
fn refresh(broker: &RunningBroker) -> Refresh {
    let node = Arc::downgrade(broker.node());
    Arc::new(move || {
        let node = node.upgrade();
        Box::pin(async move {
            if let Some(node) = node {
                node.refresh_metrics().await;
            }
        })
    })
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
}

/// A closed stdout does not keep a broker from running.
fn print_line(line: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_secure_listener_comes_beside_the_plain_one() {
        let of = |plain: Option<&str>, secure: Option<&str>| {
            listeners(plain.map(str::to_owned), secure.map(str::to_owned))
        };
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some("a:1"), None).as_deref(), Some("a:1"));
        assert_eq!(of(Some("a:1"), Some("SASL_SSL://b:2")).as_deref(), Some("a:1,SASL_SSL://b:2"));
        let beside_default = of(None, Some("SASL_SSL://b:2"));
        assert_eq!(beside_default.as_deref(), Some("127.0.0.1:9092,SASL_SSL://b:2"));
    }

    #[test]
    fn a_signal_is_ignored_if_its_bit_is_set() {
        let status = |mask: &str| format!("SigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        let hangup = SignalKind::hangup();
        assert!(is_ignored(hangup, &status("0000000000001001")));
        assert!(!is_ignored(hangup, &status("0000000000001000")));
        assert!(!is_ignored(hangup, "of another system"));
    }

    #[tokio::test]
    async fn a_hangup_ends_a_broker_and_has_the_file_of_its_agent_read() {
        let hang_up = || {
            let process = rustix::process::getpid();
            rustix::process::kill_process(process, rustix::process::Signal::HUP).expect("is sent");
        };
        let mut signals = hangups(true).expect("listens");
        let (reload_now, soon) = (Notify::new(), Duration::from_secs(20));
        hang_up();
        tokio::select! {
            () = hung_up(&mut signals, Some(&reload_now)) => panic!("it ends the broker"),
            told = tokio::time::timeout(soon, reload_now.notified()) => told.expect("the agent is told"),
        }
        hang_up();
        let ended = tokio::time::timeout(soon, hung_up(&mut signals, None)).await;
        ended.expect("without an agent it ends the broker");
    }

    #[test]
    fn a_thread_that_a_disk_holds_up_does_not_keep_the_process() {
        let (disk, is_back) = mpsc::channel::<()>();
        let (ends, ended) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Runtime::new().expect("runs");
            let work = async {
                let (begins, begun) = tokio::sync::oneshot::channel();
                tokio::task::spawn_blocking(move || {
                    begins.send(()).expect("is waited for");
                    // Until the end of the test.
                    _ = is_back.recv();
                });
                begun.await.expect("begins");
            };
            run_to_end(runtime, work);
            ends.send(()).expect("is waited for");
        });
        ended.recv_timeout(Duration::from_secs(20)).expect("does not wait for the disk");
        drop(disk);
    }
}
