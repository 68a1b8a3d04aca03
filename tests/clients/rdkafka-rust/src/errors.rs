//! What the crate's user is told when something is wrong.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::admin::{delete_group, delete_topic};
use crate::broker::{
    assigned, consume, create_topic, fresh, produce, producer, read, send, try_create_topic,
};
use crate::group::commit_unjoined;
use crate::member::Member;
use crate::record::{Record, numbered};
use crate::report::{NO_SUCH_CALL, Outcome, Report};

const TOO_LARGE_BYTES: usize = 1_100_000;

pub fn cases(report: &mut Report) {
    report.case("error-unknown-topic", unknown_topic);
    report.case("error-too-large", too_large);
    report.case("error-offset-out-of-range", out_of_range);
    report.case("error-topic-exists", topic_exists);
    report.case("error-invalid-config", invalid_config);
    report.case("error-wrong-epoch", || NO_SUCH_CALL);
    report.case("error-unknown-group", unknown_group);
    report.case("error-stale-member", stale_member);
}

fn unknown_topic() -> Outcome {
    assert_eq!(delete_topic(&fresh("missing"))?, Err(RDKafkaErrorCode::UnknownTopicOrPartition));
    Ok(())
}

fn too_large() -> Outcome {
    let topic = create_topic("too-large", 1, &[]);
    let producer = producer(&[("message.max.bytes", "2000000")]);
    let refused = send(&producer, &topic, 0, &[Record::of_value(vec![b'x'; TOO_LARGE_BYTES])]);
    assert_eq!(refused, Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge)));
    assert_eq!(send(&producer, &topic, 0, &numbered(0..1))?, [0]);
    assert_eq!(consume(&topic, 1)?[0].number(), 0);
    Ok(())
}

fn out_of_range() -> Outcome {
    let topic = create_topic("out-of-range", 1, &[]);
    produce(&topic, 0, &numbered(0..1));
    let refused = read(&assigned(&topic, &[(0, 1_000)], &[]), 1);
    // librdkafka's own code, by which it says that the broker did not have the offset.
    assert_eq!(refused, Err(KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset)));
    Ok(())
}

fn topic_exists() -> Outcome {
    let topic = create_topic("taken", 1, &[]);
    assert_eq!(try_create_topic(&topic, 1, &[]), Err(RDKafkaErrorCode::TopicAlreadyExists));
    Ok(())
}

fn invalid_config() -> Outcome {
    // The crate drops the message, which names the setting.
    let refused = try_create_topic(&fresh("odd"), 1, &[("no.such.setting", "1")]);
    assert_eq!(refused, Err(RDKafkaErrorCode::InvalidConfig));
    Ok(())
}

fn unknown_group() -> Outcome {
    assert_eq!(delete_group(&fresh("missing"))?, Err(RDKafkaErrorCode::GroupIdNotFound));
    Ok(())
}

/// Whoever commits without being a member is refused as long as the group has members.
fn stale_member() -> Outcome {
    let (topic, group) = (create_topic("stale", 1, &[]), fresh("stale"));
    let member = Member::join(&group, &topic, &[]);
    member.wait_for_partitions(1);
    let refused = commit_unjoined(&group, &topic, 0, 0, "");
    assert_eq!(refused, Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownMemberId)));
    Ok(())
}
