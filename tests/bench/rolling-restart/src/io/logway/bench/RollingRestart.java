package io.logway.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/**
 * Restarts the members of a group one by one while records flow, each when the group has settled after the one before,
 * and prints what that cost as one line of JSON.
 */
public final class RollingRestart {
    private static final Duration DEADLINE = Duration.ofMinutes(2);
    /** How long the group is watched at rest, for comparison: as often as members are restarted, so long each time. */
    private static final Duration AT_REST = Duration.ofSeconds(1);

    private final Settings settings;
    private final Ledger ledger;
    private final List<Member> members = new ArrayList<>();

    private RollingRestart(Settings settings) {
        this.settings = settings;
        this.ledger = new Ledger(settings.partitions());
    }

    /** See {@link Settings#parse} for the arguments. */
    public static void main(String[] arguments) throws Exception {
        System.out.println(new RollingRestart(Settings.parse(arguments)).run());
    }

    private String run() throws Exception {
        createTopic();
        for (int number = 0; number < settings.members(); number++) {
            members.add(new Member(settings, ledger, number));
        }
        Flow flow = new Flow(settings);
        await("the group to settle", this::isSettled);
        List<Ledger.Pause> atRest = new ArrayList<>();
        for (int number = 0; number < settings.members(); number++) {
            atRest.addAll(watch(() -> Thread.sleep(AT_REST.toMillis())));
        }

        int generationBefore = members.get(0).generation();
        int revokedBefore = Member.REVOKED.get();
        long began = System.nanoTime();
        List<Ledger.Pause> pauses = new ArrayList<>();
        for (int number = 0; number < settings.members(); number++) {
            int restarted = number;
            pauses.addAll(watch(() -> restart(restarted)));
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        int rebalances = members.get(0).generation() - generationBefore;
        int revoked = Member.REVOKED.get() - revokedBefore;

        flow.stop();
        int acknowledged = flow.sent() - flow.refused();
        await("every acknowledged record", () -> ledger.seen() >= acknowledged);
        for (Member member : members) {
            member.close();
        }
        return String.format(Locale.ROOT, "{\"restart_s\": %.1f, \"rebalances\": %d, \"revoked\": %d, %s, %s, %s, "
            + "\"sent\": %d, \"refused\": %d, \"seen\": %d, \"seen_again\": %d, \"owned_twice\": %d}",
            seconds, rebalances, revoked, unread("at_rest", atRest, false), unread("stayed", pauses, false),
            unread("moved", pauses, true) + ", " + spread("ownerless", pauses, true, Ledger.Pause::ownerlessMs),
            flow.sent(), flow.refused(), ledger.seen(), ledger.seenAgain(), ledger.ownedTwice());
    }

    private void createTopic() throws Exception {
        try (Admin admin = Admin.create(settings.with(Map.of()))) {
            admin.createTopics(Set.of(new NewTopic(Settings.NAME, settings.partitions(), (short) 1))).all().get();
        }
    }

    private void restart(int number) throws InterruptedException {
        members.get(number).close();
        Thread.sleep(settings.downMs());
        members.set(number, new Member(settings, ledger, number));
        await("the group to settle after the restart of member " + number, this::isSettled);
    }

    /** Whether the partitions are spread evenly, every member knows it, and every partition is being read. */
    private boolean isSettled() {
        int least = settings.partitions() / settings.members();
        int most = (settings.partitions() + settings.members() - 1) / settings.members();
        return members.stream().allMatch(member -> member.partitions() >= least && member.partitions() <= most)
            && members.stream().map(Member::generation).distinct().count() == 1
            && ledger.isReadByOwners();
    }

    private interface Work {
        void run() throws InterruptedException;
    }

    /** How the partitions fare during the work. */
    private List<Ledger.Pause> watch(Work work) throws InterruptedException {
        ledger.beginWindow();
        work.run();
        return ledger.endWindow();
    }

    private static void await(String what, BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("waited " + DEADLINE + " for " + what);
            }
            Thread.sleep(1);
        }
    }

    private static String unread(String name, List<Ledger.Pause> pauses, boolean hasMoved) {
        return spread(name, pauses, hasMoved, Ledger.Pause::unreadMs);
    }

    /** Count, median, 99th percentile and greatest, of the partitions that have moved, or of those that have not. */
    private static String spread(
        String name, List<Ledger.Pause> pauses, boolean hasMoved, ToDoubleFunction<Ledger.Pause> figure
    ) {
        double[] sorted = pauses.stream()
            .filter(pause -> pause.hasMoved() == hasMoved)
            .mapToDouble(figure).sorted().toArray();
        double[] shown = IntStream.of(50, 99, 100)
            .mapToDouble(percent -> sorted.length == 0 ? 0 : sorted[(sorted.length - 1) * percent / 100]).toArray();
        String values = DoubleStream.of(shown)
            .mapToObj(value -> String.format(Locale.ROOT, ", %.1f", value))
            .collect(Collectors.joining());
        return "\"" + name + "\": [" + sorted.length + values + "]";
    }
}
