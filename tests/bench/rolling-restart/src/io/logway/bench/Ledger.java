package io.logway.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;

/**
 * Who owns each partition, when it was last read, and which records were seen. Shared by all members.
 *
 * <p>Time is cut into windows, one for each restart. In a window a partition has moved if it was given to a member or
 * taken from one; if not, its owner could have read it all the time, and how long it did not is what a rebalance cost.
 */
final class Ledger {
    /** One partition in one window, times in milliseconds. */
    record Pause(boolean hasMoved, double unreadMs, double ownerlessMs) { }

    private final Partition[] partitions;
    private final BitSet seen = new BitSet();
    private long seenAgain;
    private long ownedTwice;

    Ledger(int partitions) {
        this.partitions = new Partition[partitions];
        Arrays.setAll(this.partitions, id -> new Partition());
    }

    synchronized void assigned(int partition, Member owner) {
        partitions[partition].assigned(owner);
    }

    synchronized void revoked(int partition, Member owner) {
        partitions[partition].revoked(owner);
    }

    /** A member has got these records of a partition. */
    synchronized void read(int partition, List<Integer> numbers) {
        partitions[partition].read();
        for (int number : numbers) {
            if (seen.get(number)) {
                seenAgain++;
            }
            seen.set(number);
        }
    }

    /** Whether every partition has an owner and was read by it. */
    synchronized boolean isReadByOwners() {
        return Arrays.stream(partitions).allMatch(Partition::isReadByOwner);
    }

    synchronized void beginWindow() {
        Arrays.stream(partitions).forEach(Partition::beginWindow);
    }

    /** How each partition fared since the window began. */
    synchronized List<Pause> endWindow() {
        List<Pause> pauses = new ArrayList<>();
        for (Partition partition : partitions) {
            pauses.add(partition.endWindow());
        }
        return pauses;
    }

    /** How many different records were seen. */
    synchronized int seen() {
        return seen.cardinality();
    }

    /** How often a record was seen that had been seen already. */
    synchronized long seenAgain() {
        return seenAgain;
    }

    /** How often a partition was given to a member before another one had given it up. */
    synchronized long ownedTwice() {
        return ownedTwice;
    }

    private final class Partition {
        private Member owner;
        private boolean isReadByOwner;
        private long ownerlessSince = System.nanoTime();
        private long lastRead = System.nanoTime();
        private boolean hasMoved;
        private long longestUnread;
        private long longestOwnerless;

        void assigned(Member newOwner) {
            if (owner == null) {
                longestOwnerless = Math.max(longestOwnerless, System.nanoTime() - ownerlessSince);
            } else {
                ownedTwice++;
            }
            owner = newOwner;
            isReadByOwner = false;
            hasMoved = true;
        }

        void revoked(Member formerOwner) {
            hasMoved = true;
            if (owner == formerOwner) {
                owner = null;
                ownerlessSince = System.nanoTime();
            }
        }

        void read() {
            long now = System.nanoTime();
            longestUnread = Math.max(longestUnread, now - lastRead);
            lastRead = now;
            isReadByOwner = true;
        }

        boolean isReadByOwner() {
            return owner != null && isReadByOwner;
        }

        void beginWindow() {
            hasMoved = false;
            longestUnread = 0;
            longestOwnerless = 0;
        }

        Pause endWindow() {
            long unread = Math.max(longestUnread, System.nanoTime() - lastRead);
            return new Pause(hasMoved, unread / 1e6, longestOwnerless / 1e6);
        }
    }
}
