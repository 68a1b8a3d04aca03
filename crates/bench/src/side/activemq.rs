//! ActiveMQ Classic: one broker with the settings of its own distribution, but for its store.

use std::path::Path;

use super::fetch::{MavenPeer, cache_directory};
use super::kafka::{LOG_SETTINGS, java, java_version};
use super::{Launch, free_address};
use crate::files::write_file;
use crate::peer::Stomp;

const ACTIVEMQ: MavenPeer = MavenPeer {
    name: "activemq-6.1.8",
    dependencies: &[
        "org.apache.activemq:activemq-broker:6.1.8",
        "org.apache.activemq:activemq-kahadb-store:6.1.8",
        "org.apache.activemq:activemq-stomp:6.1.8",
        "org.apache.activemq:activemq-spring:6.1.8",
        "org.apache.activemq:activemq-console:6.1.8",
        "org.springframework:spring-context:6.1.21",
        "org.apache.logging.log4j:log4j-slf4j2-impl:2.24.3",
    ],
};

/// What ActiveMQ's own start script gives the JVM.
const JVM_OPTIONS: &[&str] = &["-Xms64M", "-Xmx1G", "-Djava.awt.headless=true"];

/// Two stores: which one a queue is in, and so whether a message is on the disk when its receipt
/// comes, is decided by the queue's name. Limits are those of the distribution.
const SETTINGS: &str = r#"<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core
      http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="bench" useJmx="false"
      dataDirectory="DIRECTORY" schedulePeriodForDestinationPurge="10000">
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry queue=">" gcInactiveDestinations="true" inactiveTimeoutBeforeGC="10000"/>
    </policyEntries></policyMap></destinationPolicy>
    <persistenceAdapter><mKahaDB directory="DIRECTORY/kahadb"><filteredPersistenceAdapters>
      <filteredKahaDB queue="synced.>"><persistenceAdapter>
        <kahaDB journalDiskSyncStrategy="always"/>
      </persistenceAdapter></filteredKahaDB>
      <filteredKahaDB><persistenceAdapter>
        <kahaDB journalDiskSyncStrategy="never"/>
      </persistenceAdapter></filteredKahaDB>
    </filteredPersistenceAdapters></mKahaDB></persistenceAdapter>
    <systemUsage><systemUsage>
      <memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
      <storeUsage><storeUsage limit="100 gb"/></storeUsage>
      <tempUsage><tempUsage limit="50 gb"/></tempUsage>
    </systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://ADDRESS"/>
    </transportConnectors>
  </broker>
</beans>"#;

pub(super) fn launch(directory: &Path) -> anyhow::Result<Launch> {
    let libs = ACTIVEMQ.need(&cache_directory()?)?;
    let address = free_address()?;
    let data_dir = directory.join("data").display().to_string();
    let settings = SETTINGS.replace("DIRECTORY", &data_dir);
    let settings = settings.replace("ADDRESS", &address.to_string());
    let (config_path, log_settings_path) =
        (directory.join("activemq.xml"), directory.join("log4j2.properties"));
    write_file(&config_path, &settings)?;
    write_file(&log_settings_path, LOG_SETTINGS)?;
    let home = format!("-Dactivemq.home={}", directory.display());
    let options: Vec<&str> = JVM_OPTIONS.iter().copied().chain([home.as_str()]).collect();
    let config = format!("xbean:file:{}", config_path.display());
    let main_class = "org.apache.activemq.console.Main";
    let arguments = ["start", config.as_str()];
    Ok(Launch {
        command: java(&libs, &log_settings_path, &options, main_class, &arguments),
        settings: settings.lines().map(str::to_owned).collect(),
        address,
        version: format!("Apache ActiveMQ Classic 6.1.8 on {}", java_version()),
        peer: Some(&Stomp),
        is_compiled_as_it_runs: true,
        ..Launch::default()
    })
}
