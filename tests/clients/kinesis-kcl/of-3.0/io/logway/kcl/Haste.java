package io.logway.kcl;

import software.amazon.kinesis.leases.LeaseManagementConfig;

/** What has to be told version 3.0 beside the others, so that workers soon have their share. How long a leader leads is fixed. */
final class Haste {
    private Haste() {}

    static void of(LeaseManagementConfig leases) {
        leases.workerUtilizationAwareAssignmentConfig().workerMetricsReporterFreqInMillis(1_000);
    }
}
