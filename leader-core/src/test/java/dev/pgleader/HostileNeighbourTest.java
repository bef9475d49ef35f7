package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.freshKey;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.NotificationQueue;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Elections with the default options, while somebody else in the same server does the worst that a mere login can do. */
@Timeout(300)
class HostileNeighbourTest {

    private static final Duration LASTING = Duration.ofSeconds(Integer.getInteger("hostile.seconds", 3));
    /** The default options, but for the wait after the start of the server. */
    private static final ElectorOptions OPTIONS = ElectorOptions.defaults().toBuilder()
            .takeoverDelay(TakeoverDelay.NONE)
            .build();

    private static final double LEAST_SHARE_LED = 0.95;
    private static final String SERVICE = "service";
    private static final String STRANGER = "stranger";
    private static final int FORGED_A_SECOND = 50;

    /** A retry with its jitter, and how slow a loaded machine is. */
    private static final Duration LONGEST_HAND_OVER =
            OPTIONS.retryInterval().multipliedBy(6).dividedBy(5).plusSeconds(3);

    @AutoClose
    private static final PostgresServer SERVER = PostgresServer.launch();

    private static boolean queueIsSmall;

    private final LockKey key = freshKey();
    private TestCandidate first;
    private TestCandidate second;

    @BeforeAll
    static void createRoles() throws SQLException {
        SERVER.createRole(SERVICE, "");
        SERVER.createRole(STRANGER, "");
        queueIsSmall = NotificationQueue.shrink(SERVER);
    }

    @BeforeEach
    void elect() {
        first = start("first");
        first.awaitElected(1);
        second = start("second");
        await().atMost(PATIENCE)
                .until(() -> second.elector()
                        .status()
                        .knownLeader()
                        .filter(leader -> leader.instanceId().equals("first"))
                        .isPresent());
    }

    private TestCandidate start(String id) {
        ConnectionSource source = ConnectionSource.of(SERVER.url(PostgresServer.DEFAULT_DATABASE), SERVICE, "");
        return TestCandidate.start(id, source, key, builder -> builder.options(OPTIONS));
    }

    @AfterEach
    void close() throws SQLException {
        first.close();
        second.close();
        SERVER.execute("SELECT pg_notification_queue_usage()");
    }

    @Test
    @DisplayName("N01: while the notification queue is full, checks go on, and a hand-over takes as long as a retry")
    void fullQueue() throws Exception {
        assumeTrue(queueIsSmall, NotificationQueue.TOO_LARGE);
        try (NotificationQueue full = NotificationQueue.full(SERVER)) {
            assertLeadsOnWhile(full);
        }
    }

    @Test
    @DisplayName("N01: while a commit hangs that notified, checks go on, and a hand-over takes as long as a retry")
    void hangingCommit() throws Exception {
        try (NotificationQueue heldUp = NotificationQueue.heldUp(SERVER)) {
            assertLeadsOnWhile(heldUp);
        }
    }

    /** A hand-over, and for all the time somebody leads and is checked. */
    private void assertLeadsOnWhile(NotificationQueue queue) {
        List<Integer> sessions = List.of(first.backendPid(), second.backendPid());
        long begin = System.nanoTime();
        try (OverlapWatch watch = new OverlapWatch(first, second)) {
            first.elector().resign().join();
            long resigned = System.nanoTime();
            long electedAt = second.awaitElected(1).atNanos();
            Duration handOver = Duration.ofNanos(electedAt - resigned);
            long notLed = electedAt - begin;
            long last = electedAt;
            while (System.nanoTime() - begin < LASTING.toNanos()) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
                long now = System.nanoTime();
                if (!second.elector().isLeader()) {
                    notLed += now - last;
                }
                last = now;
                assertThat(second.elector().status().sinceLastCheck())
                        .hasValueSatisfying(since -> assertThat(since).isLessThan(OPTIONS.leaseDuration()));
            }
            double led = 1 - (double) notLed / (last - begin);
            System.out.printf(
                    "%s for %d s: hand-over %d ms, led %.2f %%%n",
                    queue, LASTING.toSeconds(), handOver.toMillis(), 100 * led);
            assertThat(handOver).isLessThan(LONGEST_HAND_OVER);
            assertThat(led + (double) (electedAt - begin) / (last - begin)).isGreaterThan(LEAST_SHARE_LED);
            assertThat(second.events()).as("terms").hasSize(1);
            assertThat(List.of(first.backendPid(), second.backendPid()))
                    .as("sessions")
                    .isEqualTo(sessions);
            watch.assertNeverTwo();
        }
    }

    @Test
    @DisplayName("R04, R05, R06: what a stranger says ends no term, makes no second leader, and nobody believes it")
    void forgedNotices() throws Exception {
        long begin = System.nanoTime();
        int told = 0;
        try (OverlapWatch watch = new OverlapWatch(first, second);
                Connection stranger = SERVER.connect(PostgresServer.DEFAULT_DATABASE, STRANGER, "")) {
            List<String> forged = List.of(
                    "released " + key,
                    "resign " + key,
                    "elected " + key + " second",
                    "elected " + key + " stranger 1",
                    "leads " + key,
                    "released",
                    "resign " + key + " ");
            while (System.nanoTime() - begin < LASTING.toNanos()) {
                Sql.execute(stranger, "NOTIFY pgleader, '" + forged.get(told % forged.size()) + "'");
                told++;
                LockSupport.parkNanos(begin + told * TimeUnit.SECONDS.toNanos(1) / FORGED_A_SECOND - System.nanoTime());
                assertThat(first.elector().isLeader()).isTrue();
                for (TestCandidate candidate : List.of(first, second)) {
                    assertThat(candidate.elector().status().knownLeader())
                            .hasValueSatisfying(
                                    leader -> assertThat(leader.instanceId()).isEqualTo("first"));
                }
            }
            watch.assertNeverTwo();
        }
        System.out.println(told + " forged notices in " + LASTING.toSeconds() + " s");
        assertThat(told).isGreaterThan(10);
        assertThat(first.events()).as("terms").hasSize(1);
        assertThat(second.events()).isEmpty();
    }
}
