package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A standby is promoted while the old primary lives on: all electors move to the new one, and never do two lead. */
@Timeout(300)
class PromotionTest {

    private static final Duration LEASE = Duration.ofMillis(2_500);
    private static final ElectorOptions OPTIONS = FAST.toBuilder()
            .leaseDuration(LEASE)
            .safetyMargin(Duration.ofMillis(500))
            .healthCheckInterval(Duration.ofMillis(200))
            .healthCheckTimeout(Duration.ofMillis(1_700))
            .takeoverDelay(TakeoverDelay.of(LEASE))
            .build();

    private final long bits = freshKeyBits();
    private final LockKey key = LockKey.of(bits);

    @AutoClose
    private final PostgresServer primary = PostgresServer.launch();

    @AutoClose
    private final PostgresServer standby = primary.standby();

    PromotionTest() throws SQLException {}

    private TestCandidate start(String id, int... ports) {
        String hosts =
                Arrays.stream(ports).mapToObj(port -> "localhost:" + port).collect(Collectors.joining(","));
        ConnectionSource source = ConnectionSource.of(
                "jdbc:postgresql://" + hosts + "/" + PostgresServer.DEFAULT_DATABASE,
                primary.superuser(),
                primary.superuserPassword());
        return TestCandidate.start(id, source, key, builder -> builder.options(OPTIONS));
    }

    /** Waits until each of them has a session on this server. */
    private static void awaitSessions(LockTable server, TestCandidate... candidates) {
        for (TestCandidate candidate : candidates) {
            await().atMost(PATIENCE)
                    .until(() -> server.session(candidate.backendPid()).isPresent());
        }
    }

    private static void awaitProblem(TestCandidate candidate, Fault fault, String message) {
        await().atMost(PATIENCE)
                .until(() -> candidate
                        .elector()
                        .status()
                        .problem()
                        .filter(problem -> problem.fault().filter(fault::equals).isPresent()
                                && problem.message().contains(message))
                        .isPresent());
    }

    @Test
    @DisplayName("C15, C16: a fenced primary is left at the next check, and a standby refused until it is promoted")
    void aFencedPrimaryIsLeftForThePromotedStandby() throws Exception {
        try (LockTable onPrimary = new LockTable(primary, PostgresServer.DEFAULT_DATABASE);
                LockTable onStandby = new LockTable(standby, PostgresServer.DEFAULT_DATABASE);
                TestCandidate first = start("first", primary.port(), standby.port())) {
            first.awaitElected(1);
            try (TestCandidate second = start("second", standby.port(), primary.port());
                    TestCandidate third = start("third", standby.port());
                    OverlapWatch watch = new OverlapWatch(first, second, third)) {
                awaitSessions(onPrimary, first, second);
                awaitProblem(third, Fault.STANDBY, "connect to the primary");
                assertThat(onPrimary.holders(bits)).containsExactly(first.backendPid());

                primary.fence();
                TestCandidate.Event revoked = first.awaitRevoked(1);
                // On a busy machine the check may get no answer in time.
                assertThat(revoked.reason())
                        .isIn(
                                RevocationReason.NOT_WRITABLE,
                                RevocationReason.CHECK_TIMEOUT,
                                RevocationReason.LEASE_EXPIRED);
                for (TestCandidate candidate : List.of(first, second)) {
                    awaitProblem(candidate, Fault.UNREACHABLE, "primary");
                }
                assertThat(onPrimary.holders(bits)).isEmpty();
                assertThat(onStandby.holders(bits)).isEmpty();

                standby.promote();
                await().atMost(PATIENCE)
                        .until(() -> first.elector().isLeader()
                                || second.elector().isLeader()
                                || third.elector().isLeader());
                awaitSessions(onStandby, first, second, third);
                assertThat(onStandby.holders(bits)).hasSize(1);
                assertThat(onPrimary.holders(bits)).isEmpty();
                assertThat(second.events().size()
                                + third.events().size()
                                + first.events().size())
                        .as("one term on each primary")
                        .isEqualTo(3);
                watch.assertNeverTwo();
            }
        }
    }

    @Test
    @DisplayName(
            "C15: a leader that is cut off from the old primary ceases to lead before another leads on the new one")
    void aPrimaryThatIsCutOffIsLeftForThePromotedStandby() throws Exception {
        try (LockTable onStandby = new LockTable(standby, PostgresServer.DEFAULT_DATABASE);
                TcpProxy fromFirst = new TcpProxy(primary.port());
                TcpProxy fromSecond = new TcpProxy(primary.port());
                TestCandidate first = start("first", fromFirst.port(), standby.port())) {
            first.awaitElected(1);
            try (TestCandidate second = start("second", fromSecond.port(), standby.port());
                    OverlapWatch watch = new OverlapWatch(first, second)) {
                second.backendPid();
                standby.promote();
                long cutAt = System.nanoTime();
                // The leader isn't told, the other one moves at once: nothing is worse for a lease.
                fromFirst.existing().flow(Flow.SWALLOW);
                fromFirst.refuse();
                fromSecond.refuse();
                fromSecond.reset();

                TestCandidate.Event elected = second.awaitElected(1);
                assertThat(first.awaitRevoked(1).reason())
                        .isIn(RevocationReason.CHECK_TIMEOUT, RevocationReason.LEASE_EXPIRED);
                assertThat(Duration.ofNanos(elected.atNanos() - cutAt))
                        .isLessThan(LEASE.multipliedBy(2).plus(PATIENCE));
                primary.execute("CREATE TABLE still_writable ()");

                awaitSessions(onStandby, first);
                second.elector().resign().get(10, TimeUnit.SECONDS);
                first.awaitElected(2);
                assertThat(onStandby.holders(bits)).containsExactly(first.backendPid());
                watch.assertNeverTwo();
            }
        }
    }
}
