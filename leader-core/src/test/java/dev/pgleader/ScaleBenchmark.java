package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** How the cost of an election grows with the number of its keys, and with the number of those who want one key. */
@Tag("benchmark")
class ScaleBenchmark {

    private static final int ROUNDS = 5;
    private static final int CONTENDERS = Integer.getInteger("benchmark.contenders", 200);
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final Duration STEADY = Duration.ofSeconds(15);
    private static final String ROLE = "electors";
    private static final MarkdownTable KEYS = new MarkdownTable(
            "keys",
            "built, median ms",
            "all elected, first ms",
            "median ms",
            "max ms",
            "threads at most",
            "threads later",
            "heap, kB",
            "connections",
            "statements/s",
            "backend CPU, ms/s",
            "closed, ms");
    private static final MarkdownTable ON_ONE_KEY = new MarkdownTable(
            "contenders",
            "mode",
            "all know the leader, ms",
            "hand-over, p50 ms",
            "max ms",
            "threads",
            "heap, kB",
            "connections",
            "statements/s",
            "backend CPU, ms/s");

    private static PostgresServer server;
    private static ServerCost cost;

    @BeforeAll
    static void start() throws Exception {
        // Each contender opens a second connection for a moment, to prove that the first has a backend of its own.
        server = ServerCost.launchServer(2 * CONTENDERS + 50, 25_000);
        cost = ServerCost.of(server, ROLE);
    }

    @AfterAll
    static void report() throws Exception {
        KEYS.print();
        ON_ONE_KEY.print();
        cost.close();
        server.close();
    }

    /** A group, and what its making cost. */
    private record Election(LeaderElectorGroup group, long builtMicros, long electedMicros, int threads)
            implements AutoCloseable {

        static Election of(int keys) throws InterruptedException {
            CountDownLatch missing = new CountDownLatch(keys);
            long start = System.nanoTime();
            LeaderElectorGroup group = LeaderElectorGroup.builder()
                    .connectTo(ServerCost.as(ROLE, server))
                    .options(options(AcquisitionMode.POLL))
                    .build();
            for (int key = 0; key < keys; key++) {
                group.elector("benchmark/" + key)
                        .listener(whenElected(missing::countDown))
                        .build();
            }
            long built = System.nanoTime();
            ManagementFactory.getThreadMXBean().resetPeakThreadCount();
            int otherThreads = ManagementFactory.getThreadMXBean().getThreadCount();
            group.start();
            await(missing);
            long elected = System.nanoTime();
            assertThat(group.electors()).allMatch(LeaderElector::isLeader);
            return new Election(
                    group,
                    TimeUnit.NANOSECONDS.toMicros(built - start),
                    TimeUnit.NANOSECONDS.toMicros(elected - built),
                    ManagementFactory.getThreadMXBean().getPeakThreadCount() - otherThreads);
        }

        double closeMillis() {
            long start = System.nanoTime();
            group.close();
            return (System.nanoTime() - start) / 1e6;
        }

        @Override
        public void close() {
            group.close();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 100, 1_000, 10_000})
    void keysOfOneProcess(int keys) throws Exception {
        List<Election> rounds = new ArrayList<>();
        for (int round = 1; round < ROUNDS; round++) {
            try (Election election = Election.of(keys)) {
                rounds.add(election);
            }
        }
        long heapBefore = usedHeap();
        try (Election last = Election.of(keys)) {
            rounds.add(last);
            ServerCost.Cost steady = cost.during(STEADY).get(ROLE);
            int threads = electionThreads();
            long heap = usedHeap() - heapBefore;
            int connections = cost.connections();
            KEYS.row(
                    keys,
                    median(rounds.stream().map(Election::builtMicros).toList()),
                    rounds.get(0).electedMicros() / 1e3,
                    median(rounds.stream().map(Election::electedMicros).toList()),
                    rounds.stream().mapToLong(Election::electedMicros).max().orElseThrow() / 1e3,
                    rounds.stream().mapToInt(Election::threads).max().orElseThrow(),
                    threads,
                    heap / 1024,
                    connections,
                    steady.statementsPerSecond(),
                    steady.cpuMillisPerSecond(),
                    last.closeMillis());
        }
    }

    @ParameterizedTest
    @EnumSource
    void contendersForOneKey(AcquisitionMode mode) throws Exception {
        LockKey key = LockKey.named("benchmark/" + mode);
        List<LeaderElector> contenders = new ArrayList<>();
        List<Long> handOvers = new ArrayList<>();
        long heapBefore = usedHeap();
        try {
            CountDownLatch uninformed = new CountDownLatch(CONTENDERS);
            long start = System.nanoTime();
            for (int contender = 0; contender < CONTENDERS; contender++) {
                contenders.add(LeaderElector.builder()
                        .connectTo(ServerCost.as(ROLE, server))
                        .key(key)
                        .options(options(mode))
                        .observer(whenLeaderIsKnown(uninformed::countDown))
                        .build());
            }
            contenders.forEach(LeaderElector::start);
            await(uninformed);
            double knownMillis = (System.nanoTime() - start) / 1e6;
            ServerCost.Cost steady = cost.during(STEADY).get(ROLE);
            int threads = electionThreads();
            long heap = usedHeap() - heapBefore;
            int connections = cost.connections();
            for (int round = 0; round < ROUNDS; round++) {
                handOvers.add(handOver(contenders));
            }
            Percentiles times =
                    new Percentiles(CONTENDERS + " contenders, " + mode + ", resign() to elected", handOvers);
            ON_ONE_KEY.row(
                    CONTENDERS,
                    mode,
                    knownMillis,
                    times.millis(50),
                    times.millis(100),
                    threads,
                    heap / 1024,
                    connections,
                    steady.statementsPerSecond(),
                    steady.cpuMillisPerSecond());
        } finally {
            contenders.parallelStream().forEach(LeaderElector::close);
        }
    }

    /** Has the leader resign and returns the microseconds until another one leads. */
    private static long handOver(List<LeaderElector> contenders) throws Exception {
        LeaderElector leader =
                contenders.stream().filter(LeaderElector::isLeader).findAny().orElseThrow();
        CountDownLatch missing = new CountDownLatch(1);
        List<Registration> listeners = contenders.stream()
                .filter(contender -> contender != leader)
                .map(contender -> contender.addListener(whenElected(missing::countDown)))
                .toList();
        long start = System.nanoTime();
        var unused = leader.resign();
        await(missing);
        long elected = System.nanoTime();
        listeners.forEach(Registration::close);
        return TimeUnit.NANOSECONDS.toMicros(elected - start);
    }

    private static ElectorOptions options(AcquisitionMode mode) {
        return ElectorOptions.builder()
                .acquisitionMode(mode)
                .takeoverDelay(TakeoverDelay.NONE)
                .build();
    }

    private static LeadershipListener whenElected(Runnable action) {
        return new LeadershipListener() {
            @Override
            public void onElected(Leadership leadership) {
                action.run();
            }

            @Override
            public void onRevoked(Leadership leadership, RevocationReason reason) {}
        };
    }

    /** Runs the action when the leader is known for the first time. */
    private static ElectionObserver whenLeaderIsKnown(Runnable action) {
        return new ElectionObserver() {
            private boolean known;

            @Override
            public void leaderChanged(LeaderInfo leader) {
                if (!known) {
                    known = true;
                    action.run();
                }
            }
        };
    }

    private static void await(CountDownLatch latch) throws InterruptedException {
        assertThat(latch.await(PATIENCE.toSeconds(), TimeUnit.SECONDS))
                .as("%s left after %s", latch.getCount(), PATIENCE)
                .isTrue();
    }

    private static double median(List<Long> micros) {
        return micros.stream().sorted(Comparator.naturalOrder()).toList().get(micros.size() / 2) / 1e3;
    }

    private static int electionThreads() {
        return (int) Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("pg-leader-"))
                .count();
    }

    private static long usedHeap() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
