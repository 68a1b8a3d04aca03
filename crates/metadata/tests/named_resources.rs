//! How many resources can exist by being named alone.

use logway_metadata::MetadataImage;
use logway_metadata::controller::{
    AlterConfigs, Command, GROUPS_WITH_SETTINGS_MAX, ResourceConfigs, SUBSCRIPTIONS_MAX,
};
use logway_metadata::record::{ConfigRecord, ConfigResource, MetadataRecord};
use logway_metadata::settings::BrokerSettings;
use logway_model::ErrorCode::{self, InvalidRequest, PolicyViolation};

fn image_with(
    count: usize,
    resource: impl Fn(String) -> ConfigResource,
    name: &str,
) -> MetadataImage {
    let record = |number: usize| {
        let (resource, name) = (resource(number.to_string()), name.to_owned());
        MetadataRecord::Config(ConfigRecord { resource, name, value: Some("5000".to_owned()) })
    };
    let records: Vec<_> = (0..count).map(record).collect();
    MetadataImage::default().apply(&records).expect("they fit")
}

/// Gives resources a setting, and says what each is refused for.
fn set(
    image: &MetadataImage,
    resources: impl IntoIterator<Item = ConfigResource>,
    name: &str,
) -> Vec<Option<ErrorCode>> {
    let configs = vec![(name.to_owned(), Some("6000".to_owned()))];
    let resources = resources
        .into_iter()
        .map(|resource| ResourceConfigs { resource, configs: configs.clone() });
    let command = AlterConfigs { resources: resources.collect(), validate_only: false };
    let decision = command.evaluate(image, &BrokerSettings::default()).expect("is judged");
    decision.reply.into_iter().map(|reply| reply.err().map(|error| error.code)).collect()
}

#[test]
fn there_is_room_for_so_many_and_for_changes_of_those() {
    let setting = "consumer.heartbeat.interval.ms";
    let image = image_with(GROUPS_WITH_SETTINGS_MAX - 1, ConfigResource::Group, setting);
    let groups = ["new", "too many", "0"].map(|name| ConfigResource::Group(name.to_owned()));
    assert_eq!(set(&image, groups, setting), [None, Some(PolicyViolation), None]);

    let image = image_with(SUBSCRIPTIONS_MAX, ConfigResource::ClientMetrics, "interval.ms");
    let subscriptions =
        ["0", "too many"].map(|name| ConfigResource::ClientMetrics(name.to_owned()));
    assert_eq!(set(&image, subscriptions, "interval.ms"), [None, Some(PolicyViolation)]);
}

#[test]
fn names_are_not_endless() {
    let group = ConfigResource::Group("g".repeat(1_025));
    let refused = set(&MetadataImage::default(), [group], "consumer.heartbeat.interval.ms");
    assert_eq!(refused, [Some(InvalidRequest)]);
}
