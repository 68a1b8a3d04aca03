//! Who wants to know that a log directory cannot be relied on any more.

use std::sync::Arc;

use crate::LogError;

/// Called each time something happens after which nobody can rely on a log directory: a write or a
/// sync failed and nobody knows what is on the disk, or the writer has panicked.
///
/// It is called on the threads of the log directory and must not wait.
pub type FailureListener = Arc<dyn Fn(&LogError) + Send + Sync>;
