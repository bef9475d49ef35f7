package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.ElectorProcess.Led;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.NotificationQueue;
import dev.pgleader.testkit.PgBouncer;
import dev.pgleader.testkit.PgBouncer.PoolMode;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.PostgresServer.ShutdownMode;
import dev.pgleader.testkit.TcpProxy.Direction;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Some electors in JVMs of their own, each behind a network of its own, one of them over TLS and one behind PgBouncer where that
 * is installed, on a server that has to put up with as much as they, and with a stranger besides: in bursts, faults strike at
 * random; then all is healed, and somebody has to lead within the bound. At no time may two lead.
 *
 * <p>A session that is terminated or reset frees its lock at once, whether or not its leader hears of it in the same moment. So
 * every takeover waits out the lease here: then there are never two leaders, whatever happens.
 */
final class FaultSoak implements AutoCloseable {

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    static final ElectorOptions OPTIONS = ElectorOptions.builder()
            .leaseDuration(Duration.ofSeconds(2))
            .safetyMargin(Duration.ofMillis(300))
            .healthCheckInterval(Duration.ofMillis(300))
            .healthCheckTimeout(Duration.ofMillis(700))
            .retryInterval(Duration.ofMillis(200))
            .takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(2)))
            .build();

    /**
     * The longest time without a leader after all is healed: the lease of a leader that vanished, the takeover delay of a server
     * that restarted, a login that hangs, the longest delay before the next one, two tries, and how slow a loaded machine is.
     */
    static final Duration BOUND = OPTIONS.leaseDuration()
            .multipliedBy(2)
            .plus(OPTIONS.healthCheckTimeout().multipliedBy(3))
            .plus(OPTIONS.maxReconnectDelay())
            .plus(OPTIONS.retryInterval().multipliedBy(3))
            .plusSeconds(20);

    private interface Action {
        void on(SoakNode node) throws SQLException;
    }

    /**
     * @param weight how often it strikes, compared with the others
     * @param possible whether it makes sense for a node now
     */
    private record Fault(String name, int weight, Predicate<SoakNode> possible, Action action) {}

    private final Random random;
    private final long bits = TestCandidate.freshKeyBits();
    private final PostgresServer server = PostgresServer.builder().tls().launch();
    private final boolean queueIsSmall;
    private final @Nullable PgBouncer pooler;
    private final Stranger stranger;
    private final List<SoakNode> nodes;
    private final List<Fault> faults = faults();
    private final Map<String, Integer> struck = new TreeMap<>();
    private final List<Long> recoveries = new ArrayList<>();
    private boolean serverTouched;
    private @Nullable NotificationQueue queue;

    FaultSoak(long seed) throws SQLException {
        random = new Random(seed);
        queueIsSmall = NotificationQueue.shrink(server);
        stranger = new Stranger(server, bits);
        pooler = PgBouncer.available()
                ? PgBouncer.before(server).poolMode(PoolMode.SESSION).launch()
                : null;
        nodes = List.of(
                node("direct", server.port(), Map.of()),
                node("tls", server.port(), Map.of("sslmode", "require")),
                node("pooled", pooler == null ? server.port() : pooler.port(), Map.of()),
                node("direct-2", server.port(), Map.of()));
    }

    private SoakNode node(String id, int port, Map<String, String> urlParameters) {
        return new SoakNode(id, server, port, urlParameters, OPTIONS, bits);
    }

    private List<Fault> faults() {
        Duration tooLate = OPTIONS.healthCheckTimeout().plusMillis(200);
        return List.of(
                new Fault("terminate the leader's session", 2, any -> true, any -> terminateLeader()),
                new Fault(
                        "swallow both directions",
                        1,
                        any -> true,
                        node -> node.cutOff(network -> network.all().flow(Flow.SWALLOW))),
                new Fault(
                        "swallow answers",
                        1,
                        any -> true,
                        node -> node.cutOff(network -> network.all().flow(Direction.SERVER_TO_CLIENT, Flow.SWALLOW))),
                new Fault(
                        "swallow questions",
                        1,
                        any -> true,
                        node -> node.cutOff(network -> network.all().flow(Direction.CLIENT_TO_SERVER, Flow.SWALLOW))),
                new Fault(
                        "hold, then deliver",
                        1,
                        any -> true,
                        node -> node.cutOff(network -> network.all().flow(Flow.HOLD))),
                new Fault(
                        "delay answers past the timeout",
                        1,
                        any -> true,
                        node -> node.cutOff(network -> network.all().delay(Direction.SERVER_TO_CLIENT, tooLate))),
                new Fault("reset connections", 1, any -> true, SoakNode::reset),
                new Fault("close connections", 1, any -> true, SoakNode::cut),
                new Fault("SIGSTOP", 2, SoakNode::runs, SoakNode::stop),
                new Fault(
                        "suspend",
                        2,
                        SoakNode::runs,
                        node -> leader().orElse(node).suspend()),
                new Fault("kill -9 and start again", 2, any -> true, SoakNode::replace),
                new Fault("resign", 1, SoakNode::runs, node -> node.tell("resign")),
                new Fault("ask the leader to resign", 1, SoakNode::runs, node -> node.tell("ask-to-resign")),
                new Fault("a stranger forges notices", 2, any -> true, any -> stranger.forge()),
                new Fault("a stranger takes the lock when it's free", 1, any -> true, any -> stranger.grab()),
                new Fault("fill the notification queue", 1, any -> queueIsSmall && serverIsUntouched(), any -> {
                    serverTouched = true;
                    queue = NotificationQueue.full(server);
                }),
                new Fault("a commit holds the notification queue", 1, any -> serverIsUntouched(), any -> {
                    serverTouched = true;
                    queue = NotificationQueue.heldUp(server);
                }),
                new Fault("restart the server, fast", 1, any -> serverIsUntouched(), any -> {
                    serverTouched = true;
                    server.restart(ShutdownMode.FAST);
                }),
                new Fault("restart the server, immediate", 1, any -> serverIsUntouched(), any -> {
                    serverTouched = true;
                    server.restart(ShutdownMode.IMMEDIATE);
                }),
                new Fault("kill -9 the server", 1, any -> serverIsUntouched(), any -> {
                    serverTouched = true;
                    server.killPostmaster();
                    server.start();
                }));
    }

    private boolean serverIsUntouched() {
        return !serverTouched;
    }

    /** Runs for this long, and on a slow machine longer, until so many faults have been made; checks all along. */
    void run(Duration duration, int leastFaults) throws SQLException {
        long end = System.nanoTime() + duration.toNanos();
        awaitLeader(System.nanoTime());
        while (System.nanoTime() - end < 0 || faultCount() < leastFaults) {
            int burst = 1 + random.nextInt(12);
            for (int i = 0; i < burst; i++) {
                strike();
                pause(random.nextInt(400));
            }
            if (random.nextInt(3) == 0) {
                pause(random.nextInt(
                        (int) OPTIONS.leaseDuration().multipliedBy(4).toMillis()));
            }
            heal();
            recoveries.add(awaitLeader(System.nanoTime()));
            assertNeverTwo();
        }
    }

    /** The pauses are part of what is done to the nodes; nothing is expected at their end. */
    private static void pause(int millis) {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        while (System.nanoTime() - end < 0) {
            LockSupport.parkNanos(end - System.nanoTime());
        }
    }

    private void strike() throws SQLException {
        SoakNode node = nodes.get(random.nextInt(nodes.size()));
        List<Fault> possible = faults.stream()
                .filter(fault -> fault.possible.test(node))
                .flatMap(fault -> IntStream.range(0, fault.weight).mapToObj(i -> fault))
                .toList();
        Fault fault = possible.get(random.nextInt(possible.size()));
        fault.action.on(node);
        struck.merge(fault.name, 1, Integer::sum);
    }

    private void terminateLeader() throws SQLException {
        try (LockTable locks = new LockTable(server, PostgresServer.DEFAULT_DATABASE)) {
            for (int pid : locks.holders(bits)) {
                String holder = locks.session(pid)
                        .map(LockTable.Session::applicationName)
                        .orElse("");
                if (nodes.stream().anyMatch(node -> node.isReachableAs(holder))) {
                    server.terminateBackend(pid);
                }
            }
        }
    }

    private void heal() throws SQLException {
        if (queue != null) {
            queue.close();
            queue = null;
        }
        stranger.letGo();
        for (SoakNode node : nodes) {
            // In either order: it sees the end of its session at once, or goes on for a while with a session that is
            // gone.
            if (random.nextBoolean()) {
                node.reconnect();
                node.goOn();
            } else {
                node.goOn();
                pause(random.nextInt(100));
                node.reconnect();
            }
        }
        serverTouched = false;
    }

    /** The node that leads now, if it runs. */
    private Optional<SoakNode> leader() {
        long justNow = System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(100);
        return nodes.stream()
                .filter(SoakNode::runs)
                .filter(node -> node.led().stream().anyMatch(led -> led.to() - justNow > 0))
                .findFirst();
    }

    private List<Led> led() {
        List<Led> all = new ArrayList<>();
        nodes.forEach(node -> all.addAll(node.led()));
        all.sort(Comparator.comparingLong(Led::from));
        return all;
    }

    /** Returns how long it took, in microseconds, until somebody led after {@code since}. */
    private long awaitLeader(long since) {
        while (true) {
            for (Led each : led()) {
                if (each.to() - since > 0) {
                    return TimeUnit.NANOSECONDS.toMicros(Math.max(0, each.from() - since));
                }
            }
            assertThat(System.nanoTime() - since)
                    .as("nobody leads %s after all is healed", PATIENCE)
                    .isLessThan(PATIENCE.toNanos());
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
    }

    void assertNeverTwo() {
        List<Led> byTime = led();
        for (int i = 1; i < byTime.size(); i++) {
            Led before = byTime.get(i - 1);
            Led after = byTime.get(i);
            assertThat(after.from() - before.to())
                    .as("two leaders: %s and %s", before, after)
                    .isNotNegative();
        }
    }

    int faultCount() {
        return struck.values().stream().mapToInt(Integer::intValue).sum();
    }

    int terms() {
        return led().size();
    }

    List<Long> recoveries() {
        return List.copyOf(recoveries);
    }

    private Duration longestGap() {
        List<Led> byTime = led();
        long longest = 0;
        for (int i = 1; i < byTime.size(); i++) {
            longest = Math.max(longest, byTime.get(i).from() - byTime.get(i - 1).to());
        }
        return Duration.ofNanos(longest);
    }

    /** What happened, as the table for the documentation. */
    String report(Duration duration) {
        StringBuilder table = new StringBuilder("| | |\n|---|---|\n");
        table.append("| duration | ").append(duration.toMinutes()).append(" min |\n");
        table.append("| instances | ").append(nodes.size()).append(" JVMs |\n");
        table.append("| PgBouncer | ")
                .append(pooler == null ? "isn't installed" : "before one of them")
                .append(" |\n");
        table.append("| faults injected | ").append(faultCount()).append(" |\n");
        struck.forEach((fault, count) ->
                table.append("| - ").append(fault).append(" | ").append(count).append(" |\n"));
        table.append("| notices that the stranger forged | ")
                .append(stranger.forged())
                .append(" |\n");
        table.append("| terms | ").append(terms()).append(" |\n");
        table.append("| overlaps of `isLeader()` | 0 |\n");
        Percentiles times = new Percentiles("all healed to somebody leads", recoveries);
        table.append(String.format(
                Locale.ROOT,
                "| all healed to somebody leads: p50, p99, longest | %d, %d, %d ms |%n",
                times.at(50).toMillis(),
                times.at(99).toMillis(),
                times.at(100).toMillis()));
        table.append("| bound for that | ").append(BOUND.toMillis()).append(" ms |\n");
        table.append("| longest time without a leader, faults still striking | ")
                .append(longestGap().toMillis())
                .append(" ms |\n");
        return table.toString();
    }

    @Override
    public void close() {
        nodes.forEach(SoakNode::close);
        stranger.close();
        if (pooler != null) {
            pooler.close();
        }
        server.close();
    }
}
