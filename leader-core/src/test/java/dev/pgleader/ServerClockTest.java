package dev.pgleader;

import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKey;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.WallClock;
import java.sql.Connection;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A server whose clock is wrong or is set, and whose statistics are reset: none of that delays a takeover. */
@Timeout(180)
class ServerClockTest {

    private static final ElectorOptions OPTIONS =
            TestCandidate.FAST.toBuilder().takeoverDelay(TakeoverDelay.AUTO).build();

    /** A lease and a retry, and how slow a loaded machine is; a delay that an hour of the clock makes is far longer. */
    private static final Duration BOUND =
            OPTIONS.leaseDuration().plus(OPTIONS.retryInterval()).plusSeconds(10);

    private static final Duration HOUR = Duration.ofHours(1);
    private static final Duration START = HOUR.multipliedBy(3);

    private final LockKey key = freshKey();

    @Test
    @DisplayName(
            "R10, R13, N10: an hour ahead, set back, an hour before its own start, and without statistics: there is a leader in time")
    void theServersClockIsWrong() throws Exception {
        assumeTrue(WallClock.available(), WallClock.MISSING);
        try (WallClock clock = new WallClock()) {
            // It doesn't matter what is right: the server can compare its clock only with what it was when it started.
            clock.set(START);
            try (PostgresServer server = PostgresServer.builder().clock(clock).launch();
                    TcpProxy network = new TcpProxy(server.port());
                    Connection observer = server.connect();
                    TestCandidate candidate = TestCandidate.start(
                            "only", direct(server, network.port()), key, builder -> builder.options(OPTIONS))) {
                assertTakesOver(network, candidate, "as when it started");
                for (Duration change : List.of(HOUR, HOUR.negated(), HOUR.negated(), HOUR.multipliedBy(2))) {
                    Duration before = ahead(observer);
                    clock.set(before.plus(change));
                    assertThat(ahead(observer).minus(before)).isCloseTo(change, Duration.ofMinutes(1));
                    assertTakesOver(network, candidate, "set by " + change);
                }
                for (String statistics : new String[] {"bgwriter", "archiver", "wal", "io"}) {
                    Sql.execute(observer, "SELECT pg_stat_reset_shared('" + statistics + "')");
                }
                Sql.execute(observer, "SELECT pg_stat_reset()");
                assertTakesOver(network, candidate, "statistics reset");
            }
        }
    }

    private static Duration ahead(Connection observer) throws Exception {
        String epoch = Sql.text(observer, "SELECT extract(epoch FROM clock_timestamp())::bigint::text");
        return Duration.between(Instant.now(), Instant.ofEpochSecond(Long.parseLong(epoch)));
    }

    /** Its session ends, so that it has to be elected anew by a new one. */
    private static void assertTakesOver(TcpProxy network, TestCandidate candidate, String what) {
        await().atMost(BOUND).until(() -> candidate.elector().isLeader());
        long term = candidate.elector().status().terms();
        long lostAt = System.nanoTime();
        network.reset();
        Duration took = Duration.ofNanos(candidate.awaitElected(term + 1).atNanos() - lostAt);
        System.out.println(what + ": elected after " + took.toMillis() + " ms");
        assertThat(took).as(what).isLessThan(BOUND);
    }
}
