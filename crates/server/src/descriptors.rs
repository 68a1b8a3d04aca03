//! How many files and connections the process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Each connection and each active segment is a descriptor: take as many as we may.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}
