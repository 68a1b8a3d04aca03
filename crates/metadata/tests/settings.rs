//! How settings are resolved and shown.

use std::time::Duration;

use logway_metadata::record::{ConfigRecord, ConfigResource};
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};
use logway_metadata::settings::broker::{
    AUTO_BALANCE_DISK_DEFAULT, AUTO_BALANCE_DISK_SETTING, AUTO_BALANCE_GONE_DEFAULT,
    AUTO_BALANCE_GONE_SETTING, CATCH_UP_RATE_DEFAULT, CATCH_UP_RATE_SETTING, broker_setting,
    broker_settings,
};
use logway_metadata::settings::client_metrics::CLIENT_METRICS_SETTINGS;
use logway_metadata::settings::group::GROUP_SETTINGS;
use logway_metadata::settings::topic::{TOPIC_SETTINGS, topic_setting};
use logway_metadata::settings::{
    BrokerSettings, ClientAuth, ConfigEntry, ConfigSource, Effect, NO_EFFECT, SecurityProtocol,
    TopicSettings, describe_broker, describe_broker_default, describe_client_metrics,
    describe_group, describe_topic, render_reference,
};
use logway_metadata::{MetadataImage, MetadataRecord, Overrides};
use logway_model::BrokerId;

fn texts(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn broker(settings: &[(&str, &str)]) -> BrokerSettings {
    BrokerSettings::new(texts(settings)).expect("is valid")
}

fn overrides(settings: &[(&str, &str)]) -> Overrides {
    texts(settings).into_iter().collect()
}

fn image<const N: usize>(settings: [(ConfigResource, &str, &str); N]) -> MetadataImage {
    let record = |(resource, name, value): (ConfigResource, &str, &str)| {
        MetadataRecord::Config(ConfigRecord {
            resource,
            name: name.to_string(),
            value: Some(value.to_string()),
        })
    };
    let records: Vec<_> = settings.into_iter().map(record).collect();
    MetadataImage::default().apply(&records).expect("they fit")
}

fn entry<'a>(entries: &'a [ConfigEntry], name: &str) -> &'a ConfigEntry {
    entries.iter().find(|entry| entry.name == name).expect("is listed")
}

#[test]
fn the_strongest_layer_wins() {
    let file = broker(&[("log.retention.hours", "1"), ("log.retention.minutes", "2")]);
    let cluster = (ConfigResource::BrokerDefault, "log.retention.ms", "4");
    let own = (ConfigResource::Broker(BrokerId(1)), "log.retention.ms", "5");
    let other = (ConfigResource::Broker(BrokerId(2)), "log.retention.ms", "6");
    let topic = overrides(&[("retention.ms", "7")]);
    let none = Overrides::new();
    let empty = MetadataImage::default();
    let default = BrokerSettings::default();
    for (overrides, image, broker, expected) in [
        (&none, &empty, &default, Some(7 * 24 * 60 * 60 * 1_000)),
        (&none, &empty, &file, Some(2 * 60 * 1_000)),
        (&none, &image([other.clone()]), &file, Some(2 * 60 * 1_000)),
        (&none, &image([cluster.clone()]), &file, Some(4)),
        (&none, &image([cluster.clone(), own.clone()]), &file, Some(5)),
        (&topic, &image([cluster, own]), &file, Some(7)),
        (&none, &empty, &self::broker(&[("log.retention.hours", "-1")]), None),
        (&none, &empty, &self::broker(&[("log.retention.ms", "9")]), Some(9)),
    ] {
        let settings = TopicSettings::resolve(overrides, image, broker).expect("is valid");
        assert_eq!(settings.retention_ms, expected, "{overrides:?} {image:?} {broker:?}");
    }
}

#[test]
fn the_defaults_are_durable() {
    let (image, broker) = (MetadataImage::default(), BrokerSettings::default());
    let settings = TopicSettings::resolve(&Overrides::new(), &image, &broker).expect("is valid");
    assert_eq!(settings.flush_messages, 1);
    assert_eq!(settings.segment_bytes, 1 << 30);
    assert!(settings.cleanup_policy.delete && !settings.cleanup_policy.compact);
}

#[test]
fn describing_shows_every_layer() {
    let file = broker(&[("log.segment.bytes", "2000000")]);
    let image = image([(ConfigResource::BrokerDefault, "log.segment.bytes", "3000000")]);
    let entries = describe_topic(&overrides(&[("segment.bytes", "4000000")]), &image, &file);
    assert_eq!(entries.len(), TOPIC_SETTINGS.len());
    let segment = entry(&entries, "segment.bytes");
    assert_eq!(segment.value.as_deref(), Some("4000000"));
    assert_eq!(segment.source, ConfigSource::DynamicTopicConfig);
    let places: Vec<_> =
        segment.synonyms.iter().map(|p| (&*p.name, p.value.as_str(), p.source)).collect();
    assert_eq!(
        places,
        [
            ("segment.bytes", "4000000", ConfigSource::DynamicTopicConfig),
            ("log.segment.bytes", "3000000", ConfigSource::DynamicDefaultBrokerConfig),
            ("log.segment.bytes", "2000000", ConfigSource::StaticBrokerConfig),
            ("log.segment.bytes", "1073741824", ConfigSource::DefaultConfig),
        ]
    );
    let retention = entry(&entries, "retention.ms");
    assert_eq!(retention.value.as_deref(), Some("604800000"));
    assert_eq!(retention.synonyms[0].name, "log.retention.hours");
    assert_eq!(retention.source, ConfigSource::DefaultConfig);

    let entries = describe_broker(&image, &file);
    assert_eq!(entries.len(), broker_settings().len());
    let segment = entry(&entries, "log.segment.bytes");
    assert_eq!(segment.value.as_deref(), Some("3000000"));
    assert!(!segment.read_only);
    let unset = entry(&entries, "advertised.listeners");
    assert_eq!((unset.value.as_ref(), unset.read_only), (None, true));
    assert_eq!(entry(&entries, "node.id").source, ConfigSource::DefaultConfig);

    let entries = describe_broker_default(&image);
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].source, ConfigSource::DynamicDefaultBrokerConfig);
}

#[test]
fn wrong_settings_are_named_with_the_reason() {
    let long = "x".repeat(100_000);
    for (error, part) in [
        (topic_setting("retention.mss").map(drop), "did you mean 'retention.ms'?"),
        (broker_setting("num.partition").map(drop), "did you mean 'num.partitions'?"),
        (topic_setting(&long).map(drop), "unknown topic setting 'xxx"),
        (parse("segment.bytes", "1"), "it must be 1048576 or more"),
        (parse("compression.gzip.level", "0"), "it must be 1 to 9, or -1"),
        (parse("compression.type", "brotli"), "it must be one of uncompressed, zstd"),
        (parse("remote.storage.enable", "true"), "there is no tiered storage"),
        (parse("retention.ms", &long), "it must be -1 or more"),
        (BrokerSettings::new(texts(&[("listeners", "SSL://:9093")])).map(drop), "PEM file"),
        (BrokerSettings::new(texts(&[("node.id", "-1")])).map(drop), "it must be 0 or more"),
    ] {
        let message = error.expect_err(part).to_string();
        assert!(message.contains(part), "{message}");
        assert!(message.len() < 300, "{} bytes", message.len());
    }
}

fn parse(name: &str, value: &str) -> Result<(), logway_metadata::MetadataError> {
    topic_setting(name)?.parse(value).map(drop)
}

#[test]
fn addresses_are_read_in_kafkas_form_too() {
    let settings = broker(&[
        ("listeners", "PLAINTEXT://:9092, [::1]:9093 ,localhost:0"),
        ("advertised.listeners", "PLAINTEXT://broker.example:19092"),
    ]);
    let [listener] = &settings.listeners[..] else { panic!("{:?}", settings.listeners) };
    let addresses: Vec<String> = listener.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["0.0.0.0:9092", "[::1]:9093", "localhost:0"]);
    let advertised = listener.advertised.as_ref().expect("is set");
    assert_eq!((advertised.host.as_str(), advertised.port), ("broker.example", 19092));
    for bad in ["", "localhost", "localhost:x", "localhost:70000", "a b:1", ","] {
        assert!(BrokerSettings::new(texts(&[("listeners", bad)])).is_err(), "'{bad}'");
    }
}

#[test]
fn what_others_can_reach_is_encrypted_and_asks_who_they_are() {
    let is_guarded = |given: &[(&str, &str)]| {
        let tls = [("ssl.keystore.location", "a.pem"), ("ssl.truststore.location", "ca.pem")];
        broker(&[&tls, given].concat()).listeners[0].is_guarded()
    };
    assert!(!is_guarded(&[("listeners", "PLAINTEXT://:1")]));
    assert!(!is_guarded(&[("listeners", "SASL_PLAINTEXT://:1")]));
    assert!(!is_guarded(&[("listeners", "SSL://:1")]));
    assert!(!is_guarded(&[("listeners", "SSL://:1"), ("ssl.client.auth", "requested")]));
    assert!(is_guarded(&[("listeners", "SSL://:1"), ("ssl.client.auth", "required")]));
    assert!(is_guarded(&[("listeners", "SASL_SSL://:1")]));
    let elsewhere = "192.0.2.1".parse().expect("an address");
    let settings = broker(&[]);
    assert!(settings.may_listen(elsewhere, true) && !settings.may_listen(elsewhere, false));
    assert!(settings.may_listen("127.0.0.2".parse().expect("an address"), false));
    assert!(settings.may_listen("::1".parse().expect("an address"), false));
    assert!(broker(&[("logway.insecure", "true")]).may_listen(elsewhere, false));
}

#[test]
fn health_needs_no_place_among_the_protocols_of_clients() {
    let of_clients =
        [("listeners", "IN://127.0.0.1:0"), ("listener.security.protocol.map", "IN:PLAINTEXT")];
    let [health] = &broker(&of_clients).http[..] else { panic!("one listener") };
    assert_eq!((&*health.name, health.asks_clients()), ("PLAINTEXT", false));
    let named = [("logway.http.listen", "in://127.0.0.1:1,OTHER://127.0.0.1:2")];
    assert!(BrokerSettings::new(texts(&[&of_clients[..], &named].concat())).is_err(), "OTHER");
}

#[test]
fn listeners_have_names_protocols_and_settings_of_their_own() {
    let settings = broker(&[
        ("listeners", "inside://127.0.0.1:1,Outside://0.0.0.0:2,:3,outside://[::]:2"),
        ("advertised.listeners", "OUTSIDE://broker.example:2"),
        (
            "listener.security.protocol.map",
            "OUTSIDE:sasl_ssl, inside:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        ),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
        ("listener.name.outside.ssl.keystore.location", "a.pem,b.pem"),
        ("listener.name.outside.ssl.client.auth", "requested"),
        ("listener.name.OUTSIDE.ssl.truststore.location", "ca.pem"),
        ("listener.name.outside.sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.outside.connections.max.reauth.ms", "60000"),
        ("listener.name.inside.max.connections", "7"),
    ]);
    let [inside, outside, plain] = &settings.listeners[..] else { panic!("three names") };
    assert_eq!((&*inside.name, inside.protocol), ("INSIDE", SecurityProtocol::SaslPlaintext));
    assert_eq!((inside.connections_max, outside.connections_max), (Some(7), None));
    assert!(inside.tls.is_none() && plain.tls.is_none() && plain.sasl.is_none());
    let sasl = inside.sasl.as_ref().expect("it has SASL");
    assert_eq!(sasl.mechanisms, [SaslMechanism::Scram(ScramMechanism::Sha512)]);
    assert_eq!(sasl.session_max, None);

    assert_eq!((outside.addresses.len(), outside.protocol), (2, SecurityProtocol::SaslSsl));
    assert_eq!(outside.advertised.as_ref().expect("is set").host, "broker.example");
    let tls = outside.tls.as_ref().expect("it has TLS");
    assert_eq!((tls.keystore.len(), tls.client_auth), (2, ClientAuth::Requested));
    assert!(tls.has_tls12 && tls.has_tls13);
    let sasl = outside.sasl.as_ref().expect("it has SASL");
    assert_eq!(sasl.mechanisms, [SaslMechanism::Plain]);
    assert_eq!(sasl.session_max, Some(Duration::from_secs(60)));
    assert_eq!((&*plain.name, plain.protocol), ("PLAINTEXT", SecurityProtocol::Plaintext));
    assert_eq!(settings.with_node_id(BrokerId(9)).listeners, settings.listeners);
}

#[test]
fn a_listener_that_lacks_something_is_named_with_it() {
    const SSL: (&str, &str) = ("listeners", "SSL://:9093");
    const KEY: (&str, &str) = ("ssl.keystore.location", "server.pem");
    for (given, parts) in [
        (&[SSL] as &[_], ["ssl.keystore.location", "a PEM file"]),
        (&[SSL, KEY, ("ssl.client.auth", "required")], ["ssl.truststore.location", "authorities"]),
        (&[SSL, KEY, ("ssl.keystore.type", "JKS")], ["ssl.keystore.type", "PEM files here"]),
        (&[("listeners", "X://:1")], ["X", "listener.security.protocol.map=X:SASL_SSL"]),
        (
            &[("listeners", "SASL_PLAINTEXT://:1"), ("sasl.enabled.mechanisms", "")],
            ["sasl.enabled.mechanisms", "SASL_PLAINTEXT"],
        ),
        (&[("advertised.listeners", "X://a:1")], ["advertised.listeners", "no listener"]),
        (&[("advertised.listeners", "a:1,PLAINTEXT://b:1")], ["advertised.listeners", "once"]),
        (&[("listener.name.x.ssl.client.auth", "none")], ["X", "no listener"]),
        (&[("listener.name.plaintext.nonsense", "1")], ["listener", "nonsense"]),
        (&[("listener.name.plaintext.ssl.client.auth", "no")], ["ssl.client.auth", "required"]),
        (&[("listener.security.protocol.map", "X:TLS")], ["protocol.map", "SASL_SSL"]),
    ] {
        let error = BrokerSettings::new(texts(given)).expect_err(parts[1]).to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn levels_of_the_log_are_checked() {
    let setting = broker_setting("logway.log.level").expect("there is one");
    for good in ["info", "off", "", " warn , logway_log=trace,root=error", "a::b=debug"] {
        assert!(setting.parse(good).is_ok(), "{good}");
    }
    let many = vec!["a=info"; 65].join(",");
    for bad in ["loud", "INFO", "a=", "=info", "a=b=info", "a b=info", "info,", "a[b]=info", &many]
    {
        assert!(setting.parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn later_settings_win_over_earlier_ones() {
    let settings = broker(&[("num.partitions", "3"), ("num.partitions", "4")]);
    assert_eq!(settings.num_partitions, 4);
    assert_eq!(settings.given("num.partitions"), Some("4"));
    assert_eq!(settings.given("node.id"), None);
}

#[test]
fn the_reference_lists_every_setting() {
    let page = render_reference();
    for setting in TOPIC_SETTINGS.iter().chain(broker_settings()) {
        assert!(page.contains(&format!("\n### `{}`\n", setting.name)), "{}", setting.name);
        assert!(!setting.doc.is_empty() && setting.doc.ends_with('.'), "{}", setting.name);
    }
}

#[test]
fn what_cannot_work_is_refused_with_its_bound() {
    let long_host = format!("{}:9092", "h".repeat(70_000));
    for (name, value, bound) in [
        ("advertised.listeners", ":0", "a port other than 0"),
        ("advertised.listeners", "broker.example:0", "a port other than 0"),
        ("advertised.listeners", ":9092", "other than 0.0.0.0"),
        ("advertised.listeners", &long_host, "up to 255 bytes"),
        ("offsets.topic.num.partitions", "2147483647", "1 to 9900"),
        ("num.partitions", "9901", "1 to 9900"),
    ] {
        let error =
            BrokerSettings::new([(name.to_owned(), value.to_owned())]).expect_err("refused");
        let error = error.to_string();
        assert!(error.contains(name) && error.contains(bound) && error.len() < 500, "{error}");
    }
}

/// Nobody is left to believe that a setting does something: the list is as long as it must be.
#[test]
fn settings_without_effect_say_so_wherever_they_are_shown() {
    let image = MetadataImage::default();
    let broker = BrokerSettings::default();
    let page = render_reference();
    let all = [
        describe_topic(&Overrides::new(), &image, &broker),
        describe_broker(&image, &broker),
        describe_group(None),
        describe_client_metrics(None),
    ];
    let tables = [TOPIC_SETTINGS, broker_settings(), GROUP_SETTINGS, CLIENT_METRICS_SETTINGS];
    let mut without = Vec::new();
    for (described, table) in all.iter().zip(tables) {
        for (entry, setting) in described.iter().zip(table) {
            assert_eq!(entry.name, setting.name);
            let reason = entry.documentation.split_once(NO_EFFECT).map(|(_, reason)| reason);
            let Effect::Nothing(expected) = setting.effect else {
                assert_eq!(reason, None, "{}", entry.name);
                continue;
            };
            assert_eq!(reason, Some(&*format!("{expected}.")), "{}", entry.name);
            let head = format!("### `{}`\n", entry.name);
            let marked = page.match_indices(&head).filter(|(at, _)| {
                let section = &page[at + 3..];
                let section = section.split_once("\n### ").map_or(section, |(section, _)| section);
                section.contains(&format!("- **no effect here**: {expected}\n"))
            });
            assert!(marked.count() > 0, "{}", entry.name);
            without.push(entry.name.clone());
        }
    }
    without.sort_unstable();
    let listed: Vec<&str> = include_str!("data/without-effect.txt").lines().collect();
    assert_eq!(without, listed, "{}", without.join("\n"));
}

#[test]
fn settings_of_single_listeners_are_shown() {
    let given = [
        ("listener.name.PLAINTEXT.max.connections", "7"),
        ("max.connections", "70"),
        ("listener.name.plaintext.sasl.enabled.mechanisms", "PLAIN"),
    ];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let broker = BrokerSettings::new(given).expect("are valid");
    let entries = describe_broker(&MetadataImage::default(), &broker);
    let own = entry(&entries, "listener.name.plaintext.max.connections");
    assert_eq!((own.value.as_deref(), own.source), (Some("7"), ConfigSource::StaticBrokerConfig));
    let places: Vec<_> = own.synonyms.iter().map(|it| (&*it.name, &*it.value)).collect();
    let name = "listener.name.plaintext.max.connections";
    assert_eq!(places[..2], [(name, "7"), ("max.connections", "70")]);
    assert!(entries.is_sorted_by(|one, other| one.name <= other.name));
}

#[test]
fn defaults_that_are_also_numbers_are_the_same() {
    for (name, default) in [
        (CATCH_UP_RATE_SETTING, CATCH_UP_RATE_DEFAULT),
        (AUTO_BALANCE_GONE_SETTING, AUTO_BALANCE_GONE_DEFAULT),
        (AUTO_BALANCE_DISK_SETTING, AUTO_BALANCE_DISK_DEFAULT.into()),
    ] {
        let setting = broker_setting(name).expect("it exists");
        assert_eq!(setting.default, Some(default.to_string().as_str()), "{name}");
    }
}
