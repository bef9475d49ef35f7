package dev.pgleader;

import static dev.pgleader.AcquisitionMode.POLL;
import static dev.pgleader.AcquisitionMode.QUEUE;
import static dev.pgleader.TestCandidate.PATIENCE;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.JavaProcess.Line;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** For how long there is no leader, with each elector in a JVM of its own. */
@Tag("benchmark")
class FailoverBenchmark {

    private static final int ROUNDS = Integer.getInteger("benchmark.rounds", 50);
    private static final Duration RETRY = ElectorOptions.DEFAULT_RETRY_INTERVAL;
    private static final Duration COOL_DOWN = Duration.ofMillis(300);
    private static final MarkdownTable TABLE =
            new MarkdownTable("leader ends by", "mode", "rounds", "min ms", "p50 ms", "p90 ms", "max ms", "goal");

    private final PostgresServer server = PostgresServer.shared();

    @AfterAll
    static void report() {
        TABLE.print();
    }

    @Test
    void handOverPolling() throws Exception {
        handOver(POLL);
    }

    @Test
    void handOverQueueing() throws Exception {
        handOver(QUEUE);
    }

    @Test
    void coldHandOverPolling() throws Exception {
        coldHandOver(POLL);
    }

    @Test
    void coldHandOverQueueing() throws Exception {
        coldHandOver(QUEUE);
    }

    @Test
    void crashPolling() throws Exception {
        crash(POLL, "max < " + RETRY.plusMillis(50).toMillis());
    }

    @Test
    void crashQueueing() throws Exception {
        crash(QUEUE, "p50 < 50");
    }

    private void handOver(AcquisitionMode mode) throws Exception {
        List<Long> micros = new ArrayList<>();
        try (JavaProcess first = start("first", mode)) {
            Line elected = first.awaitLine("^elected ", PATIENCE);
            try (JavaProcess second = start("second", mode);
                    LockTable locks = locks()) {
                JavaProcess leader = first;
                JavaProcess follower = second;
                Line lastOfFollower = follower.awaitLine("^tried", PATIENCE);
                for (int round = 0; round < ROUNDS; round++) {
                    awaitStandingBy(locks, mode);
                    leader.sendLine("resign");
                    Line resigning = leader.awaitLineAfter(elected, line -> line.startsWith("resigning"), PATIENCE);
                    elected = follower.awaitLineAfter(lastOfFollower, line -> line.startsWith("elected"), PATIENCE);
                    micros.add(microsBetween(nanosIn(resigning), elected));
                    // The one that resigned is to be a candidate again before its turn comes.
                    lastOfFollower = leader.awaitLineAfter(resigning, "tried"::equals, PATIENCE);
                    JavaProcess resigned = leader;
                    leader = follower;
                    follower = resigned;
                }
            }
        }
        report("resign()", mode, micros, "p50 < 15");
    }

    /** Both JVMs have just been started, in each round, with the JIT and the garbage collector that are the default. */
    private void coldHandOver(AcquisitionMode mode) throws Exception {
        List<Long> micros = new ArrayList<>();
        try (LockTable locks = locks()) {
            for (int round = 0; round < ROUNDS; round++) {
                try (JavaProcess leader = startWithDefaults("leader-" + round, mode)) {
                    leader.awaitLine("^elected ", PATIENCE);
                    try (JavaProcess follower = startWithDefaults("follower-" + round, mode)) {
                        Line tried = follower.awaitLine("^tried", PATIENCE);
                        awaitStandingBy(locks, mode);
                        awaitAnyMomentOf(RETRY);
                        leader.sendLine("close");
                        Line elected = follower.awaitLineAfter(tried, line -> line.startsWith("elected"), PATIENCE);
                        Line closing = leader.awaitLine("^closing ", PATIENCE);
                        micros.add(microsBetween(nanosIn(closing), elected));
                    }
                }
            }
        }
        report("close(), new JVMs", mode, micros, "p50 < 13, p90 < 20");
    }

    private void crash(AcquisitionMode mode, String goal) throws Exception {
        List<Long> micros = new ArrayList<>();
        JavaProcess leader = start("node-0", mode);
        try (LockTable locks = locks()) {
            leader.awaitLine("^elected ", PATIENCE);
            for (int round = 1; round <= ROUNDS; round++) {
                JavaProcess follower = start("node-" + round, mode);
                try (JavaProcess dying = leader) {
                    leader = follower;
                    Line tried = follower.awaitLine("^tried", PATIENCE);
                    awaitStandingBy(locks, mode);
                    awaitAnyMomentOf(RETRY);
                    long killedAt = System.nanoTime();
                    dying.kill();
                    Line elected = follower.awaitLineAfter(tried, line -> line.startsWith("elected"), PATIENCE);
                    micros.add(microsBetween(killedAt, elected));
                }
            }
        } finally {
            leader.close();
        }
        report("kill -9", mode, micros, goal);
    }

    private JavaProcess start(String id, AcquisitionMode mode) {
        return builder(id, mode).start();
    }

    private JavaProcess startWithDefaults(String id, AcquisitionMode mode) {
        return builder(id, mode).withDefaultsOfTheJvm().start();
    }

    private JavaProcess.Builder builder(String id, AcquisitionMode mode) {
        return ElectionTimesProcess.builder(
                server,
                id,
                ElectorOptions.builder()
                        .acquisitionMode(mode)
                        .retryInterval(RETRY)
                        .coolDown(COOL_DOWN)
                        .build());
    }

    private LockTable locks() {
        return new LockTable(server, PostgresServer.DEFAULT_DATABASE);
    }

    /** Waits, if there is a queue, until the follower is in it. */
    private static void awaitStandingBy(LockTable locks, AcquisitionMode mode) {
        Awaitility.await()
                .atMost(PATIENCE)
                .until(() -> mode == POLL || locks.advisoryRows().stream().anyMatch(row -> !row.granted()));
    }

    /** Else a crash would always strike at the same distance from the follower's last try. */
    private static void awaitAnyMomentOf(Duration interval) {
        long start = System.nanoTime();
        long nanos = ThreadLocalRandom.current().nextLong(interval.toNanos());
        Awaitility.await().atMost(PATIENCE).until(() -> System.nanoTime() - start >= nanos);
    }

    /** The time from an event to what another process tells; that the parent saw it later shows that the clock is the same. */
    private static long microsBetween(long fromNanos, Line to) {
        long toNanos = nanosIn(to);
        assertThat(toNanos).isBetween(fromNanos, to.arrivalNanos());
        return TimeUnit.NANOSECONDS.toMicros(toNanos - fromNanos);
    }

    private static long nanosIn(Line line) {
        return Long.parseLong(line.text().substring(line.text().indexOf(' ') + 1));
    }

    private static void report(String end, AcquisitionMode mode, List<Long> micros, String goal) {
        Percentiles times = new Percentiles(end + ", " + mode + ", to the other's onElected", micros);
        TABLE.row(
                end, mode, micros.size(), times.millis(0), times.millis(50), times.millis(90), times.millis(100), goal);
    }
}
