package io.logway.clients;

/** Runs every case against the broker at {@code $BOOTSTRAP}; the exit code is 0 if all of them passed. */
public final class Main {
    private Main() {
    }

    public static void main(String[] args) {
        Report report = new Report();
        try (Cluster cluster = new Cluster(System.getenv("BOOTSTRAP"))) {
            new ProducerCases(cluster).run(report);
            new ConsumerCases(cluster).run(report);
            new TopicCases(cluster).run(report);
            new AdminCases(cluster).run(report);
        }
        System.exit(report.finish());
    }
}
