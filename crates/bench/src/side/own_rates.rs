//! The rates that a broker itself has counted: for Logway from `/metrics`, for Kafka through JMX.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use logway_client::BrokerAddress;
use logway_model::TopicName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{OwnedProcess, Side, free_address};
use crate::generator::{Observed, Window};
use crate::measure::{BrokerRates, CountedRate};

/// Over how long a broker's last rate is.
const MINUTE: Duration = Duration::from_secs(60);

/// How long a broker may take to say what it has counted, and a JVM to start and ask it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a process that asks is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Kafka's meters, of all topics together.
const METERS: [&str; 2] = [
    "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec",
    "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec",
];

/// Where a broker shows what it has counted.
#[derive(Debug, Clone, Default)]
pub(crate) enum OwnCounts {
    /// Nowhere.
    #[default]
    Nowhere,
    /// Counters of each topic at `/metrics` of that address.
    Metrics(BrokerAddress),
    /// Meters of a JVM, which a program reads.
    Jmx {
        /// That program without its arguments.
        command: Vec<String>,
    },
}

/// A topic's counters at a moment.
#[derive(Debug, Clone, Copy)]
struct Count {
    at: Instant,
    messages: f64,
    bytes: f64,
}

impl Count {
    fn until(self, later: Count) -> CountedRate {
        let seconds = (later.at - self.at).as_secs_f64();
        CountedRate {
            messages_per_second: (later.messages - self.messages) / seconds,
            bytes_per_second: (later.bytes - self.bytes) / seconds,
        }
    }
}

impl Side {
    /// Looks at the counters of a topic while a run goes on, and says with what that saw how much came in. What cannot be
    /// had is said in words: the run is worth something without it.
    ///
    /// # Errors
    ///
    /// The run fails; then nothing more is waited for.
    pub(crate) async fn with_own_rates(
        &self,
        topic: &TopicName,
        window: Window,
        run: impl Future<Output = anyhow::Result<Observed>>,
    ) -> anyhow::Result<Observed> {
        let own_counts = self.own.as_ref().map(|own| &own.launch().own_counts);
        let (mut observed, rates) = match own_counts {
            Some(_) if self.nodes() > 1 => {
                let reason = "has several nodes, each with a count of its own";
                (run.await?, Ok(BrokerRates::absent(reason)))
            }
            Some(OwnCounts::Metrics(address)) => {
                let counted = async { Ok(counted(address, topic, window).await) };
                tokio::try_join!(run, counted)?
            }
            Some(OwnCounts::Jmx { command }) if window.length() >= MINUTE => {
                // A JVM that asks takes a processor for seconds: not while anything is measured.
                let observed = run.await?;
                (observed, self.metered(command, window).await)
            }
            Some(OwnCounts::Jmx { .. }) => {
                let reason = "its own rates are averages of a minute: longer than the run";
                (run.await?, Ok(BrokerRates::absent(reason)))
            }
            Some(OwnCounts::Nowhere) => {
                (run.await?, Ok(BrokerRates::absent("has no count of its own")))
            }
            None => {
                let reason = "was not started here: where it counts is not known";
                (run.await?, Ok(BrokerRates::absent(reason)))
            }
        };
        let rates = rates
            .unwrap_or_else(|error| BrokerRates::absent(format!("could not be read: {error:#}")));
        observed.broker_rates = Some(rates);
        Ok(observed)
    }

    /// Opens a JVM's agent, on loopback, for one question, so that it has nothing to do with any other run.
    async fn metered(&self, command: &[String], window: Window) -> anyhow::Result<BrokerRates> {
        let own = self.own.as_ref().context("it was not started here")?;
        let (pid, scratch) = (self.pids.first().context("it does not run")?, own.directory.path());
        let port = free_address()?.port;
        let log = scratch.join("jmx-agent.log");
        let jcmd = |order: &[String]| [&["jcmd".to_owned(), pid.to_string()], order].concat();
        let opened = say(&jcmd(&agent(port)), &log).await;
        let answer = match &opened {
            Ok(_) => {
                let asked = [command, &question(port)].concat();
                say(&asked, &scratch.join("jmx-answer.log")).await
            }
            Err(error) => Err(anyhow::anyhow!("jcmd: {error:#}")),
        };
        let told_after = window.to.elapsed();
        // Whatever came of it: nobody who asks is asked who they are.
        let stopped = scratch.join("jmx-stop.log");
        let closed = say(&jcmd(&["ManagementAgent.stop".to_owned()]), &stopped).await;
        let answer =
            answer.with_context(|| format!("jcmd said: {}", opened.unwrap_or_default().trim()))?;
        closed?;
        let [messages, bytes] = METERS.map(|meter| one_minute_rate(&answer, meter));
        let last_minute = CountedRate { messages_per_second: messages?, bytes_per_second: bytes? };
        Ok(BrokerRates {
            measured: None,
            last_minute: Some(last_minute),
            source: format!(
                "OneMinuteRate through JMX, of all topics, told {:.1} s behind the end, which are {:.0} % of it; {:.0} % are \
                 from before the run",
                told_after.as_secs_f64(),
                100.0 * (1.0 - share_from_before(told_after)),
                100.0 * share_from_before(window.length() + told_after)
            ),
        })
    }
}

async fn sleep_until(moment: Instant) {
    tokio::time::sleep_until(moment.into()).await;
}

async fn counted(
    address: &BrokerAddress,
    topic: &TopicName,
    window: Window,
) -> anyhow::Result<BrokerRates> {
    sleep_until(window.from).await;
    let first = count(address, topic).await?;
    let mut minute_ago = None;
    if window.length() > MINUTE {
        sleep_until(window.to - MINUTE).await;
        minute_ago = Some(count(address, topic).await?);
    }
    sleep_until(window.to).await;
    let last = count(address, topic).await?;
    Ok(BrokerRates {
        measured: Some(first.until(last)),
        last_minute: minute_ago.map(|count| count.until(last)),
        source: "counters at /metrics".to_owned(),
    })
}

async fn count(address: &BrokerAddress, topic: &TopicName) -> anyhow::Result<Count> {
    let text = tokio::time::timeout(PATIENCE, get_metrics(address));
    let text = text.await.context("no answer in time")??;
    let at = Instant::now();
    let [messages, bytes] = ["logway_topic_messages_in_total", "logway_topic_bytes_in_total"]
        .map(|name| counter(&text, name, topic));
    Ok(Count { at, messages: messages?, bytes: bytes? })
}

async fn get_metrics(address: &BrokerAddress) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    // HTTP/1.0: the answer ends with the connection, and is in one piece.
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.lines().next().unwrap_or("");
    ensure!(status.split(' ').nth(1) == Some("200"), "/metrics answers '{status}'");
    Ok(answer)
}

/// A topic's counter; one that nothing was counted in is not there yet.
fn counter(text: &str, name: &str, topic: &TopicName) -> anyhow::Result<f64> {
    ensure!(text.contains(name.trim_end_matches("_total")), "there is no {name}");
    let series = format!("{name}{{topic=\"{topic}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&series));
    match value.map(|value| value.split(' ').next().unwrap_or("")) {
        None => Ok(0.0),
        Some(value) => value.parse().with_context(|| format!("{name} is '{value}'")),
    }
}

/// How much of a meter's moving average of a minute is older than a time.
fn share_from_before(length: Duration) -> f64 {
    (-length.as_secs_f64() / MINUTE.as_secs_f64()).exp()
}

/// On loopback only: nobody is asked who they are.
fn agent(port: u16) -> Vec<String> {
    let mut order = vec!["ManagementAgent.start".to_owned()];
    order.extend(["jmxremote.host=127.0.0.1".to_owned(), format!("jmxremote.port={port}")]);
    order.push(format!("jmxremote.rmi.port={port}"));
    order.extend(["jmxremote.authenticate=false", "jmxremote.ssl=false"].map(str::to_owned));
    order
}

fn question(port: u16) -> Vec<String> {
    let url = format!("service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi");
    let mut question = vec!["--jmx-url".to_owned(), url];
    question
        .extend(METERS.into_iter().flat_map(|meter| ["--object-name", meter]).map(str::to_owned));
    let how = ["--attributes", "OneMinuteRate", "--one-time", "--report-format", "properties"];
    question.extend(how.map(str::to_owned));
    question
}

fn one_minute_rate(answer: &str, meter: &str) -> anyhow::Result<f64> {
    let prefix = format!("{meter}:OneMinuteRate=");
    let rate = answer.lines().find_map(|line| line.strip_prefix(&prefix));
    let rate = rate.with_context(|| format!("no {meter} in: {}", answer.trim()))?;
    rate.trim().parse().with_context(|| format!("{meter} is '{rate}'"))
}

/// What a command prints; it is ended if it takes too long.
async fn say(command: &[String], output: &Path) -> anyhow::Result<String> {
    // Output is appended to what is there.
    let _ = std::fs::remove_file(output);
    let mut process = OwnedProcess::spawn(command, output)?;
    let began = Instant::now();
    let status = loop {
        match process.exit_status() {
            Some(status) => break status,
            None if began.elapsed() > PATIENCE => bail!("{} takes too long", command[0]),
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    };
    let said = std::fs::read(output).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(status.success(), "{} ended with {status}: {}", command[0], said.trim());
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topics_counters_are_found_among_others() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# TYPE logway_topic_messages_in counter\n\
                    logway_topic_messages_in_total{topic=\"other\"} 7\n\
                    logway_topic_messages_in_total{topic=\"t\"} 250\n# EOF\n";
        let topic = |name| TopicName::new(name).expect("a name");
        let name = "logway_topic_messages_in_total";
        assert_eq!(counter(text, name, &topic("t")).expect("a number"), 250.0);
        assert_eq!(counter(text, name, &topic("new")).expect("nothing yet"), 0.0);
        assert!(counter(text, "logway_topic_bytes_in_total", &topic("t")).is_err());
    }

    #[test]
    fn a_rate_is_over_the_time_between_two_counts() {
        let at = Instant::now();
        let first = Count { at, messages: 100.0, bytes: 1000.0 };
        let later = Count { at: at + Duration::from_secs(2), messages: 300.0, bytes: 5000.0 };
        let rate = CountedRate { messages_per_second: 100.0, bytes_per_second: 2000.0 };
        assert_eq!(first.until(later), rate);
    }

    #[tokio::test]
    async fn counters_at_both_ends_of_a_window_make_a_rate() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("an address");
        let port = listener.local_addr().expect("it listens").port();
        // Each time it is asked, it has counted 1000 messages of 10 bytes more.
        let broker = tokio::spawn(async move {
            for asked in 1..=2 {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).await.expect("a request") > 0);
                let [messages, bytes] = [1000 * asked, 10_000 * asked];
                let answer = format!(
                    "HTTP/1.0 200 OK\r\n\r\n\
                     logway_topic_messages_in_total{{topic=\"t\"}} {messages}\n\
                     logway_topic_bytes_in_total{{topic=\"t\"}} {bytes}\n"
                );
                stream.write_all(answer.as_bytes()).await.expect("is read");
            }
        });
        let window = Window::starting_now(Duration::ZERO, Duration::from_millis(100));
        let topic = TopicName::new("t").expect("a name");
        let address = BrokerAddress::new("127.0.0.1", port);
        let rates = counted(&address, &topic, window).await.expect("it answers");
        broker.await.expect("it was asked twice");
        let measured = rates.measured.expect("two counts");
        // A busy machine takes longer than the window, and never less.
        assert!((1.0..=11_000.0).contains(&measured.messages_per_second), "{measured:?}");
        let bytes_in_message = measured.bytes_per_second / measured.messages_per_second;
        assert!((bytes_in_message - 10.0).abs() < 1e-6, "{measured:?}");
        assert_eq!(rates.last_minute, None);
    }

    #[test]
    fn a_moving_average_forgets_slowly() {
        let percent = |seconds| (100.0 * share_from_before(Duration::from_secs(seconds))).round();
        assert_eq!([60, 300, 600].map(percent), [37.0, 1.0, 0.0]);
    }

    #[test]
    fn jmx_is_for_this_machine_and_its_answer_is_read() {
        assert!(agent(7).contains(&"jmxremote.host=127.0.0.1".to_owned()));
        assert!(agent(7).contains(&"jmxremote.rmi.port=7".to_owned()));
        let answer = format!("Trying to connect to JMX url\n{}:OneMinuteRate=99.5\n", METERS[0]);
        assert_eq!(one_minute_rate(&answer, METERS[0]).expect("a number"), 99.5);
        assert!(one_minute_rate(&answer, METERS[1]).is_err());
    }

    #[tokio::test]
    async fn what_a_command_prints_is_its_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let output = directory.path().join("said");
        let echo = |text: &str| ["echo".to_owned(), text.to_owned()];
        for text in ["first", "second"] {
            let said = say(&echo(text), &output).await.expect("it ends");
            assert_eq!(said.trim(), text);
        }
        assert!(say(&["false".to_owned()], &output).await.is_err());
    }
}
