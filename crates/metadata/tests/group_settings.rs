//! What a group can be given.

use logway_metadata::MetadataImage;
use logway_metadata::controller::{AlterConfigs, Command, ResourceConfigs};
use logway_metadata::record::{ConfigRecord, ConfigResource, MetadataRecord};
use logway_metadata::settings::BrokerSettings;
use logway_model::ErrorCode::InvalidConfig;

fn group() -> ConfigResource {
    ConfigResource::Group("g".to_owned())
}

/// Why a group that has some settings is refused others in their place, if it is.
fn refusal(broker: &BrokerSettings, present: &[(&str, &str)], wanted: &[(&str, &str)]) -> String {
    let record = |&(name, value): &(&str, &str)| {
        let (name, value) = (name.to_owned(), Some(value.to_owned()));
        MetadataRecord::Config(ConfigRecord { resource: group(), name, value })
    };
    let records: Vec<_> = present.iter().map(record).collect();
    let image = MetadataImage::default().apply(&records).expect("they fit");
    let set = |&(name, value): &(&str, &str)| (name.to_owned(), Some(value.to_owned()));
    let configs = wanted.iter().map(set).collect();
    let resources = vec![ResourceConfigs { resource: group(), configs }];
    let command = AlterConfigs { resources, validate_only: false };
    let mut decision = command.evaluate(&image, broker).expect("is judged");
    match decision.reply.pop().expect("one was asked for") {
        Ok(()) => String::new(),
        Err(error) => {
            assert_eq!(error.code, InvalidConfig, "{}", error.message);
            error.message
        }
    }
}

fn broker(settings: &[(&str, &str)]) -> BrokerSettings {
    let directory = ("log.dirs".to_owned(), "/nowhere".to_owned());
    let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    BrokerSettings::new(settings.chain([directory])).expect("are valid")
}

#[test]
fn a_group_is_given_nothing_beyond_the_bounds_of_the_broker() {
    let kafka = broker(&[]);
    for (name, least, most) in [
        ("consumer.heartbeat.interval.ms", 5_000, 15_000),
        ("consumer.session.timeout.ms", 45_000, 60_000),
        ("consumer.assignment.interval.ms", 0, 15_000),
        ("streams.heartbeat.interval.ms", 5_000, 15_000),
        ("streams.session.timeout.ms", 45_000, 60_000),
        ("streams.assignment.interval.ms", 0, 15_000),
        ("streams.num.standby.replicas", 0, 2),
    ] {
        let refusal = |value: i32| refusal(&kafka, &[], &[(name, &value.to_string())]);
        assert_eq!((refusal(least), refusal(most)), (String::new(), String::new()), "{name}");
        let above = refusal(most + 1);
        assert!(above.contains(name), "{above}");
        assert!(
            above.contains(&format!("the broker allows {least} to {most}, by group.")),
            "{above}"
        );
        assert_ne!(refusal(least - 1), "", "{name}");
    }
    let wider = broker(&[("group.consumer.min.session.timeout.ms", "6000")]);
    assert_eq!(refusal(&wider, &[], &[("consumer.session.timeout.ms", "6000")]), "");
}

#[test]
fn what_a_group_has_already_is_not_judged_by_bounds_that_changed_since() {
    let old = ("consumer.session.timeout.ms", "6000");
    let other = ("consumer.heartbeat.interval.ms", "6000");
    assert_eq!(refusal(&broker(&[]), &[old], &[old, other]), "");
    assert_ne!(refusal(&broker(&[]), &[other], &[old, other]), "");
}

#[test]
fn a_member_has_time_for_more_than_one_heartbeat() {
    let wide = broker(&[
        ("group.consumer.min.session.timeout.ms", "6000"),
        ("group.streams.min.session.timeout.ms", "6000"),
    ]);
    for kind in ["consumer", "streams"] {
        let session = format!("{kind}.session.timeout.ms");
        let heartbeat = format!("{kind}.heartbeat.interval.ms");
        let refusal = |timeout: &str, interval: &str| {
            refusal(&wide, &[], &[(&session, timeout), (&heartbeat, interval)])
        };
        assert_eq!(refusal("6001", "6000"), "");
        let refused = refusal("6000", "6000");
        let reason = format!("it must be greater than {heartbeat}, which is 6000");
        assert!(refused.contains(&reason), "{refused}");
    }
    // What the broker itself gives is not blamed on who changes something else.
    let narrow = broker(&[
        ("group.consumer.min.session.timeout.ms", "5000"),
        ("group.consumer.session.timeout.ms", "5000"),
    ]);
    assert_eq!(refusal(&narrow, &[], &[("streams.num.standby.replicas", "1")]), "");
    assert_ne!(refusal(&narrow, &[], &[("consumer.heartbeat.interval.ms", "6000")]), "");
}
