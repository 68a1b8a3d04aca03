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
          files, use `taildir`.",
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
    RunningCommand::spawn(command).map_err(|error| format!("cannot run '{text}': {error}"))
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
                if read_lines(&context, stdout).await {
                    return;
                }
                let waited = tokio::select! {
                    () = context.stop.wait() => return,
                    waited = child.wait() => waited,
                };
                let status =
                    waited.map_or_else(|error| error.to_string(), |status| status.to_string());
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
