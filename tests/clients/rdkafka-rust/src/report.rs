//! Runs cases and prints the lines that tests/clients/cases.toml describes.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;

pub const DEADLINE: Duration = Duration::from_secs(20);

/// Counts what has passed and failed; skips count as neither.
#[derive(Default)]
pub struct Report {
    passed: usize,
    failed: usize,
}

pub enum Failure {
    /// A fact about the crate, by which it cannot do the case.
    Skip(&'static str),
    Wrong(String),
}

pub type Outcome = Result<(), Failure>;

pub const NO_SUCH_CALL: Outcome = Err(Failure::Skip("no such call"));

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Failure::Wrong(format!("{error:?}"))
    }
}

impl Report {
    /// Runs a case; a failed assertion within it fails it alone.
    pub fn case(&mut self, id: &str, body: impl FnOnce() -> Outcome) {
        let began = Instant::now();
        let default_hook = take_hook();
        set_hook(Box::new(|_| {}));
        let outcome = catch_unwind(AssertUnwindSafe(body));
        set_hook(default_hook);
        let reason = match outcome {
            Ok(Ok(())) => {
                self.passed += 1;
                println!("case {id} pass ({:.2} s)", began.elapsed().as_secs_f64());
                return;
            }
            Ok(Err(Failure::Skip(reason))) => {
                println!("case {id} skip: {reason}");
                return;
            }
            Ok(Err(Failure::Wrong(reason))) => reason,
            Err(panic) => match panic.downcast::<String>() {
                Ok(message) => *message,
                Err(panic) => panic.downcast_ref::<&str>().unwrap_or(&"panicked").to_string(),
            },
        };
        self.failed += 1;
        println!("case {id} fail: {}", reason.split_whitespace().collect::<Vec<_>>().join(" "));
    }

    pub fn finish(&self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 && self.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Asks until the condition holds; panics with what `what` says if it does not within the deadline.
pub fn wait_until(
    deadline: Duration,
    mut condition: impl FnMut() -> bool,
    what: impl Fn() -> String,
) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < deadline, "waited {} s for {}", deadline.as_secs(), what());
        sleep(Duration::from_millis(10));
    }
}
