package io.logway.kcl;

import software.amazon.kinesis.leases.LeaseManagementConfig;

/** What has to be told version 3 beside the others, so that workers soon have their share. */
final class Haste {
    private Haste() {}

    /** The worker that leads gives leases to the others. Without a sign of life for so long another one does, not after two minutes. */
    private static final long LEADER_MS = 10_000;

    static void of(LeaseManagementConfig leases) {
        leases.dynamoDbLockBasedLeaderLeaseDurationInMillis(LEADER_MS);
        leases.dynamoDbLockBasedLeaderHeartbeatPeriodInMillis(LEADER_MS / 4);
        leases.workerUtilizationAwareAssignmentConfig().workerMetricsReporterFreqInMillis(1_000);
    }
}
