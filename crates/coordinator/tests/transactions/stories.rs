//! Golden transcripts: what clients see, and what the log holds.

use insta::assert_snapshot;
use logway_coordinator::transactions::TransactionOutcome::{Abort, Commit};
use logway_model::ErrorCode;

use crate::story::{CLASSIC, Story, TIMEOUT_MS, V2};

#[test]
fn one_transaction_after_the_other() {
    let mut story = Story::new();
    story.note("a producer begins, and writes to two topics");
    story.init("a", "t");
    story.add("a", "t", "x-0", V2);
    story.add("a", "t", "x-0 y-1", V2);
    story.verify("a", "t", "x-0 z-0");
    story.note("it commits, and is told before the markers are written");
    story.end("a", "t", Commit, V2);
    story.note("the next transaction waits for them");
    story.add("a", "t", "x-0", V2);
    story.write_markers();
    story.add("a", "t", "x-0", V2);
    story.end("a", "t", Abort, V2);
    story.write_markers();
    story.note("an abort of nothing raises the epoch");
    story.end("a", "t", Abort, V2);
    story.note("there is no commit of nothing");
    story.end("a", "t", Commit, V2);
    story.no_markers();
    assert_snapshot!(story.text());
}

#[test]
fn an_end_that_is_sent_again_is_known() {
    let mut story = Story::new();
    story.init("a", "t");
    story.add("a", "t", "x-0", V2);
    story.end("a", "t", Commit, V2);
    story.note("the reply was lost: it sends the same again, before and after the markers");
    story.pretend("a", 1000, 0);
    story.end("a", "t", Commit, V2);
    story.write_markers();
    story.end("a", "t", Commit, V2);
    story.note("what was committed is not aborted");
    story.pretend("a", 1000, 0);
    story.end("a", "t", Abort, V2);
    story.note("the next transaction has the next epoch; the old one is over");
    story.pretend("a", 1000, 1);
    story.add("a", "t", "x-0", V2);
    story.pretend("old", 1000, 0);
    story.end("old", "t", Commit, V2);
    story.add("old", "t", "x-0", V2);
    story.verify("old", "t", "x-0");
    assert_snapshot!(story.text());
}

#[test]
fn another_producer_of_the_same_id_fences_the_first() {
    let mut story = Story::new();
    story.init("a", "t");
    story.add("a", "t", "x-0 x-1", V2);
    story.note("the second one aborts what the first one has begun, and waits for that");
    story.init("b", "t");
    story.init("b", "t");
    story.add("a", "t", "x-2", V2);
    story.end("a", "t", Commit, V2);
    story.write_markers();
    story.init("b", "t");
    story.note("the first one can do nothing more");
    story.add("a", "t", "x-0", V2);
    story.end("a", "t", Abort, V2);
    story.init_again("a", "t");
    story.note("another id is of no concern");
    story.init("c", "u");
    story.add("a", "u", "x-0", V2);
    story.end("a", "nobody", Abort, V2);
    assert_snapshot!(story.text());
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted() {
    let timeout_ms = u64::try_from(TIMEOUT_MS).expect("a time");
    let mut story = Story::new();
    story.init("a", "t");
    story.wait_ms(timeout_ms);
    story.note("the time counts from the first partition");
    story.add("a", "t", "x-0", V2);
    story.wait_ms(timeout_ms / 2);
    story.add("a", "t", "x-1", V2);
    story.note("the coordinator moves: the rest of the time is left");
    story.crash();
    story.wait_ms(timeout_ms / 2 - 1);
    story.wait_ms(1);
    story.note("the client commits, too late");
    story.end("a", "t", Commit, V2);
    story.write_markers();
    story.end("a", "t", Commit, V2);
    story.note("its abort is the one that was made, and it goes on");
    story.end("a", "t", Abort, V2);
    story.add("a", "t", "x-0", V2);
    story.note("a log that refuses the abort is asked again");
    story.wait_only_ms(timeout_ms);
    story.fail(ErrorCode::NotEnoughReplicas);
    story.wait_ms(1_000);
    assert_snapshot!(story.text());
}

#[test]
fn markers_are_ordered_again_after_a_crash() {
    let mut story = Story::new();
    story.init("a", "t");
    story.add("a", "t", "x-0", V2);
    story.end("a", "t", Commit, V2);
    story.note("nobody knows whether the markers were written");
    story.crash();
    story.pretend("a", 1000, 0);
    story.end("a", "t", Commit, V2);
    story.write_markers();
    story.crash();
    story.end("a", "t", Commit, V2);
    story.no_markers();
    story.note("what is not durable did not happen");
    story.add("a", "t", "x-0", V2);
    story.crash();
    story.verify("a", "t", "x-0");
    assert_snapshot!(story.text());
}

#[test]
fn who_comes_while_a_record_is_on_its_way_comes_again() {
    use logway_coordinator::transactions::TransactionRequest;

    let mut story = Story::new();
    story.init("a", "t");
    story.note("a partition is on its way into the log");
    let producer = story.knows("t").expect("there is one").producer;
    let add = |name: &str| TransactionRequest::AddPartitions {
        transactional_id: "t".into(),
        producer,
        partitions: vec![crate::story::partition(name)],
        version: V2,
    };
    let first = story.driver.ask(add("x-0"));
    let second = story.driver.ask(add("x-1"));
    assert_eq!(story.driver.take_reply(first), None);
    let refused = story.driver.take_reply(second);
    story.note(&format!("the second is told {refused:?}"));
    story.fail(ErrorCode::NotEnoughReplicas);
    let failed = story.driver.take_reply(first);
    story.note(&format!("the first is told {failed:?}"));
    story.verify("a", "t", "x-0");
    assert_snapshot!(story.text());
}

#[test]
fn epochs_that_are_used_up_give_way_to_another_id() {
    let mut story = Story::new();
    use_up_epochs(&mut story);
    story.add("a", "t", "x-0", V2);
    story.end("a", "t", Commit, V2);
    story.note("the markers are of the old id; the client is the new one already, and is early");
    story.add("a", "t", "x-0", V2);
    story.end("a", "t", Abort, V2);
    story.init_again("a", "t");
    story.write_markers();
    story.note("it did not hear: it is known by the id and the epoch before");
    story.pretend("late", 1000, i16::MAX - 1);
    story.end("late", "t", Commit, V2);
    story.add("a", "t", "x-0", V2);
    story.pretend("late", 1000, i16::MAX - 1);
    story.end("late", "t", Commit, V2);
    assert_snapshot!(story.text());
}

#[test]
fn the_epoch_of_the_last_fence_is_given_to_nobody() {
    let mut story = Story::new();
    use_up_epochs(&mut story);
    story.add("a", "t", "x-0", V2);
    story.note("it takes too long, and is fenced by the last epoch that there is");
    story.wait_ms(u64::try_from(TIMEOUT_MS).expect("a time"));
    story.write_markers();
    story.note("who guesses that epoch is nobody");
    story.pretend("thief", 1000, i16::MAX);
    story.add("thief", "t", "x-0", V2);
    story.verify("thief", "t", "x-0");
    story.note("the client aborts what was aborted, and goes on under another id");
    story.end("a", "t", Abort, V2);
    story.note("it did not hear that");
    story.pretend("late", 1000, i16::MAX - 1);
    story.end("late", "t", Abort, V2);
    story.crash();
    story.add("a", "t", "x-0", V2);
    story.end("a", "t", Commit, V2);
    story.write_markers();
    assert_snapshot!(story.text());
}

/// Begins `t` as `a`, which gets the last epoch that a client can have.
fn use_up_epochs(story: &mut Story) {
    story.init("a", "t");
    // Each abort of nothing takes one epoch.
    for _ in 0..i16::MAX - 1 {
        let producer = story.knows("t").expect("there is one").producer;
        let token =
            story.driver.ask(logway_coordinator::transactions::TransactionRequest::EndTxn {
                transactional_id: "t".into(),
                producer,
                outcome: Abort,
                version: V2,
                fresh_id: None,
            });
        while !story.driver.in_flight.is_empty() {
            story.driver.settle(Ok(()));
        }
        assert!(story.driver.take_reply(token).is_some());
    }
    story.note("the last epoch that a client can have");
    story.pretend("a", 1000, i16::MAX - 1);
}

#[test]
fn clients_of_the_older_protocol_keep_their_epoch() {
    let mut story = Story::new();
    story.init("a", "t");
    story.add("a", "t", "x-0", CLASSIC);
    story.end("a", "t", Commit, CLASSIC);
    story.end("a", "t", Commit, CLASSIC);
    story.end("a", "t", Abort, CLASSIC);
    story.write_markers();
    story.note("sent again, it is done already; the other end is refused");
    story.end("a", "t", Commit, CLASSIC);
    story.end("a", "t", Abort, CLASSIC);
    story.note("an error: the client raises its epoch, and sends that again");
    story.init_again("a", "t");
    story.pretend("a", 1000, 0);
    story.init_again("a", "t");
    story.note("one that is neither the producer nor the one before is fenced");
    story.pretend("old", 1000, 7);
    story.init_again("old", "t");
    story.note("a transaction of nothing cannot end");
    story.end("a", "t", Abort, CLASSIC);
    assert_snapshot!(story.text());
}

/// The epoch before the present one is that of a producer that was replaced, and not that of the last transaction.
#[test]
fn an_end_of_the_older_protocol_is_nobody_elses_end_sent_again() {
    let mut story = Story::new();
    story.init("newer", "id");
    story.init("older", "id");
    story.add("older", "id", "t-0", CLASSIC);
    story.end("older", "id", Commit, CLASSIC);
    story.note("the first one is told that it was replaced, now and when the markers are written");
    story.end("newer", "id", Commit, V2);
    story.write_markers();
    story.end("newer", "id", Commit, V2);
    story.end("newer", "id", Abort, V2);
    assert_snapshot!(story.text());
}

#[test]
fn ids_that_nobody_uses_are_forgotten() {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    let mut story = Story::new();
    story.init("a", "idle");
    story.init("b", "busy");
    story.wait_ms(4 * DAY_MS);
    story.init("b", "busy");
    story.wait_ms(3 * DAY_MS);
    story.note("the next one of that name is another producer");
    story.init("a", "idle");
    story.crash();
    assert_snapshot!(story.text());
}
