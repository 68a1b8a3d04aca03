"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from conformance.script import script
from conformance.side import Ask, Side

UNKNOWN, TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
# What tools set while a broker runs, and what it may be set to.
OF_BROKERS = {
    "background.threads": ("5", "20", "21", "4"),
    "log.cleaner.io.buffer.load.factor": ("0.5", "1.5"),
    "log.cleaner.io.buffer.size": ("0", "524288", "-1"),
    "log.cleaner.io.max.bytes.per.second": ("1000", "x"),
    "log.cleaner.threads": ("0", "1", "2", "3", "100", "x"),
    "log.local.retention.bytes": ("1000", "-2"),
    "log.local.retention.ms": ("1000", "-2", "-3"),
    "max.connection.creation.rate": ("100", "0"),
    "max.connections": ("100", "0", "-1"),
    "max.connections.per.ip": ("10", "0", "-1"),
    "max.connections.per.ip.overrides": ("10.0.0.7:100", "10.0.0.7:1, 10.0.0.8:2", "x"),
    "metric.reporters": ("", "x.Y"),
    "min.insync.replicas": ("1", "2"),
    "num.io.threads": ("0", "3", "4", "16", "17", "x"),
    "num.network.threads": ("1", "6", "7"),
    "num.recovery.threads.per.data.dir": ("1", "4", "5"),
    "num.replica.fetchers": ("1", "2", "3"),
    "remote.fetch.max.wait.ms": ("100", "0"),
    "transaction.partition.verification.enable": ("false", "x"),
}


@script
def described(side: Side):
    topic = side.topic("topic", retention_ms="1000", cleanup_policy="compact,delete")
    for version in side.versions("DescribeConfigs"):

        def ask(request: str, *resources: tuple[int, str, list | None], **more):
            fields = ("ResourceType", "ResourceName", "ConfigurationKeys")
            listed = [dict(zip(fields, one)) for one in resources]
            side.ask("DescribeConfigs", version, request, Resources=listed, **more)

        ask("a topic", (TOPIC, topic.name, None))
        ask("a topic, with synonyms", (TOPIC, topic.name, None), IncludeSynonyms=True)
        ask("a topic, with documentation", (TOPIC, topic.name, ["retention.ms"]), IncludeDocumentation=True)
        ask("some of a topic", (TOPIC, topic.name, ["retention.ms", "no.such", "retention.ms"]))
        ask("nothing of a topic", (TOPIC, topic.name, []))
        ask("an unknown topic", (TOPIC, side.absent().name, None), (TOPIC, topic.name, ["retention.ms"]))
        ask("a topic twice", (TOPIC, topic.name, ["retention.ms"]), (TOPIC, topic.name, ["segment.ms"]))
        ask("an unknown type beside a topic", (99, "no-such", None), (TOPIC, topic.name, ["retention.ms"]))
        ask("a topic of no name", (TOPIC, "", None))
        ask("a topic's name that cannot be", (TOPIC, "a/b", None))
        ask("the broker", (BROKER, "1", None))
        ask("the broker, with synonyms", (BROKER, "1", ["log.retention.ms"]), IncludeSynonyms=True)
        ask("the brokers' defaults", (BROKER, "", None))
        ask("another broker", (BROKER, "99", None))
        ask("no broker", (BROKER, "x", None))
        ask("a broker of -1", (BROKER, "-1", None))
        ask("loggers", (LOGGER, "1", None))
        ask("loggers of another broker", (LOGGER, "99", None))
        ask("loggers of none", (LOGGER, "", None))
        ask("an unknown subscription", (CLIENT_METRICS, "no-such", None))
        ask("an empty subscription", (CLIENT_METRICS, "", None))
        ask("a group", (GROUP, "no-such", None))
        ask("a group, with synonyms", (GROUP, "no-such", ["consumer.session.timeout.ms"]), IncludeSynonyms=True)
        ask("an empty group", (GROUP, "", None))
        for kind in (UNKNOWN, 1, 3, 64, -1, 127):
            ask(f"type {kind}", (kind, "x", None))
        ask("none")


@script
def changed(side: Side):
    """One by one (KIP-339)."""
    for version in side.versions("IncrementalAlterConfigs"):
        topic = side.topic(f"topic-{version}", retention_ms="1000")

        def ask(request: str, *resources: tuple[int, str, list[tuple]], only: bool = False):
            fields = ("Name", "ConfigOperation", "Value")
            listed = [
                {"ResourceType": kind, "ResourceName": name, "Configs": [dict(zip(fields, one)) for one in configs]}
                for kind, name, configs in resources
            ]
            side.ask("IncrementalAlterConfigs", version, request, Resources=listed, ValidateOnly=only)

        def of_topic(request: str, *configs: tuple, only: bool = False):
            ask(request, (TOPIC, topic.name, list(configs)), only=only)

        of_topic("set", ("retention.ms", SET, "2000"))
        of_topic("set, only asked", ("retention.ms", SET, "3000"), only=True)
        of_topic("delete", ("retention.ms", DELETE, None))
        of_topic("delete what is not set", ("segment.ms", DELETE, None))
        of_topic("delete an unknown one", ("no.such", DELETE, None))
        of_topic("delete an unknown one beside a known one", ("no.such", DELETE, None), ("segment.ms", SET, "5000"))
        of_topic("set an unknown one", ("no.such", SET, "1"))
        of_topic("set an unknown one beside a known one", ("no.such", SET, "1"), ("segment.ms", SET, "6000"))
        of_topic("a value that cannot be", ("retention.ms", SET, "often"))
        of_topic("a value out of range", ("retention.ms", SET, "-5"))
        of_topic("a value of null", ("retention.ms", SET, None))
        of_topic("an empty value", ("retention.ms", SET, ""))
        of_topic("a value with spaces", ("retention.ms", SET, " 7000 "))
        of_topic("one twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
        of_topic("set and delete", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
        of_topic("append", ("cleanup.policy", APPEND, "compact"))
        of_topic("append what is there", ("cleanup.policy", APPEND, "compact"))
        of_topic("append what cannot be", ("cleanup.policy", APPEND, "burn"))
        of_topic("subtract", ("cleanup.policy", SUBTRACT, "delete"))
        of_topic("subtract what is not there", ("cleanup.policy", SUBTRACT, "delete"))
        of_topic("subtract the last", ("cleanup.policy", SUBTRACT, "compact"))
        of_topic("append to a number", ("retention.ms", APPEND, "1"))
        of_topic("an unknown operation", ("retention.ms", 9, "1"))
        of_topic("nothing")
        of_topic("more in sync than there are", ("min.insync.replicas", SET, "3"))
        of_topic("lags that contradict", ("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5"))
        of_topic("a codec", ("compression.type", SET, "zstd"))
        of_topic("an unknown codec", ("compression.type", SET, "lzma"))
        of_topic("a throttle", ("leader.replication.throttled.replicas", SET, "0:1"))
        of_topic("a throttle that cannot be", ("leader.replication.throttled.replicas", SET, "x"))
        of_topic("a local limit", ("local.retention.ms", SET, "500"))
        of_topic("append to an unknown one", ("no.such", APPEND, "1"))
        of_topic("a tier", ("remote.storage.enable", SET, "true"))
        of_topic("a name of other case", ("Retention.MS", SET, "1"))
        ask("an unknown topic", (TOPIC, side.absent().name, [("retention.ms", SET, "1")]))
        ask("a topic of no name", (TOPIC, "", [("retention.ms", SET, "1")]))
        for name in ("1", "", "99", "x"):
            ask(f"broker {name!r}", (BROKER, name, [("log.cleaner.threads", SET, "2")]), only=True)
            ask(f"broker {name!r}, fixed", (BROKER, name, [("node.id", SET, "2")]), only=True)
            ask(f"broker {name!r}, unknown", (BROKER, name, [("no.such", SET, "2")]), only=True)
            ask(f"broker {name!r}, a topic's", (BROKER, name, [("log.retention.ms", SET, "2000")]), only=True)
        for setting, values in OF_BROKERS.items():
            for value in values:
                ask(f"the broker's {setting}={value}", (BROKER, "1", [(setting, SET, value)]), only=True)
        for name in ("1", ""):
            ask(f"append to an unknown one of broker {name!r}", (BROKER, name, [("no.such", APPEND, "1")]), only=True)
            ask(f"subtract from an unknown one of broker {name!r}", (BROKER, name, [("no.such", SUBTRACT, "1")]), only=True)
            ask(f"a null value for broker {name!r}", (BROKER, name, [("log.retention.ms", SET, None)]), only=True)
        ask("a logger", (LOGGER, "1", [("root", SET, "INFO")]), only=True)
        ask("a logger of no level", (LOGGER, "1", [("root", SET, "LOUD")]), only=True)
        ask("an unknown logger", (LOGGER, "1", [("no.such", SET, "INFO")]), only=True)
        ask("a logger of another broker", (LOGGER, "99", [("root", SET, "INFO")]), only=True)
        ask("a subscription", (CLIENT_METRICS, f"s{version}", [("interval.ms", SET, "1000")]))
        ask("a subscription too often", (CLIENT_METRICS, f"s{version}", [("interval.ms", SET, "1")]))
        ask("a subscription, unknown setting", (CLIENT_METRICS, f"s{version}", [("no.such", SET, "1")]))
        ask("a subscription of no name", (CLIENT_METRICS, "", [("interval.ms", SET, "1000")]))
        ask("a subscription, a bad pattern", (CLIENT_METRICS, f"s{version}", [("match", SET, "[")]))
        ask("a group", (GROUP, f"g{version}", [("consumer.session.timeout.ms", SET, "50000")]))
        ask("a group, too short", (GROUP, f"g{version}", [("consumer.session.timeout.ms", SET, "1")]))
        ask("a group, unknown setting", (GROUP, f"g{version}", [("no.such", SET, "1")]))
        ask("a group of no name", (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]))
        for kind in (UNKNOWN, 1, 64, -1):
            ask(f"type {kind}", (kind, "x", [("a", SET, "1")]))
        ask("none")
        side.settle()
        wanted = [
            {"ResourceType": TOPIC, "ResourceName": topic.name, "ConfigurationKeys": None},
            {"ResourceType": CLIENT_METRICS, "ResourceName": f"s{version}", "ConfigurationKeys": None},
            {"ResourceType": GROUP, "ResourceName": f"g{version}", "ConfigurationKeys": None},
        ]
        side.ask("DescribeConfigs", 4, f"what was changed at {version}", Resources=wanted, IncludeSynonyms=True)


@script
def replaced(side: Side):
    """All at once: what is not named is as if it was never set."""
    for version in side.versions("AlterConfigs"):
        topic = side.topic(f"topic-{version}", retention_ms="1000", segment_ms="9000")

        def ask(request: str, *resources: tuple[int, str, list[tuple]], only: bool = False):
            listed = [
                {
                    "ResourceType": kind,
                    "ResourceName": name,
                    "Configs": [dict(zip(("Name", "Value"), one)) for one in configs],
                }
                for kind, name, configs in resources
            ]
            side.ask("AlterConfigs", version, request, Resources=listed, ValidateOnly=only)

        ask("only asked", (TOPIC, topic.name, []), only=True)
        ask("one", (TOPIC, topic.name, [("retention.ms", "2000")]))
        ask("an unknown one", (TOPIC, topic.name, [("no.such", "1")]))
        ask("a value that cannot be", (TOPIC, topic.name, [("retention.ms", "often")]))
        ask("a value of null", (TOPIC, topic.name, [("retention.ms", None)]))
        ask("one twice", (TOPIC, topic.name, [("retention.ms", "1"), ("retention.ms", "2")]))
        ask("an unknown topic", (TOPIC, side.absent().name, [("retention.ms", "1")]))
        ask("a topic of no name", (TOPIC, "", []))
        ask("a broker", (BROKER, "1", [("log.cleaner.threads", "2")]), only=True)
        ask("another broker", (BROKER, "99", [("log.cleaner.threads", "2")]), only=True)
        ask("loggers", (LOGGER, "1", [("root", "INFO")]), only=True)
        ask("a subscription", (CLIENT_METRICS, f"r{version}", [("interval.ms", "1000")]))
        ask("a group", (GROUP, f"r{version}", [("consumer.session.timeout.ms", "50000")]))
        for kind in (UNKNOWN, 1, 64, -1):
            ask(f"type {kind}", (kind, "x", []))
        ask("none")
        side.settle()
        wanted = [{"ResourceType": TOPIC, "ResourceName": topic.name, "ConfigurationKeys": None}]
        side.ask("DescribeConfigs", 4, f"what was replaced at {version}", Resources=wanted)


@script
def twice(side: Side):
    """Kafka fails without an answer, so that these are asked together, and not waited for as long as others."""
    topic = side.topic("topic")
    about = {"ResourceType": TOPIC, "ResourceName": topic.name}
    resources = [about | {"Configs": [{"Name": "retention.ms", "Value": "3000"}]}] * 2
    asks = [
        Ask(api, version, "a topic twice", {"Resources": resources})
        for api in ("AlterConfigs", "IncrementalAlterConfigs")
        for version in side.versions(api)
    ]
    side.ask_together(asks, patience_s=3)


@script
def resources(side: Side):
    configs = [{"Name": "interval.ms", "ConfigOperation": SET, "Value": "1000"}]
    made = {"ResourceType": CLIENT_METRICS, "ResourceName": side.unique("s"), "Configs": configs}
    side.do("IncrementalAlterConfigs", Resources=[made])
    side.settle()
    for version in side.versions("ListConfigResources"):
        side.ask("ListConfigResources", version, "all")
        if version >= 1:
            for kinds in ([CLIENT_METRICS], [GROUP], [BROKER], [LOGGER], [UNKNOWN], [64], [-1], [BROKER, BROKER]):
                side.ask("ListConfigResources", version, f"types {kinds}", ResourceTypes=kinds)
