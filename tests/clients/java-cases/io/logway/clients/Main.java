package io.logway.clients;

import org.apache.kafka.common.utils.AppInfoParser;

/** Runs every case against the broker at {@code $BOOTSTRAP}; the exit code is 0 if all of them passed. */
public final class Main {
    private Main() {
    }

    public static void main(String[] args) {
        Report report = new Report();
        String version = AppInfoParser.getVersion();
        // The table has a row for each line, which its name tells apart.
        report.client("kafka-clients-" + version.substring(0, version.lastIndexOf('.')), version);
        Release release = new ThisRelease();
        try (Cluster cluster = new Cluster(System.getenv("BOOTSTRAP"), release)) {
            new ProduceCases(cluster).run(report);
            new ConsumeCases(cluster).run(report);
            new GroupCases(cluster).run(report);
            new FlowCases(cluster).run(report);
            new TransactionCases(cluster).run(report);
            new AdminCases(cluster).run(report);
            new GroupAdminCases(cluster).run(report);
            new ErrorCases(cluster).run(report);
            release.runOwnCases(cluster, report);
        }
        System.exit(report.finish());
    }
}
