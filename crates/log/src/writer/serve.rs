//! Doing what is asked of one log.

use logway_model::{LeaderEpoch, Offset};

use super::Writer;
use super::log_request::LogRequest;
use crate::completion::Completer;
use crate::log_state::LogKey;

impl Writer {
    /// Does what is asked of a log, unless that has to wait.
    pub(super) fn serve(&mut self, key: LogKey, request: LogRequest) {
        let Some(request) = self.hold_while_truncating(key, request) else { return };
        match request {
            LogRequest::Flush { done } => self.flush(key, done),
            LogRequest::DeleteRecords { before, done } => self.delete_records(key, before, done),
            LogRequest::TellEnd { done } => {
                if let Some(tail) = self.tails.get(&key) {
                    done.complete(Ok(tail.view.end.offset));
                }
            }
            LogRequest::BeginLeading { epoch, done } => self.begin_leading(key, epoch, done),
            LogRequest::DescribeProducers { done } => {
                if let Some(tail) = self.tails.get(&key) {
                    let producers = tail.producers.iter().map(|(id, known)| (id, *known));
                    done.complete(Ok(producers.collect()));
                }
            }
            LogRequest::LastWrites { done } => {
                if let Some(tail) = self.tails.get(&key) {
                    done.complete(Ok(tail.last_writes()));
                }
            }
            LogRequest::Replace { segments, size_bytes, done } => {
                self.replace_segments(key, segments, size_bytes, done);
            }
            LogRequest::RollIfOld => self.roll_if_old(key),
        }
    }

    fn flush(&mut self, key: LogKey, done: Completer<Offset>) {
        self.sync(vec![key]);
        self.note_lag(key);
        let Some(tail) = self.tails.get(&key) else { return };
        done.complete(match tail.poisoned().or_else(|| tail.delayed()) {
            Some(error) => Err(error),
            None => Ok(tail.view.flushed.offset),
        });
    }

    /// Notes where the epoch of a new leader starts, unless it is over; tells the log end.
    fn begin_leading(&mut self, key: LogKey, epoch: LeaderEpoch, done: Completer<Offset>) {
        let Some(tail) = self.tails.get_mut(&key) else { return };
        let end = tail.view.end.offset;
        let is_news = tail.view.epochs.latest().is_none_or(|latest| latest.epoch < epoch);
        if is_news && tail.check_epoch(epoch).is_ok() {
            tail.note_epoch(epoch, end);
            tail.is_unpublished = true;
            tail.publish();
        }
        done.complete(Ok(end));
    }

    fn delete_records(&mut self, key: LogKey, before: Offset, done: Completer<Offset>) {
        // A log start behind the end that a crash leaves would not be believed.
        if self.tails.get(&key).is_some_and(|tail| tail.synced.offset < before) {
            self.sync(vec![key]);
            self.note_lag(key);
        }
        let Some(tail) = self.tails.get_mut(&key) else { return };
        self.round.config = tail.log.config();
        match tail.delete_records(before, &mut self.round) {
            Ok(segments) => {
                tail.publish();
                let delay = tail.log.config().file_delete_delay();
                self.deleted.extend(segments.into_iter().map(|segment| (segment, delay)));
                let log_start = tail.view.log_start;
                let then = move |result: Result<(), _>| done.complete(result.map(|()| log_start));
                self.checkpoint_waiting.push(Box::new(then));
            }
            Err(error) => done.complete(Err(error)),
        }
    }
}
