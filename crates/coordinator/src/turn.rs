//! One event's way through the shard.

use crate::moment::Moment;
use crate::outbox::{Outbox, Then};
use crate::record::GroupRecord;
use crate::request::{Reply, RequestToken};
use crate::settings::GroupSettings;
use crate::timers::{Timer, Timers};

/// What the handling of an event can use beside the groups themselves.
pub(crate) struct Turn<'a> {
    pub(crate) now: Moment,
    pub(crate) settings: &'a GroupSettings,
    pub(crate) timers: &'a mut Timers,
    pub(crate) outbox: &'a mut Outbox,
}

impl Turn<'_> {
    /// Sets or moves a deadline, so much from now.
    pub(crate) fn set_timer(&mut self, timer: Timer, delay_ms: u64) {
        self.timers.set(timer, self.now.elapsed.after_ms(delay_ms));
    }

    /// Answers a request.
    pub(crate) fn reply(&mut self, token: RequestToken, reply: Reply) {
        self.outbox.reply(token, reply);
    }

    /// Sends records to the log.
    pub(crate) fn append(&mut self, records: Vec<GroupRecord>, then: Option<Then>) {
        self.outbox.append(records, then);
    }

    /// Sends many records to the log that need not be there together, then replies.
    ///
    /// The reply tells of a failure if any of them failed.
    pub(crate) fn append_in_parts(
        &mut self,
        mut records: Vec<GroupRecord>,
        reply: Option<(RequestToken, Reply)>,
    ) {
        let part_records = self.settings.append_records_max.max(1);
        while records.len() > part_records {
            let rest = records.split_off(part_records);
            let fail_later = reply.as_ref().map(|(token, _)| Then::FailLater(*token));
            self.append(std::mem::replace(&mut records, rest), fail_later);
        }
        let reply = reply.map(|(token, reply)| Then::Reply(token, reply));
        match (records.is_empty(), reply) {
            (false, reply) => self.append(records, reply),
            (true, Some(Then::Reply(token, reply))) => self.reply(token, reply),
            (true, _) => {}
        }
    }
}
