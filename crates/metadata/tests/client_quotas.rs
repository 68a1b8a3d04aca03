//! The controller's judgement of quotas.

use logway_metadata::controller::{
    AlterClientQuotas, Command, QUOTA_ENTITIES_MAX, QUOTA_NAME_MAX_BYTES, QUOTA_NAMES_MAX_BYTES,
    QuotaAlteration,
};
use logway_metadata::quota::{QuotaEntity, QuotaKey, QuotaLimit, QuotaName};
use logway_metadata::record::{ClientQuotaRecord, MetadataRecord};
use logway_metadata::settings::BrokerSettings;
use logway_metadata::{ControllerError, Decision, MetadataImage};
use logway_model::ErrorCode::{InvalidRequest, PolicyViolation};

fn client(name: &str) -> QuotaEntity {
    QuotaEntity::ClientId(QuotaName::Named(name.to_owned()))
}

fn change(name: &str, limits: &[(QuotaKey, Option<f64>)]) -> QuotaAlteration {
    let limit = |&(key, limit): &(QuotaKey, Option<f64>)| (key, limit.and_then(QuotaLimit::new));
    QuotaAlteration { entity: client(name), limits: limits.iter().map(limit).collect() }
}

fn alter(
    image: &MetadataImage,
    entities: Vec<QuotaAlteration>,
    validate_only: bool,
) -> Decision<Vec<Result<(), ControllerError>>> {
    let command = AlterClientQuotas { entities, validate_only };
    command.evaluate(image, &BrokerSettings::default()).expect("is not refused whole")
}

#[test]
fn only_what_changes_is_recorded() {
    const KEY: QuotaKey = QuotaKey::ProducerByteRate;
    let set = vec![change("a", &[(KEY, Some(5.0)), (QuotaKey::ConsumerByteRate, None)])];
    let empty = MetadataImage::default();
    let validated = alter(&empty, set.clone(), true);
    assert_eq!((validated.records, validated.reply), (Vec::new(), vec![Ok(())]));
    let decision = alter(&empty, set.clone(), false);
    assert_eq!(decision.records.len(), 1);
    let image = empty.apply(&decision.records).expect("they fit");
    assert_eq!(alter(&image, set, false).records, []);
    let removed = alter(&image, vec![change("a", &[(KEY, None)])], false);
    let image = image.apply(&removed.records).expect("they fit");
    assert!(image.client_quotas().is_empty());
}

#[test]
fn what_comes_twice_is_refused_and_the_rest_is_done() {
    const KEY: QuotaKey = QuotaKey::RequestPercentage;
    let twice = change("twice", &[(KEY, Some(1.0))]);
    let entities = vec![
        twice.clone(),
        change("good", &[(KEY, Some(1.0))]),
        twice,
        change("keys", &[(KEY, Some(1.0)), (KEY, Some(2.0))]),
    ];
    let decision = alter(&MetadataImage::default(), entities, false);
    let codes: Vec<_> =
        decision.reply.iter().map(|reply| reply.as_ref().err().map(|error| error.code)).collect();
    let refused = Some(InvalidRequest);
    assert_eq!(codes, [refused, None, refused, refused]);
    assert_eq!(decision.records.len(), 1);
}

/// An image in which these clients have a quota.
fn image_of(names: impl Iterator<Item = String>) -> MetadataImage {
    let record = |name: String| {
        let (key, limit) = (QuotaKey::ProducerByteRate, QuotaLimit::new(1.0));
        MetadataRecord::ClientQuota(ClientQuotaRecord { entity: client(&name), key, limit })
    };
    let records: Vec<_> = names.map(record).collect();
    MetadataImage::default().apply(&records).expect("they fit")
}

#[test]
fn names_are_so_long_only_each_and_together() {
    const KEY: QuotaKey = QuotaKey::ProducerByteRate;
    let set = |image, name: &str| {
        let reply = alter(image, vec![change(name, &[(KEY, Some(1.0))])], false).reply.remove(0);
        reply.err().map(|error| error.code)
    };
    let empty = MetadataImage::default();
    let longest = "é".repeat(QUOTA_NAME_MAX_BYTES / 2);
    assert_eq!(set(&empty, &longest), None);
    assert_eq!(set(&empty, &format!("{longest}x")), Some(InvalidRequest));

    let numbered = |number: usize| format!("{number:0>QUOTA_NAME_MAX_BYTES$}");
    let count = QUOTA_NAMES_MAX_BYTES / QUOTA_NAME_MAX_BYTES;
    let full = image_of((0..count).map(numbered));
    assert_eq!(set(&full, "x"), Some(PolicyViolation));
    assert_eq!(alter(&full, vec![change(&numbered(0), &[(KEY, None)])], false).records.len(), 1);
    let nearly_full = image_of((1..count).map(numbered));
    assert_eq!(set(&nearly_full, &numbered(0)), None);
}

#[test]
fn quotas_are_for_so_many_entities_only() {
    const KEY: QuotaKey = QuotaKey::ProducerByteRate;
    let image = image_of((1..QUOTA_ENTITIES_MAX).map(|number| number.to_string()));
    let new = |name: &str| change(name, &[(KEY, Some(2.0))]);
    let decision = alter(&image, vec![new("a"), new("b"), new("1"), change("c", &[])], false);
    let codes: Vec<_> =
        decision.reply.iter().map(|reply| reply.as_ref().err().map(|error| error.code)).collect();
    assert_eq!(codes, [None, Some(PolicyViolation), None, None]);
}
