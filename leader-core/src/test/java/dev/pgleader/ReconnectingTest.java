package dev.pgleader;

import static dev.pgleader.ScriptedElection.RECONNECT_STEP;
import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LogCapture;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.slf4j.event.Level;

/** When a session is opened. */
class ReconnectingTest extends ElectionTest {

    @Test
    void waitsLongerAfterEachFailure() {
        for (int i = 0; i < 4; i++) {
            election.opens.add(fault(Fault.UNREACHABLE));
        }
        election.candidate(1).admit();
        for (int failures = 1; failures <= 4; failures++) {
            Duration delay = RECONNECT_STEP.multipliedBy(failures);
            assertThat(election.turn()).isEqualTo(delay);
            election.turnAfter(delay.minusNanos(1));
            assertThat(election.journal()).containsExactly("open");
            election.ticker.advanceNanos(1);
        }
        election.turn();
        assertThat(election.journal()).startsWith("open", "try [bigint:1]");
    }

    @Test
    void tellsItsOutageWhileItLasts() {
        election.opens.add(fault(Fault.UNREACHABLE));
        election.opens.add(fault(Fault.STANDBY));
        election.candidate(1).admit();
        election.turn();
        assertThat(sessionFault()).isEqualTo(Fault.UNREACHABLE);
        election.turnAfter(SECOND);
        assertThat(sessionFault()).isEqualTo(Fault.STANDBY);
        assertThat(election.loop.view().facts()).isNull();
        election.turnAfter(SECOND);
        assertThat(election.loop.view().problem()).isNull();
        assertThat(election.loop.view().facts()).isNotNull();
    }

    @Test
    void opensAtMostOneSessionPerTurn() {
        election.leader();
        election.session().checks.add(fault(Fault.CONNECTION_LOST));
        election.turnAfter(CHECK_INTERVAL);
        assertThat(election.journal()).containsExactly("check", "abort, nobody leading");
        election.opens.add(() -> {
            ScriptedSession session = election.newSession();
            session.checks.add(fault(Fault.CONNECTION_LOST));
            return session;
        });
        election.callbacks.runAll();
        election.turn();
        assertThat(count(election.journal(), "open")).isOne();
    }

    @Test
    void triesAtOnceAfterASessionThatLivedLongAndLaterAfterOneThatDidNot() {
        election.leader();
        election.session().checks.add(fault(Fault.CONNECTION_LOST));
        assertThat(election.turnAfter(CHECK_INTERVAL)).isZero();
        election.callbacks.runAll();
        election.opens.add(() -> {
            ScriptedSession session = election.newSession();
            session.tries.add(fault(Fault.CONNECTION_LOST));
            return session;
        });
        assertThat(election.turn()).isEqualTo(RECONNECT_STEP);
    }

    @Test
    void forgetsItsFailuresOnlyWhenASessionHasProvedItselfForAWhile() {
        for (int i = 0; i < 3; i++) {
            election.opens.add(fault(Fault.UNREACHABLE));
        }
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        election.run(RECONNECT_STEP.multipliedBy(6));
        election.turn();
        assertThat(candidate.leads()).isTrue();
        election.session().waits.add(fault(Fault.CONNECTION_LOST));
        election.loop.await(0); // Too soon to forget: the fourth failure.
        election.callbacks.runAll();
        assertThat(election.turn()).isEqualTo(RECONNECT_STEP.multipliedBy(4));
        election.run(Duration.ofMinutes(1));
        assertThat(candidate.leads()).isTrue();
        election.session().waits.add(fault(Fault.CONNECTION_LOST));
        election.loop.await(0);
        election.opens.add(fault(Fault.UNREACHABLE));
        assertThat(election.turn()).isEqualTo(RECONNECT_STEP);
    }

    @Test
    void forgetsItsFailuresAlsoWhileItFollows() {
        election.opens.add(fault(Fault.UNREACHABLE));
        election.opens.add(fault(Fault.UNREACHABLE));
        ScriptedCandidate candidate = election.candidate(1);
        election.server.take(candidate.key);
        candidate.admit();
        election.run(Duration.ofMinutes(1));
        election.session().waits.add(fault(Fault.CONNECTION_LOST));
        election.loop.await(0);
        election.opens.add(fault(Fault.UNREACHABLE));
        assertThat(election.turn()).isEqualTo(RECONNECT_STEP);
    }

    @Test
    void aDefectOfTheOpenerIsAnOutageLikeAnother() {
        election.opens.add(() -> {
            throw new IllegalStateException("scripted");
        });
        election.candidate(1).admit();
        assertThat(election.turn()).isEqualTo(RECONNECT_STEP);
        assertThat(sessionFault()).isEqualTo(Fault.UNREACHABLE);
    }

    /** R39: one attempt per retry interval, from the first failure on and however long it lasts. */
    @ParameterizedTest
    @EnumSource(
            value = Fault.class,
            names = {"UNREACHABLE", "CONNECTION_LOST", "TIMEOUT", "STANDBY", "READ_ONLY"})
    void theDelayStaysAtOneRetryIntervalWhileOnlyTheServerCanMendIt(Fault fault) {
        Backoff backoff = Backoff.of(ElectorOptions.defaults());
        List<Long> millis = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            millis.add(backoff.afterFailure(fault).toMillis());
        }
        assertThat(millis).allSatisfy(delay -> assertThat(delay).isBetween(800L, 1_200L));
        assertThat(new HashSet<>(millis)).as("jitter").hasSizeGreaterThan(5);
    }

    @ParameterizedTest
    @EnumSource(
            value = Fault.class,
            names = {"LOGIN_REFUSED", "SHARED_BACKEND", "LOCKS_NOT_REAL", "LEASE_NOT_ENFORCED", "UNSUPPORTED_SERVER"})
    void theDelayGrowsToItsLimitWhileAPersonHasSomethingToMend(Fault fault) {
        Backoff backoff = Backoff.of(ElectorOptions.defaults());
        List<Long> millis = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            millis.add(backoff.afterFailure(fault).toMillis());
        }
        assertThat(millis.get(0)).isBetween(800L, 1_200L);
        assertThat(millis.get(1)).isBetween(1_600L, 2_400L);
        assertThat(millis.subList(4, 20)).allSatisfy(delay -> assertThat(delay).isBetween(3_300L, 5_000L));
        assertThat(new HashSet<>(millis)).as("jitter").hasSizeGreaterThan(5);
        assertThat(backoff.afterFailure(Fault.UNREACHABLE).toMillis())
                .as("once the server can't be reached")
                .isBetween(800L, 1_200L);
        assertThat(backoff.afterFailure(fault).toMillis()).isBetween(800L, 1_200L);
        backoff.afterFailure(fault);
        backoff.reset();
        assertThat(backoff.afterFailure(fault).toMillis()).isBetween(800L, 1_200L);
    }

    /** R39: after a restart of the server each elector logged in three times within the first retry interval. */
    @Test
    void aDefaultElectorOpensAtMostOneSessionPerRetryIntervalAndIsBackWithinOne() {
        ElectorOptions steady = ElectorOptions.builder().retryJitter(0).build();
        ScriptedElection defaults = new ScriptedElection(steady, () -> Long.MIN_VALUE, Backoff.of(steady));
        ScriptedCandidate candidate = defaults.candidate(1);
        candidate.admit();
        defaults.run(Duration.ofMinutes(1));
        List<Long> openedAt = new ArrayList<>();
        long lostAt = defaults.ticker.nanos();
        for (int attempt = 0; attempt < 30; attempt++) {
            defaults.opens.add(() -> {
                openedAt.add(defaults.ticker.nanos() - lostAt);
                throw new LockSessionException(Fault.UNREACHABLE, "scripted");
            });
        }
        defaults.session().waits.add(fault(Fault.CONNECTION_LOST));
        defaults.loop.await(0);
        defaults.run(Duration.ofSeconds(10));
        assertThat(openedAt).hasSizeBetween(10, 11);
        defaults.opens.clear();
        defaults.run(RETRY_INTERVAL);
        assertThat(candidate.leads()).isTrue();
    }

    /** R39. */
    @Test
    void eachNewKindOfFaultIsLoggedOnceInAnOutage() {
        try (LogCapture log = LogCapture.of(ProblemLog.class, Level.DEBUG)) {
            List<ScriptedSession.Answer<ScriptedSession>> failures = List.of(
                    fault(Fault.UNREACHABLE),
                    fault(Fault.UNREACHABLE),
                    unreachable(new SQLException("refused", "08001")),
                    unreachable(new SQLException("refused", "08001")),
                    unreachable(new SQLException("no such password", "28P01")),
                    unreachable(new IllegalStateException("no pool", new SQLException("wrong password", "28P01"))),
                    () -> {
                        throw new IllegalStateException("a defect of the pool");
                    },
                    fault(Fault.UNREACHABLE));
            election.opens.addAll(failures);
            election.candidate(1).admit();
            election.run(Duration.ofMinutes(1));
            assertThat(log.messages(Level.WARN))
                    .hasSize(5)
                    .last()
                    .asString()
                    .contains("Opening a session failed: java.lang.IllegalStateException: a defect of the pool");
            assertThat(log.events(Level.DEBUG)).hasSize(5).allMatch(event -> event.throwable() != null);
        }
    }

    private static ScriptedSession.Answer<ScriptedSession> unreachable(Exception cause) {
        return () -> {
            throw new LockSessionException(Fault.UNREACHABLE, "scripted", cause);
        };
    }

    @Test
    void aSourceThatFailsDifferentlyEachTimeDoesNotFillTheLog() {
        try (LogCapture log = LogCapture.of(ProblemLog.class, Level.WARN)) {
            for (int i = 0; i < 200; i++) {
                String state = "A" + i;
                election.opens.add(unreachable(new SQLException("scripted", state)));
            }
            election.candidate(1).admit();
            election.run(Duration.ofMinutes(4));
            assertThat(log.events()).hasSize(20);
        }
    }

    /** R40, as a source in Kotlin may, whose exceptions nobody declares. */
    @Test
    void aSourceThatThrowsACheckedExceptionIsAnOutageLikeAnother() {
        election.opens.add(() -> {
            throw Sneaky.thrown(new java.io.IOException("scripted"));
        });
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        assertThat(election.turn()).isEqualTo(RECONNECT_STEP);
        assertThat(sessionFault()).isEqualTo(Fault.UNREACHABLE);
        election.run(SECOND);
        assertThat(candidate.leads()).isTrue();
    }
}
