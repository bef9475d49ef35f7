package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LogCapture;
import java.time.Duration;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.slf4j.event.Level;

/** How a term ends that nobody meant to end. */
class LosingTest extends ElectionTest {

    private static RevocationReason reasonOf(Fault fault) {
        return switch (fault) {
            case TIMEOUT -> RevocationReason.CHECK_TIMEOUT;
            case STANDBY, READ_ONLY -> RevocationReason.NOT_WRITABLE;
            case LOCK_LOST, LOCKS_NOT_REAL, SHARED_BACKEND, LEASE_NOT_ENFORCED -> RevocationReason.LOCK_LOST;
            case UNREACHABLE, LOGIN_REFUSED, CONNECTION_LOST, LOCK_TABLE_FULL, UNSUPPORTED_SERVER, STATEMENT_FAILED ->
                RevocationReason.SESSION_LOST;
        };
    }

    @ParameterizedTest
    @EnumSource(Fault.class)
    void everyFaultOfACheckEndsTheTermWithItsReason(Fault fault) { // C13, C15, X10
        ScriptedCandidate candidate = election.leader();
        ScriptedSession session = election.session();
        session.checks.add(fault(fault));
        election.turnAfter(CHECK_INTERVAL);
        assertThat(candidate.leads()).isFalse();
        assertThat(session.isEnded()).isTrue();
        election.callbacks.runAll();
        assertThat(election.journal())
                .containsExactly("check", "abort, nobody leading", "onRevoked 1 " + reasonOf(fault));
        assertThat(sessionFault()).isEqualTo(fault);
    }

    @ParameterizedTest
    @EnumSource(Fault.class)
    void everyFaultWhileWaitingEndsTheTermAtOnce(Fault fault) {
        ScriptedCandidate candidate = election.leader();
        election.session().waits.add(fault(fault));
        election.loop.await(SECOND.toNanos());
        assertThat(candidate.leads()).isFalse();
        election.callbacks.runAll();
        assertThat(election.journal()).containsExactly("abort, nobody leading", "onRevoked 1 " + reasonOf(fault));
    }

    @Test
    void aFaultOfATryForOneKeyEndsTheTermsOfTheOthers() {
        ScriptedCandidate leader = election.leader();
        election.candidate(2).admit();
        election.session().tries.add(fault(Fault.STATEMENT_FAILED));
        election.turn();
        election.callbacks.runAll();
        assertThat(leader.leads()).isFalse();
        assertThat(election.journal())
                .containsExactly("try [bigint:2]", "abort, nobody leading", "onRevoked 1 SESSION_LOST");
    }

    @Test
    void aSessionThatBreaksWhileItTellsEndsTheTerm() {
        ScriptedCandidate candidate = election.leader();
        var unused = candidate.requestResignation();
        election.session().tellings.add(fault(Fault.TIMEOUT));
        election.turn();
        election.callbacks.runAll();
        assertThat(candidate.leads()).isFalse();
        assertThat(election.journal()).endsWith("abort, nobody leading", "onRevoked 1 CHECK_TIMEOUT");
    }

    @Test
    void aLockThatIsGoneThoughTheSessionLivesIsLost() { // C13 (c)
        ScriptedCandidate candidate = election.leader();
        election.session().checks.add(Set::of);
        election.turnAfter(CHECK_INTERVAL);
        election.callbacks.runAll();
        assertThat(candidate.leads()).isFalse();
        assertThat(election.journal()).containsExactly("check", "abort, nobody leading", "onRevoked 1 LOCK_LOST");
    }

    @Test
    void aLockThatNobodyTookIsDoubtEnough() {
        ScriptedCandidate candidate = election.leader();
        election.session().checks.add(() -> Set.of(candidate.key, LockKey.of(99)));
        election.turnAfter(CHECK_INTERVAL);
        assertThat(candidate.leads()).isFalse();
        assertThat(election.journal()).containsExactly("check", "abort, nobody leading");
        assertThat(sessionFault()).isEqualTo(Fault.LOCK_LOST);
    }

    @Test
    void aFollowerThatHoldsALockIsDoubtEnough() {
        ScriptedCandidate follower = election.follower();
        election.session().checks.add(() -> Set.of(LockKey.of(1)));
        follower.verify();
        election.turn();
        assertThat(election.journal()).containsExactly("check", "abort, nobody leading");
        election.callbacks.runAll();
        assertThat(follower.verified).isCompletedWithValue(false);
    }

    @Test
    void theKeyIsNotTriedAgainBeforeOnRevokedHasReturned() {
        ScriptedCandidate candidate = election.leader();
        election.session().checks.add(fault(Fault.CONNECTION_LOST));
        for (Duration time = Duration.ZERO; time.compareTo(Duration.ofMinutes(2)) < 0; time = time.plus(SECOND)) {
            election.turnAfter(SECOND); // The callbacks don't run.
        }
        assertThat(election.journal()).contains("open").noneMatch(entry -> entry.startsWith("try"));
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.REVOKING);
        election.callbacks.runAll();
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.REVOKING);
        election.turnAfter(RETRY_INTERVAL);
        assertThat(election.journal()).contains("onRevoked 1 SESSION_LOST", "try [bigint:1]");
        assertThat(candidate.leads()).isTrue();
    }

    @Test
    void aTermThatIsLostBeforeItWasToldIsNotToldAndTheNextOneIs() {
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        election.turn();
        election.session().checks.add(fault(Fault.CONNECTION_LOST));
        election.turnAfter(CHECK_INTERVAL);
        election.callbacks.runAll();
        election.run(SECOND);
        assertThat(election.journal())
                .contains("onElected 2")
                .noneMatch(entry -> entry.startsWith("onRevoked") || entry.equals("onElected 1"));
    }

    @Test
    void anAbortThatFailsDoesNotEndTheElection() {
        ScriptedCandidate candidate = election.leader();
        election.session().abortFailure = new IllegalStateException("scripted");
        election.session().checks.add(fault(Fault.TIMEOUT));
        election.run(CHECK_INTERVAL.plus(SECOND));
        assertThat(candidate.leads()).isTrue();
        assertThat(election.journal()).contains("onRevoked 1 CHECK_TIMEOUT", "onElected 2");
    }

    @Test
    void aServerThatGrantsALockAndNeverShowsItIsOneOutage() {
        try (LogCapture log = LogCapture.of(ElectionLoop.class.getPackageName(), Level.INFO)) {
            for (int i = 0; i < 60; i++) {
                election.opens.add(() -> {
                    ScriptedSession session = election.newSession();
                    session.checks.add(Set::of);
                    return session;
                });
            }
            election.candidate(1).admit();
            election.run(Duration.ofMinutes(2));
            assertThat(count(election.journal(), "open")).isGreaterThan(10);
            assertThat(log.events()).hasSize(1);
        }
    }

    @Test
    void anOutageIsOneWarningAtItsStartOneLineAtItsEndAndAReminderNowAndThen() {
        election.leader();
        try (LogCapture log = LogCapture.of(ElectionLoop.class.getPackageName(), Level.INFO)) {
            election.session().checks.add(fault(Fault.UNREACHABLE));
            for (int i = 0; i < 500; i++) {
                election.opens.add(fault(Fault.UNREACHABLE));
            }
            election.run(Duration.ofMinutes(4));
            assertThat(log.messages(Level.WARN))
                    .containsExactly("[test] No trustworthy session: UNREACHABLE: scripted UNREACHABLE");
            election.run(Duration.ofMinutes(4));
            assertThat(log.messages(Level.WARN))
                    .hasSize(2)
                    .last()
                    .asString()
                    .startsWith("[test] No trustworthy session for 3");
            election.opens.clear();
            election.run(Duration.ofMinutes(2));
            assertThat(log.messages(Level.INFO))
                    .filteredOn(line -> line.contains("Session back"))
                    .hasSize(1);
        }
    }
}
