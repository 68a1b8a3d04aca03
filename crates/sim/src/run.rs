//! One world, from beginning to end.

use std::any::Any;
use std::thread;

use crate::mutation::{DRIVER, Mutation};
use crate::report::Report;
use crate::violation::Violation;
use crate::world::World;

/// Lives the world of a seed, in which a mutation is in force if there is one.
///
/// Worlds of one process live one after the other, whoever calls this.
///
/// # Errors
///
/// The promise that was broken. The same seed breaks it again.
pub fn run(seed: u64, mutation: Option<&'static Mutation>) -> Result<Report, Violation> {
    // Under a name that the mutations know, whoever asks.
    let world = thread::Builder::new()
        .name(DRIVER.to_owned())
        .spawn(move || World::new(seed, mutation).run())
        .map_err(|error| Violation::new(format!("a thread cannot be started: {error}")))?;
    let outcome = world.join().map_err(|panic| {
        Violation::new(format!("the engine or the oracle has panicked: {}", text_of(&*panic)))
    });
    outcome.flatten().map_err(|violation| Violation::new(format!("seed {seed}, {violation}")))
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}
