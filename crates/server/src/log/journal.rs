//! What systemd's journal expects of a service that writes to stderr.
//!
//! A line may begin with its priority, as `<3>` (`sd-daemon(3)`, from syslog's levels). The journal adds
//! the time. `JOURNAL_STREAM` names the device and inode that the journal gave the service for its
//! output (`systemd.exec(5)`); who compares them with those of stderr knows whether it was sent elsewhere.

use std::io;

use rustix::fs::fstat;
use tracing::Level;

/// What a line begins with.
pub(super) fn priority(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

/// Whether what is written to stderr goes to the journal.
pub(super) fn is_stderr() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(io::stderr()).is_ok_and(|stderr| names(&named, stderr.st_dev, stderr.st_ino))
}

/// Whether `DEVICE:INODE` is that file.
fn names(named: &str, device: u64, inode: u64) -> bool {
    let parts = named.split_once(':');
    let parts = parts.and_then(|(dev, ino)| Some((dev.parse().ok()?, ino.parse().ok()?)));
    parts == Some((device, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        assert!(names("8:123", 8, 123));
        for other in ["8:124", "9:123", "8", "", ":", "8:123:1", "x:123", "-8:123"] {
            assert!(!names(other, 8, 123), "{other}");
        }
    }
}
