//! The storage engine as its users see it: appends, reads, crashes, faults.

mod appends;
mod claims;
mod closing;
mod compaction;
mod concurrency;
mod crashes;
mod deletion;
mod directory_syncs;
mod epochs;
mod faults;
mod following;
mod full_disk;
mod inline_rounds;
mod inspection;
mod journal;
mod losses;
mod oracle;
mod places;
mod producers;
mod reopening;
mod repair;
mod same_cache;
mod support;
mod synced_later;
mod timestamps;
mod unopened;
