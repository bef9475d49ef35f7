package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.PostgresServer.ShutdownMode;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Direction;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * Some electors in JVMs of their own, each behind a network of its own, on a server that has to put up with as much as they: in
 * bursts, faults strike at random; then all is healed, and somebody has to lead within the bound. At no time may two lead.
 *
 * <p>A session that is terminated or reset frees its lock at once, whether or not its leader hears of it in the same moment. So
 * every takeover waits out the lease here, but that after an orderly release: then there are never two leaders, whatever happens.
 */
final class FaultSoak implements AutoCloseable {

    private static final int NODES = 4;
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

    /** A time in which a node led, in {@link System#nanoTime()}. */
    record Led(String node, long term, long from, long to) {}

    private static final class Node {
        final String id;
        final TcpProxy network;
        JavaProcess process;
        boolean cutOff;
        boolean stopped;

        Node(String id, TcpProxy network, JavaProcess process) {
            this.id = id;
            this.network = network;
            this.process = process;
        }

        boolean isReachable() {
            return !cutOff && !stopped;
        }

        String sessionPrefix() {
            return "pg-leader/" + id + ".";
        }
    }

    private final Random random;
    private final long bits = TestCandidate.freshKeyBits();
    private final PostgresServer server = PostgresServer.launch();
    private final List<Node> nodes = new ArrayList<>();
    private final List<Led> led = new ArrayList<>();
    private final Map<String, Integer> faults = new TreeMap<>();
    private final List<Long> recoveries = new ArrayList<>();
    private int started;
    private boolean serverTouched;

    FaultSoak(long seed) {
        random = new Random(seed);
        for (int i = 0; i < NODES; i++) {
            TcpProxy network = new TcpProxy(server.port());
            nodes.add(new Node("node-" + i, network, start(network, "node-" + i)));
        }
    }

    private JavaProcess start(TcpProxy network, String id) {
        return ElectorProcess.start(server, network.port(), bits, id + "." + started++, OPTIONS);
    }

    /** Runs for this long, and on a slow machine longer, until so many faults have been made; checks all along. */
    void run(Duration duration, int leastFaults) throws SQLException {
        long end = System.nanoTime() + duration.toNanos();
        awaitLeader(System.nanoTime());
        while (System.nanoTime() - end < 0 || faultCount() < leastFaults) {
            int burst = 1 + random.nextInt(7);
            for (int i = 0; i < burst; i++) {
                strike();
                pause(random.nextInt(400));
            }
            if (random.nextInt(3) == 0) {
                pause(random.nextInt(
                        (int) OPTIONS.leaseDuration().multipliedBy(2).toMillis()));
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
        Node node = nodes.get(random.nextInt(nodes.size()));
        switch (random.nextInt(17)) {
            case 0, 1 -> terminateLeader();
            case 2 ->
                does(
                        "swallow both directions",
                        () -> cutOff(node, network -> network.all().flow(Flow.SWALLOW)));
            case 3 ->
                does(
                        "swallow answers",
                        () -> cutOff(node, network -> network.all().flow(Direction.SERVER_TO_CLIENT, Flow.SWALLOW)));
            case 4 ->
                does(
                        "swallow questions",
                        () -> cutOff(node, network -> network.all().flow(Direction.CLIENT_TO_SERVER, Flow.SWALLOW)));
            case 5 ->
                does(
                        "hold, then deliver",
                        () -> cutOff(node, network -> network.all().flow(Flow.HOLD)));
            case 6 -> does("reset connections", node.network::reset);
            case 7 -> does("close connections", node.network::cut);
            case 8 ->
                does(
                        "delay answers past the timeout",
                        () -> cutOff(
                                node,
                                network -> network.all()
                                        .delay(
                                                Direction.SERVER_TO_CLIENT,
                                                OPTIONS.healthCheckTimeout().plusMillis(200))));
            case 9, 10 -> {
                if (!node.stopped) {
                    does("SIGSTOP", node.process::pause);
                    node.stopped = true;
                }
            }
            case 11, 12 -> does("kill -9 and start again", () -> replace(node));
            case 13 -> {
                if (!node.stopped) {
                    does("resign", () -> node.process.sendLine("resign"));
                }
            }
            case 14 -> {
                if (!node.stopped) {
                    does("ask the leader to resign", () -> node.process.sendLine("ask-to-resign"));
                }
            }
            case 15 -> {
                if (!serverTouched) {
                    serverTouched = true;
                    ShutdownMode mode = random.nextBoolean() ? ShutdownMode.FAST : ShutdownMode.IMMEDIATE;
                    does("restart the server, " + mode.name().toLowerCase(Locale.ROOT), () -> server.restart(mode));
                }
            }
            default -> {
                if (!serverTouched) {
                    serverTouched = true;
                    does("kill -9 the server", () -> {
                        server.killPostmaster();
                        server.start();
                    });
                }
            }
        }
    }

    private void does(String fault, Runnable action) {
        action.run();
        faults.merge(fault, 1, Integer::sum);
    }

    private void terminateLeader() throws SQLException {
        try (LockTable locks = new LockTable(server, PostgresServer.DEFAULT_DATABASE)) {
            for (int pid : locks.holders(bits)) {
                String holder = locks.session(pid)
                        .map(LockTable.Session::applicationName)
                        .orElse("");
                if (nodes.stream().anyMatch(node -> node.isReachable() && holder.startsWith(node.sessionPrefix()))) {
                    server.terminateBackend(pid);
                    faults.merge("terminate the leader's session", 1, Integer::sum);
                }
            }
        }
    }

    private static void cutOff(Node node, Consumer<TcpProxy> how) {
        node.cutOff = true;
        how.accept(node.network);
    }

    private void replace(Node node) {
        collect(node);
        node.process.kill();
        node.process.close();
        node.stopped = false;
        node.process = start(node.network, node.id);
    }

    private void heal() {
        for (Node node : nodes) {
            if (node.cutOff) {
                // What was swallowed can't be delivered, so these connections end; the client may still wait for them.
                node.network.existing().delay(Direction.SERVER_TO_CLIENT, Duration.ZERO);
                node.network.cut();
                node.network.future().flow(Flow.PASS);
                node.network.future().delay(Direction.SERVER_TO_CLIENT, Duration.ZERO);
                node.cutOff = false;
            }
            if (node.stopped) {
                node.process.resume();
                node.stopped = false;
            }
        }
        serverTouched = false;
    }

    /** Returns how long it took, in microseconds, until somebody led after {@code since}. */
    private long awaitLeader(long since) {
        while (true) {
            for (Node node : nodes) {
                collect(node);
            }
            for (Led each : led) {
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

    /** Reads what a node has told; the last word on each term counts. */
    private void collect(Node node) {
        Map<Long, Led> latest = new HashMap<>();
        for (JavaProcess.Line line : node.process.lines()) {
            String[] words = line.text().split(" ", -1);
            if (words[0].equals("led")) {
                long term = Long.parseLong(words[1]);
                latest.put(
                        term,
                        new Led(node.process.toString(), term, Long.parseLong(words[2]), Long.parseLong(words[3])));
            }
        }
        led.removeIf(each -> each.node().equals(node.process.toString()));
        led.addAll(latest.values());
    }

    void assertNeverTwo() {
        List<Led> byTime =
                led.stream().sorted(Comparator.comparingLong(Led::from)).toList();
        for (int i = 1; i < byTime.size(); i++) {
            Led before = byTime.get(i - 1);
            Led after = byTime.get(i);
            assertThat(after.from() - before.to())
                    .as("two leaders: %s and %s", before, after)
                    .isNotNegative();
        }
    }

    int faultCount() {
        return faults.values().stream().mapToInt(Integer::intValue).sum();
    }

    int terms() {
        return led.size();
    }

    List<Long> recoveries() {
        return List.copyOf(recoveries);
    }

    private Duration longestGap() {
        List<Led> byTime =
                led.stream().sorted(Comparator.comparingLong(Led::from)).toList();
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
        table.append("| instances | ").append(NODES).append(" JVMs |\n");
        table.append("| faults injected | ").append(faultCount()).append(" |\n");
        faults.forEach((fault, count) ->
                table.append("| - ").append(fault).append(" | ").append(count).append(" |\n"));
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
        for (Node node : nodes) {
            node.process.close();
            node.network.close();
        }
        server.close();
    }
}
