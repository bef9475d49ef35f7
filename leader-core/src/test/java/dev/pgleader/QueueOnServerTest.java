package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.event.Level;

/** Followers that wait inside the server, on a real server. */
@Timeout(300)
class QueueOnServerTest {

    private static final PostgresServer SERVER = PostgresServer.shared();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    private static final int ROUNDS = Integer.getInteger("queue.rounds", 6);

    /** A follower that polled, or that lost its session on a busy machine, would need half a minute. */
    private static final ElectorOptions QUEUE = FAST.toBuilder()
            .leaseDuration(Duration.ofSeconds(20))
            .healthCheckTimeout(Duration.ofSeconds(10))
            .acquisitionMode(AcquisitionMode.QUEUE)
            .queueSlice(Duration.ofMillis(1_200))
            .retryInterval(Duration.ofSeconds(30))
            .maxReconnectDelay(Duration.ofSeconds(30))
            .healthCheckInterval(Duration.ofMillis(20))
            .coolDown(Duration.ofMillis(300))
            .build();

    private final long bits = freshKeyBits();
    private final LockKey key = LockKey.of(bits);

    private TestCandidate start(String id) {
        return TestCandidate.start(id, direct(SERVER), key, builder -> builder.options(QUEUE));
    }

    private static void awaitQueueing(TestCandidate follower) {
        awaitState(follower.backendPid(), "active");
    }

    private static void awaitState(int pid, String state) {
        await().atMost(PATIENCE)
                .until(() -> LOCKS.session(pid)
                        .filter(session -> state.equals(session.state()))
                        .isPresent());
    }

    @Test
    void theEndOfTheLeadersSessionElectsTheNextWithoutAPoll() throws Exception {
        List<Long> micros = new ArrayList<>();
        List<TestCandidate> all = new ArrayList<>();
        try (Connection operator = SERVER.connect()) {
            all.add(start("first"));
            all.get(0).awaitElected(1);
            for (int round = 0; round < ROUNDS; round++) {
                TestCandidate leader = all.get(round);
                // Who has lost a session waits for a retry interval, so each round has a new one.
                TestCandidate follower = start("follower-" + round);
                all.add(follower);
                awaitQueueing(follower);
                String terminate = "SELECT pg_terminate_backend(" + leader.backendPid() + ")";
                long terminatedAt = System.nanoTime();
                Sql.execute(operator, terminate);
                TestCandidate.Event elected = follower.awaitElected(1);
                micros.add(TimeUnit.NANOSECONDS.toMicros(elected.atNanos() - terminatedAt));
                leader.awaitRevoked(1);
                leader.close();
                leader.assertCallbacksInOrder();
            }
        } finally {
            all.forEach(TestCandidate::close);
        }
        Percentiles times = new Percentiles("QUEUE: pg_terminate_backend to the other's onElected", micros);
        assertThat(times.at(100))
                .as(times.toString())
                .isLessThan(QUEUE.retryInterval().dividedBy(2));
    }

    @Test
    void resigningHandsOverToTheOneThatWaits() throws Exception {
        try (TestCandidate first = start("first")) {
            first.awaitElected(1);
            try (TestCandidate second = start("second")) {
                awaitQueueing(second);
                first.elector().resign().get(10, TimeUnit.SECONDS);
                second.awaitElected(1);
                awaitQueueing(first);
                second.elector().resign().get(10, TimeUnit.SECONDS);
                first.awaitElected(2);
            }
        }
    }

    @Test
    void aFollowerThatWaitsClosesWithoutWaitingAndWithoutAWarning() throws Exception {
        ElectorOptions patient =
                QUEUE.toBuilder().queueSlice(Duration.ofSeconds(10)).build();
        try (TestCandidate leader =
                        TestCandidate.start("leader", direct(SERVER), key, builder -> builder.options(patient));
                LogCapture log = LogCapture.of(ElectionLoop.class.getPackageName(), Level.WARN)) {
            leader.awaitElected(1);
            TestCandidate follower =
                    TestCandidate.start("follower", direct(SERVER), key, builder -> builder.options(patient));
            awaitQueueing(follower);
            int pid = follower.backendPid();
            long start = System.nanoTime();
            follower.close();
            assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(patient.queueSlice());
            assertThat(follower.elector().status().role()).isEqualTo(LeaderStatus.Role.STOPPED);
            assertThat(log.messages(Level.WARN)).isEmpty();
            // The server looks now and then whether somebody still waits for its answer.
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> LOCKS.session(pid).isEmpty());
            assertThat(leader.elector().isLeader()).isTrue();
        }
    }

    @Test
    void anIndexBuiltConcurrentlyMeanwhileEndsWithinAFewSlices() throws Exception {
        SERVER.execute("CREATE TABLE IF NOT EXISTS queue_test (id int)");
        try (TestCandidate leader = start("leader")) {
            leader.awaitElected(1);
            try (TestCandidate follower = start("follower");
                    Connection operator = SERVER.connect()) {
                awaitQueueing(follower);
                int pid = follower.backendPid();
                // What a wait costs: a snapshot.
                await().atMost(PATIENCE)
                        .until(() -> LOCKS.session(pid).orElseThrow().backendXmin() != null);
                long start = System.nanoTime();
                Sql.execute(operator, "CREATE INDEX CONCURRENTLY queue_test_" + Math.abs(bits) + " ON queue_test (id)");
                Duration took = Duration.ofNanos(System.nanoTime() - start);
                System.out.println(
                        "CREATE INDEX CONCURRENTLY beside a follower that waits: " + took.toMillis() + " ms");
                assertThat(took)
                        .as("a few slices, on a busy machine")
                        .isLessThan(QUEUE.queueSlice().multipliedBy(20));
                assertThat(leader.elector().isLeader()).isTrue();
            }
        }
    }

    @Test
    void waitingWritesNothingToTheServersLog() throws Exception {
        try (PostgresServer logging = PostgresServer.builder()
                .setting("logging_collector", "on")
                .setting("log_directory", "log")
                .setting("log_filename", "queue.log")
                .launch()) {
            ElectorOptions options =
                    QUEUE.toBuilder().queueSlice(Duration.ofMillis(100)).build();
            LockKey own = LockKey.of(1);
            try (TestCandidate leader =
                            TestCandidate.start("leader", direct(logging), own, builder -> builder.options(options));
                    Connection operator = logging.connect()) {
                leader.awaitElected(1);
                try (TestCandidate follower =
                        TestCandidate.start("follower", direct(logging), own, builder -> builder.options(options))) {
                    int pid = follower.backendPid();
                    for (int slice = 0; slice < 5; slice++) {
                        awaitSliceOf(operator, pid);
                    }
                    // Before the follower is closed: that may break off a wait, of which the server writes a line.
                    assertThat(Sql.text(operator, "SELECT pg_read_file('log/queue.log')"))
                            .contains("database system is ready")
                            .doesNotContain("ERROR", "lock timeout", "still waiting", "pg_advisory_lock");
                }
            }
        }
    }

    /** Waits until the session begins another slice. */
    private static void awaitSliceOf(Connection operator, int pid) throws Exception {
        String begun = "SELECT max(xact_start) FROM pg_stat_activity WHERE pid = " + pid;
        String before = Sql.text(operator, begun);
        await().atMost(PATIENCE).until(() -> {
            String now = Sql.text(operator, begun);
            return now != null && !now.equals(before);
        });
    }
}
