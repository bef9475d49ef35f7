package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.LeaderStatus.Role;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.PostgresServer.ShutdownMode;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.event.Level;

/** A server that forgot its locks is led only when every lease from before has run out. */
@Timeout(300)
class TakeoverDelayTest {

    /** So long that a candidate on a busy machine has a session before a lease has passed since the server's start. */
    private static final Duration LEASE = Duration.ofSeconds(8);

    private static final ElectorOptions AUTO = TestCandidate.FAST.toBuilder()
            .leaseDuration(LEASE)
            .takeoverDelay(TakeoverDelay.AUTO)
            .build();

    @AutoClose
    private static final PostgresServer server = PostgresServer.launch();

    private final LockKey key = LockKey.of(freshKeyBits());

    private TestCandidate start(String id, ElectorOptions options) {
        return TestCandidate.start(id, direct(server), key, builder -> builder.options(options));
    }

    @Test
    void afterARestartTheLockIsHeldForALeaseBeforeAnyoneLeads() {
        try (LogCapture log = LogCapture.of(ElectionLoop.class, Level.INFO)) {
            long beforeRestart = System.nanoTime();
            server.restart(ShutdownMode.FAST);
            try (TestCandidate candidate = start("waiting", AUTO)) {
                await().atMost(PATIENCE)
                        .until(() -> candidate.elector().status().role() == Role.TAKING_OVER);
                assertThat(candidate.elector().isLeader()).isFalse();
                TestCandidate.Event elected = candidate.awaitElected(1);
                assertThat(Duration.ofNanos(elected.atNanos() - beforeRestart))
                        .as("the server counts a part of it")
                        .isGreaterThan(LEASE.dividedBy(2));
                assertThat(log.messages(Level.INFO)).anyMatch(message -> message.contains("leads in"));
            }
        }
    }

    @Test
    void theCrashOfASingleBackendCountsAsARestart() throws Exception {
        try (TestCandidate settled = start("settled", AUTO)) {
            settled.awaitElected(1);
        }
        try (Connection victim = server.connect()) {
            int pid = Sql.backendPid(victim);
            assertThat(new ProcessBuilder("kill", "-9", Integer.toString(pid))
                            .start()
                            .waitFor())
                    .isZero();
            await().atMost(PATIENCE).until(() -> !victim.isValid(1));
        }
        try (TestCandidate candidate = start("waiting", AUTO)) {
            await().atMost(PATIENCE).until(() -> candidate.elector().status().role() == Role.TAKING_OVER);
            candidate.awaitElected(1);
        }
    }

    /** Whoever had the lock in between, and lost it unheard, may still trust itself. */
    @Test
    void aFixedDelayIsWaitedOutAfterAnOrderlyRelease() throws Exception {
        Duration delay = Duration.ofSeconds(2);
        ElectorOptions fixed =
                AUTO.toBuilder().takeoverDelay(TakeoverDelay.of(delay)).build();
        try (TestCandidate first = start("first", TestCandidate.FAST)) {
            first.awaitElected(1);
            try (TestCandidate second = start("second", fixed)) {
                second.backendPid();
                long resignedAt = System.nanoTime();
                first.elector().resign().get(20, TimeUnit.SECONDS);
                TestCandidate.Event elected = second.awaitElected(1);
                assertThat(Duration.ofNanos(elected.atNanos() - resignedAt)).isGreaterThan(delay);
            }
        }
    }

    @Test
    void aFixedDelayIsWaitedOutAfterACrash() {
        ElectorOptions fixed = AUTO.toBuilder()
                .takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(2)))
                .build();
        try (TestCandidate candidate = start("waiting", fixed)) {
            long startedAt = System.nanoTime();
            TestCandidate.Event elected = candidate.awaitElected(1);
            assertThat(Duration.ofNanos(elected.atNanos() - startedAt)).isGreaterThan(Duration.ofSeconds(2));
        }
    }

    @Test
    void aCandidateThatGivesWayWhileTakingOverSparesTheNextOneNothing() throws Exception {
        server.restart(ShutdownMode.FAST);
        try (TestCandidate first = start("first", AUTO)) {
            await().atMost(PATIENCE).until(() -> first.elector().status().role() == Role.TAKING_OVER);
            try (TestCandidate second = start("second", AUTO)) {
                second.backendPid();
                first.elector().pause().get(20, TimeUnit.SECONDS);
                await().atMost(PATIENCE).until(() -> second.elector().status().role() == Role.TAKING_OVER);
                second.awaitElected(1);
                assertThat(first.events()).isEmpty();
            }
        }
    }
}
