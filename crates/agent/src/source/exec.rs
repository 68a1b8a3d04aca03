//! The source `exec`: the lines that a command writes.

use std::process::{Command, Stdio};

use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, timeout_at};

use super::command::{RunningCommand, log_errors};
use super::{Running, SourceContext, Starting};
use crate::codec::lines::{Line, LineReader};
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::event::Event;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "exec",
    aliases: &["org.apache.flume.source.ExecSource"],
    doc: "Runs a command and makes an event of each line that it writes. While channels are full, nothing is read from \
          it, so that it waits. What the command has written and the agent has not read is lost when either ends: for \
          files, use `taildir`. At the end of the agent, or of the command, all that it has started is told to end, and \
          killed after 2 s.",
    keys: &[
        key("command", Kind::Text, Fallback::Required, "The command, with its arguments."),
        key(
            "shell",
            Kind::Text,
            Fallback::Nothing,
            "A shell to run it with, such as `/bin/sh -c`.",
        ),
        key(
            "restart",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether it is run again when it has ended.",
        ),
        key(
            "restartThrottle",
            Kind::Number(0, i64::MAX, "ms"),
            Fallback::Is("10000"),
            "How long to wait before that.",
        ),
        key(
            "logStdErr",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether what it writes to stderr is logged.",
        ),
        key(
            "batchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("20"),
            "How many lines go into channels at once.",
        ),
        key(
            "batchTimeout",
            Kind::Number(0, i64::MAX, "ms"),
            Fallback::Is("3000"),
            "How long fewer wait for more.",
        ),
        key(
            "charset",
            Kind::Only(&["UTF-8"], "bodies are the bytes that were written"),
            Fallback::Is("UTF-8"),
            "How lines are written.",
        ),
        key(
            "maxLineLength",
            Kind::Number(16, 1 << 30, "bytes"),
            Fallback::Is("1048576"),
            "How long a line may be. A longer one becomes several events.",
        ),
    ],
    shared: &[],
};

pub(crate) fn start(context: SourceContext) -> Starting {
    Box::pin(async move {
        let child = spawn(&context)?;
        Ok(Box::pin(run(context, child)) as Running)
    })
}

fn spawn(context: &SourceContext) -> Result<RunningCommand, String> {
    let settings = &context.settings;
    let text = settings.required("command").trim();
    let mut words: Vec<&str> =
        settings.text("shell").unwrap_or_default().split_whitespace().collect();
    match words.is_empty() {
        true => words = text.split_whitespace().collect(),
        false => words.push(text),
    }
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
    let logs = settings.flag("logStdErr");
    command.stderr(if logs { Stdio::piped() } else { Stdio::null() });
    // Arguments may be secrets.
    RunningCommand::spawn(command).map_err(|error| format!("cannot run '{}': {error}", words[0]))
}

async fn run(context: SourceContext, first: RunningCommand) {
    let mut next = Some(first);
    loop {
        let child = match next.take() {
            Some(child) => Ok(child),
            None => spawn(&context),
        };
        match child {
            Ok(mut child) => {
                let errors = child
                    .stderr
                    .take()
                    .map(|stderr| tokio::spawn(log_errors(context.clone(), stderr)));
                let stdout = child.stdout.take().expect("it was asked for");
                let mut is_end = read_lines(&context, stdout).await;
                if !is_end {
                    is_end = tokio::select! {
                        () = context.stop.wait() => true,
                        _ = child.wait() => false,
                    };
                }
                let status = child
                    .end()
                    .await
                    .map_or_else(|error| error.to_string(), |status| status.to_string());
                if is_end {
                    return;
                }
                tracing::info!(source = context.delivery.source(), status, "the command has ended");
                if let Some(errors) = errors {
                    errors.abort();
                }
            }
            Err(error) => tracing::error!(source = context.delivery.source(), error),
        }
        if !context.settings.flag("restart") {
            return context.stop.wait().await;
        }
        if context.stop.sleep(context.settings.millis("restartThrottle")).await {
            return;
        }
    }
}

/// Reads until the command or the agent ends; `true` for the agent.
async fn read_lines(context: &SourceContext, stdout: Receiver) -> bool {
    let settings = &context.settings;
    let (batch_max, patience) = (settings.size("batchSize"), settings.millis("batchTimeout"));
    let mut lines = LineReader::new(stdout, settings.size("maxLineLength"));
    loop {
        let mut events: Vec<Event> = Vec::new();
        let mut is_over = false;
        let mut until = Instant::now() + std::time::Duration::from_secs(86_400 * 365);
        while events.len() < batch_max {
            let line = tokio::select! {
                () = context.stop.wait() => break,
                line = timeout_at(until, lines.next()) => line,
            };
            match line {
                Err(_) => break,
                Ok(Ok(Some(Line::Whole(line) | Line::TooLong(line)))) => {
                    if events.is_empty() {
                        until = Instant::now() + patience;
                    }
                    events.push(Event::new(line));
                }
                Ok(Ok(None) | Err(_)) => {
                    is_over = true;
                    break;
                }
            }
        }
        if !events.is_empty() {
            context.delivery.insist_or_drop(events, &context.stop).await;
        }
        if context.stop.is_set() {
            return true;
        }
        if is_over {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use rustix::process::{Pid, test_kill_process};

    use super::*;
    use crate::agent::RunningAgent;
    use crate::counters::Registry;
    use crate::tests::toml;

    async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < deadline, "waited for {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn text(more: &str, capacity: usize) -> String {
        format!(
            "[sources.r]\ntype = 'exec'\nchannels = ['c']\n{more}\n\
             [channels.c]\ntype = 'memory'\ncapacity = {capacity}\ntransactionCapacity = 20\n'keep-alive' = 600\n"
        )
    }

    async fn start(text: &str) -> (RunningAgent, Registry) {
        let registry = Registry::default();
        let config = toml(text).expect("makes sense");
        let started = RunningAgent::start(config, &registry).await;
        (started.expect("starts"), registry)
    }

    fn pids(path: &Path) -> Vec<Pid> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines
            .map(|line| Pid::from_raw(line.trim().parse().expect("is one")).expect("is one"))
            .collect()
    }

    /// Whether a process runs; one that has ended and that nobody has waited for does not.
    fn runs(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        let state = stat.ok().and_then(|stat| stat.rsplit(") ").next()?.chars().next());
        test_kill_process(pid).is_ok() && state.is_some_and(|state| state != 'Z')
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_command_has_started_ends_with_it() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("pids");
        // One child ends when it is told to, one does not care.
        let command = format!(
            "sleep 987 & echo $! >> {0}; (trap \"\" TERM; echo begun; while true; do sleep 987; done) & echo $! >> {0}; wait",
            path.display()
        );
        let keys = format!("shell = '/bin/sh -c'\ncommand = '{command}'\nbatchTimeout = 0");
        let (mut agent, registry) = start(&text(&keys, 100)).await;
        // The trap is set when its shell has written.
        wait_for("the children", || {
            registry.json()["SOURCE.r"]["EventAcceptedCount"] == "1" && pids(&path).len() == 2
        })
        .await;
        let started = pids(&path);
        assert!(started.iter().all(|pid| runs(*pid)));
        agent.end_sources().await;
        wait_for("their end", || !started.iter().any(|pid| runs(*pid))).await;

        // Dropped as by a kill, nobody is left either.
        std::fs::remove_file(&path).expect("is there");
        let (agent, _) = start(&text(&keys, 100)).await;
        wait_for("the children", || pids(&path).len() == 2).await;
        let started = pids(&path);
        drop(agent);
        wait_for("their end", || !started.iter().any(|pid| runs(*pid))).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_command_that_cannot_be_run_is_named_without_its_arguments() {
        let config = toml(&text("command = '/no/such/program --password SECRET'", 100));
        let config = config.expect("makes sense");
        let started = RunningAgent::start(config, &Registry::default()).await;
        let error = started.map(drop).expect_err("cannot be run").to_string();
        assert!(error.contains("cannot run '/no/such/program': No such file"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lines_in_hand_when_a_source_is_cut_off_are_counted() {
        let (agent, registry) = start(&text("command = 'seq 1000'", 20)).await;
        // The first batch is in the channel, the second waits for room.
        wait_for("two batches", || registry.json()["SOURCE.r"]["EventReceivedCount"] == "40").await;
        drop(agent);
        wait_for("the count", || registry.json()["SOURCE.r"]["EventDroppedCount"] == "20").await;
        assert_eq!(registry.json()["SOURCE.r"]["EventAcceptedCount"], "20");
    }
}
