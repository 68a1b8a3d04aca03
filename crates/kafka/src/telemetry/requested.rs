//! What is wanted of one client.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use logway_metadata::settings::client_metrics::{ClientMetricsSubscription, ClientProperties};
use logway_metadata::{ConfigResource, MetadataImage, Overrides};
use logway_model::Uuid;

/// Stands for every metric.
const ALL: &str = "*";

/// How often a client asks again from which nothing is wanted.
const INTERVAL_MAX_MS: i32 = 300_000;

/// What is wanted of one client: the subscriptions that select it, together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requested {
    /// Changes whenever anything else here does.
    pub(super) subscription_id: i32,
    pub(super) interval_ms: i32,
    /// The beginnings of names; `*` alone for all.
    pub(super) metrics: Arc<[String]>,
}

impl Requested {
    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.interval_ms).unwrap_or(0))
    }

    /// Whether a metric of this name is wanted.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.metrics.iter().any(|wanted| wanted == ALL || name.starts_with(wanted.as_str()))
    }
}

/// Every subscription, ready to be compared with clients.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// What they were made from.
    source: Vec<(String, Overrides)>,
    subscriptions: Vec<ClientMetricsSubscription>,
}

impl Subscriptions {
    pub(super) fn new(image: &MetadataImage) -> Subscriptions {
        let source: Vec<_> =
            stored(image).map(|(name, own)| (name.to_owned(), own.clone())).collect();
        let resolve = |(name, own): &(String, Overrides)| {
            let resolved = ClientMetricsSubscription::resolve(own);
            resolved.inspect_err(|error| tracing::warn!(%name, %error, "not in force")).ok()
        };
        let subscriptions = source.iter().filter_map(resolve).collect();
        Subscriptions { source, subscriptions }
    }

    /// Whether they are those of an image.
    pub(super) fn are_of(&self, image: &MetadataImage) -> bool {
        let known = self.source.iter().map(|(name, own)| (name.as_str(), own));
        known.eq(stored(image))
    }

    /// What is wanted of a client.
    pub(super) fn requested(&self, id: Uuid, client: &ClientProperties) -> Requested {
        let (mut metrics, mut interval_ms) = (BTreeSet::new(), INTERVAL_MAX_MS);
        for subscription in self.subscriptions.iter().filter(|one| one.selects(client)) {
            metrics.extend(subscription.metrics.iter().cloned());
            interval_ms = interval_ms.min(subscription.interval_ms);
        }
        if metrics.contains(ALL) {
            metrics = BTreeSet::from([ALL.to_owned()]);
        }
        let metrics: Arc<[String]> = metrics.into_iter().collect();
        let mut hasher = DefaultHasher::new();
        (&metrics, interval_ms, id.0).hash(&mut hasher);
        // Any 32 of the bits do.
        let subscription_id = (hasher.finish() as u32).cast_signed();
        Requested { subscription_id, interval_ms, metrics }
    }
}

fn stored(image: &MetadataImage) -> impl Iterator<Item = (&str, &Overrides)> {
    image.overriding().filter_map(|(resource, overrides)| match resource {
        ConfigResource::ClientMetrics(name) => Some((name.as_str(), overrides)),
        _ => None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use logway_metadata::MetadataRecord;
    use logway_metadata::record::ConfigRecord;

    use super::*;

    pub(in crate::telemetry) fn requested(metrics: &[&str], interval: Duration) -> Requested {
        let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
        let interval_ms = i32::try_from(interval.as_millis()).expect("is small");
        Requested { subscription_id: 1, interval_ms, metrics }
    }

    fn subscriptions(settings: &[(&str, &str, &str)]) -> (MetadataImage, Subscriptions) {
        let record = |(subscription, name, value): &(&str, &str, &str)| {
            MetadataRecord::Config(ConfigRecord {
                resource: ConfigResource::ClientMetrics((*subscription).to_owned()),
                name: (*name).to_owned(),
                value: Some((*value).to_owned()),
            })
        };
        let records: Vec<_> = settings.iter().map(record).collect();
        let image = MetadataImage::default().apply(&records).expect("they fit");
        let subscriptions = Subscriptions::new(&image);
        (image, subscriptions)
    }

    fn client(client_id: &str) -> ClientProperties {
        ClientProperties {
            instance_id: Uuid([1; 16]).to_string(),
            client_id: client_id.to_owned(),
            software_name: String::new(),
            software_version: String::new(),
            source_address: String::new(),
            source_port: String::new(),
        }
    }

    #[test]
    fn the_subscriptions_of_a_client_add_up() {
        let (image, subscriptions) = subscriptions(&[
            ("all", "metrics", "org.a"),
            ("some", "metrics", "org.b,org.a"),
            ("some", "match", "client_id=x.*"),
            ("some", "interval.ms", "1000"),
        ]);
        assert!(subscriptions.are_of(&image) && !subscriptions.are_of(&MetadataImage::default()));
        let id = Uuid([1; 16]);
        let both = subscriptions.requested(id, &client("x1"));
        assert_eq!(
            (&*both.metrics, both.interval_ms),
            (&["org.a".to_owned(), "org.b".to_owned()][..], 1_000)
        );
        let one = subscriptions.requested(id, &client("y"));
        assert_eq!((&*one.metrics, one.interval_ms), (&["org.a".to_owned()][..], 300_000));
        assert_ne!(one.subscription_id, both.subscription_id);
        assert_eq!(one, subscriptions.requested(id, &client("z")));
        assert!(one.wants("org.a.b") && !one.wants("org.b"));
    }

    #[test]
    fn a_star_stands_for_all() {
        let (_, subscriptions) = subscriptions(&[("s", "metrics", "org.a,*")]);
        let all = subscriptions.requested(Uuid([1; 16]), &client("x"));
        assert_eq!(&*all.metrics, ["*".to_owned()]);
        assert!(all.wants("anything"));
    }

    #[test]
    fn nothing_is_wanted_without_a_subscription() {
        let none = Subscriptions::default().requested(Uuid([1; 16]), &client("x"));
        assert!(none.metrics.is_empty() && !none.wants("org.a"));
        assert_eq!(none.interval_ms, INTERVAL_MAX_MS);
    }
}
