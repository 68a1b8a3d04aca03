//! Paths that headers of events are part of.

use std::collections::BTreeMap;

use crate::channel::Taken;
use crate::error::{Partly, SinkError};
use crate::event::Event;

/// The events of a batch by the path that each has, by their place in the batch.
///
/// # Errors
///
/// Those that have none, each with the reason. The rest comes again without them.
pub(super) fn sorted(
    batch: &Taken,
    path: impl Fn(&Event) -> Result<String, String>,
) -> Result<BTreeMap<String, Vec<usize>>, SinkError> {
    let mut sorted: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut refused = Vec::new();
    for (index, event) in batch.events.iter().enumerate() {
        match path(event) {
            Ok(path) => sorted.entry(path).or_default().push(index),
            Err(reason) => refused.push((index, reason)),
        }
    }
    match refused.is_empty() {
        true => Ok(sorted),
        false => Err(SinkError::Partly(Partly { refused, ..Partly::default() })),
    }
}

/// A path without parts that are empty, with a slash at its end. Headers are not to lead elsewhere.
///
/// # Errors
///
/// Why it is no path.
pub(super) fn directory(path: &str, is_absolute: bool, bytes_max: usize) -> Result<String, String> {
    let parts = || path.split('/').filter(|part| !part.is_empty());
    if parts().any(|part| part == "." || part == "..") || path.chars().any(char::is_control) {
        return Err(format!("'{}' is no path for objects", path.escape_debug()));
    }
    let mut directory = String::from(if is_absolute { "/" } else { "" });
    parts().for_each(|part| directory.extend([part, "/"]));
    // A part of a path is a file's name in directories.
    if directory.len() > bytes_max || parts().any(|part| part.len() > 255) {
        return Err(format!("the path of {} bytes is too long for objects", directory.len()));
    }
    Ok(directory)
}
