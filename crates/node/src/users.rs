//! Checking passwords, which takes a processor for milliseconds each.

use tokio::sync::Semaphore;

use crate::Node;

/// Passwords that are hashed at the same time. All who say who they are at once take this much of the machine.
const CHECKS_MAX: usize = 1;

/// Whose turn it is to have a password checked.
#[derive(Debug)]
pub(crate) struct PasswordTurns(Semaphore);

impl Default for PasswordTurns {
    fn default() -> PasswordTurns {
        PasswordTurns(Semaphore::new(CHECKS_MAX))
    }
}

impl Node {
    /// Does work that hashes a password, one after the other and where no connection waits for it.
    pub async fn check_password<T>(&self, work: impl FnOnce() -> T) -> T {
        // It is never closed.
        let _turn = self.password_turns.0.acquire().await;
        crate::tasks::off_worker(work)
    }
}
