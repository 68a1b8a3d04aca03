package io.logway.kcl;

import software.amazon.kinesis.leases.LeaseManagementConfig;

/** What has to be told version 2 beside the others, so that workers soon have their share. */
final class Haste {
    private Haste() {}

    static void of(LeaseManagementConfig leases) {
        leases.maxLeasesToStealAtOneTime(8);
    }
}
