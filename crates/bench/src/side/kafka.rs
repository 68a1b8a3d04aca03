//! Apache Kafka: one KRaft node with its own defaults, or a cluster of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use logway_client::BrokerAddress;

use super::fetch::{MavenPeer, cache_directory, run};
use super::own_rates::OwnCounts;
use super::{DELETED_SOON, Launch, free_addresses};
use crate::files::write_file;

const KAFKA: MavenPeer = MavenPeer {
    name: "kafka-4.3.0",
    dependencies: &[
        "org.apache.kafka:kafka_2.13:4.3.0",
        "org.apache.kafka:kafka-tools:4.3.0",
        "org.apache.logging.log4j:log4j-core:2.24.3",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
    ],
};

/// A UUID in base64url, 16 bytes, as Kafka writes them.
const CLUSTER_ID: &str = "TG9nd2F5IGJlbmNoIHBlZQ";

/// The heap that Kafka's own start script gives the JVM.
const HEAP: [&str; 2] = ["-Xmx1G", "-Xms1G"];

/// That of each of several nodes on one machine.
const HEAP_OF_SEVERAL: [&str; 2] = ["-Xmx700M", "-Xms700M"];

/// What else the start script gives it.
const JVM_OPTIONS: &[&str] = &[
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
];

/// Warnings go to where the output goes; the start script's own configuration writes a line for
/// each segment, which would be charged to the broker.
pub(super) const LOG_SETTINGS: &str = "status = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %-5p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
";

/// A node that was killed is refused by its own controller until the session of the one before is over, which is nine
/// seconds by default.
const SHORT_SESSION: [&str; 4] = [
    "--override",
    "broker.session.timeout.ms=500",
    "--override",
    "broker.heartbeat.interval.ms=100",
];

/// Several nodes are controllers and brokers all of them.
pub(super) fn launch(directories: &[PathBuf]) -> anyhow::Result<Vec<Launch>> {
    let libs = KAFKA.need(&cache_directory()?)?;
    let version = format!("Apache Kafka 4.3.0 on {}", java_version());
    let addresses = free_addresses(2 * directories.len())?;
    let (clients, controllers) = addresses.split_at(directories.len());
    let node = |(index, directory): (usize, &PathBuf)| {
        let address = &clients[index];
        let settings = settings(index + 1, address, controllers, &directory.join("data"));
        let launch = launch_node(&libs, directory, settings, directories.len() > 1)?;
        Ok(Launch { address: address.clone(), version: version.clone(), ..launch })
    };
    directories.iter().enumerate().map(node).collect()
}

fn launch_node(
    libs: &Path,
    directory: &Path,
    settings: Vec<String>,
    is_one_of_several: bool,
) -> anyhow::Result<Launch> {
    let properties_path = directory.join("server.properties");
    let log_settings_path = directory.join("log4j2.properties");
    write_file(&properties_path, settings.join("\n") + "\n")?;
    write_file(&log_settings_path, LOG_SETTINGS)?;

    let config = properties_path.display().to_string();
    let format = ["format", "--ignore-formatted", "-t", CLUSTER_ID, "-c", &config];
    let command = java(libs, &log_settings_path, &[], "kafka.tools.StorageTool", &format);
    let mut format = Command::new(&command[0]);
    run(format.args(&command[1..]), "Kafka formats its directory with Java")?;

    let heap = if is_one_of_several { HEAP_OF_SEVERAL } else { HEAP };
    let jvm_options = [&heap, JVM_OPTIONS].concat();
    let broker = |more: &[&str]| {
        let arguments = [&[config.as_str()], more].concat();
        java(libs, &log_settings_path, &jvm_options, "kafka.Kafka", &arguments)
    };
    Ok(Launch {
        command: broker(&[]),
        command_at_once: Some(broker(&SHORT_SESSION)),
        settings,
        own_counts: OwnCounts::Jmx {
            command: java(libs, &log_settings_path, &[], "org.apache.kafka.tools.JmxTool", &[]),
        },
        is_compiled_as_it_runs: true,
        ..Launch::default()
    })
}

/// What a node needs that is one of as many as there are `controllers`, and nothing that would change its speed.
fn settings(
    id: usize,
    address: &BrokerAddress,
    controllers: &[BrokerAddress],
    data_dir: &Path,
) -> Vec<String> {
    let voter =
        |(index, controller): (usize, &BrokerAddress)| format!("{}@{controller}", index + 1);
    let voters: Vec<String> = controllers.iter().enumerate().map(voter).collect();
    let replicas = controllers.len().min(3);
    vec![
        "process.roles=broker,controller".to_owned(),
        format!("node.id={id}"),
        format!("listeners=PLAINTEXT://{address},CONTROLLER://{}", controllers[id - 1]),
        "controller.listener.names=CONTROLLER".to_owned(),
        format!("controller.quorum.voters={}", voters.join(",")),
        format!("log.dirs={}", data_dir.display()),
        format!("offsets.topic.replication.factor={replicas}"),
        format!("transaction.state.log.replication.factor={replicas}"),
        format!("transaction.state.log.min.isr={}", replicas.min(2)),
        DELETED_SOON.to_owned(),
    ]
}

/// `java` with all jars of a directory.
pub(super) fn java(
    libs: &Path,
    log_settings_path: &Path,
    jvm_options: &[&str],
    main_class: &str,
    arguments: &[&str],
) -> Vec<String> {
    let mut command = vec!["java".to_owned()];
    command.extend(jvm_options.iter().map(|&option| option.to_owned()));
    command.push(format!("-Dlog4j2.configurationFile={}", log_settings_path.display()));
    command.push("-cp".to_owned());
    command.push(format!("{}/*", libs.display()));
    command.push(main_class.to_owned());
    command.extend(arguments.iter().map(|&argument| argument.to_owned()));
    command
}

/// As it names itself.
pub(super) fn java_version() -> String {
    let output = Command::new("java").arg("-version").output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let first = said.ok().and_then(|said| said.lines().next().map(str::to_owned));
    first.unwrap_or_else(|| "an unknown Java".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafka_is_started_as_its_own_script_does() {
        let command = java(
            Path::new("/c/libs"),
            Path::new("/d/log4j2.properties"),
            &[&HEAP, JVM_OPTIONS].concat(),
            "kafka.Kafka",
            &["/d/server.properties"],
        );
        assert_eq!(
            command.join(" "),
            "java -Xmx1G -Xms1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
             -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent \
             -XX:MaxInlineLevel=15 -Djava.awt.headless=true \
             -Dlog4j2.configurationFile=/d/log4j2.properties -cp /c/libs/* kafka.Kafka \
             /d/server.properties"
        );
    }

    #[test]
    fn kafka_listens_on_loopback_only() {
        let address = |port| BrokerAddress::new("127.0.0.1", port);
        let settings = settings(1, &address(1), &[address(2)], Path::new("/d/data"));
        let listeners = "listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2";
        for expected in [listeners, "log.dirs=/d/data", "transaction.state.log.min.isr=1"] {
            assert!(settings.iter().any(|setting| setting == expected), "{expected}");
        }
    }

    #[test]
    fn three_nodes_of_kafka_know_each_other() {
        let address = |port| BrokerAddress::new("127.0.0.1", port);
        let controllers = [4, 5, 6].map(address);
        let settings = settings(2, &address(1), &controllers, Path::new("/d/data"));
        for expected in [
            "node.id=2",
            "listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:5",
            "controller.quorum.voters=1@127.0.0.1:4,2@127.0.0.1:5,3@127.0.0.1:6",
            "offsets.topic.replication.factor=3",
            "transaction.state.log.min.isr=2",
        ] {
            assert!(settings.iter().any(|setting| setting == expected), "{expected}");
        }
    }
}
