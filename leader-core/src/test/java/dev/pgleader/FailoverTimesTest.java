package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKey;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How fast a loss is noticed and leadership handed over. */
@Timeout(300)
class FailoverTimesTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final int ROUNDS = Integer.getInteger("failover.rounds", 5);

    /** So long that what happens before it is over comes from no check and no poll. */
    private static final Duration FAR_OFF = Duration.ofSeconds(30);

    private static final Duration SOON = FAR_OFF.dividedBy(2);

    private final LockKey key = freshKey();

    @Test
    void theEndOfTheBackendIsNoticedWithoutACheck() throws Exception { // C13 (a), F12
        ElectorOptions options = FAST.toBuilder()
                .leaseDuration(FAR_OFF.multipliedBy(3))
                .healthCheckInterval(FAR_OFF)
                .build();
        List<Long> micros = new ArrayList<>();
        try (Connection operator = SERVER.connect();
                TestCandidate leader =
                        TestCandidate.start("leader", direct(SERVER), key, builder -> builder.options(options))) {
            for (int term = 1; term <= ROUNDS; term++) {
                leader.awaitElected(term);
                String terminate = "SELECT pg_terminate_backend(" + leader.backendPid() + ")";
                long terminatedAt = System.nanoTime();
                Sql.execute(operator, terminate);
                TestCandidate.Event revoked = leader.awaitRevoked(term);
                assertThat(revoked.reason()).isEqualTo(RevocationReason.SESSION_LOST);
                micros.add(TimeUnit.NANOSECONDS.toMicros(revoked.atNanos() - terminatedAt));
            }
            leader.assertCallbacksInOrder();
        }
        Percentiles times = new Percentiles("pg_terminate_backend to onRevoked", micros);
        assertThat(times.at(100)).as(times.toString()).isLessThan(SOON);
    }

    @Test
    void resigningHandsOverWithoutAPoll() throws Exception {
        ElectorOptions options = FAST.toBuilder()
                .retryInterval(FAR_OFF)
                .maxReconnectDelay(FAR_OFF)
                .leaseDuration(Duration.ofSeconds(20))
                .healthCheckTimeout(Duration.ofSeconds(10))
                .coolDown(Duration.ofMillis(250))
                .build();
        List<Long> micros = new ArrayList<>();
        try (TestCandidate first =
                TestCandidate.start("first", direct(SERVER), key, builder -> builder.options(options))) {
            first.awaitElected(1);
            try (TestCandidate second =
                    TestCandidate.start("second", direct(SERVER), key, builder -> builder.options(options))) {
                TestCandidate from = first;
                TestCandidate to = second;
                for (int round = 0; round < ROUNDS; round++) {
                    to.backendPid();
                    long terms = to.elector().status().terms();
                    TestCandidate resigning = from;
                    TestCandidate successor = to;
                    await().atMost(PATIENCE)
                            .until(() -> successor
                                    .elector()
                                    .status()
                                    .sinceLastAttempt()
                                    .isPresent());
                    long resignedAt = System.nanoTime();
                    from.elector().resign().get(20, TimeUnit.SECONDS);
                    TestCandidate.Event elected = to.awaitElected(terms + 1);
                    micros.add(TimeUnit.NANOSECONDS.toMicros(elected.atNanos() - resignedAt));
                    // It hears of the next release only as a candidate that isn't cooling down.
                    await().atMost(PATIENCE)
                            .until(() -> System.nanoTime() - resignedAt
                                    > 4 * options.coolDown().toNanos());
                    from = successor;
                    to = resigning;
                }
                first.assertCallbacksInOrder();
                second.assertCallbacksInOrder();
            }
        }
        Percentiles times = new Percentiles("resign() to the other's onElected", micros);
        assertThat(times.at(100)).as(times.toString()).isLessThan(SOON);
    }
}
