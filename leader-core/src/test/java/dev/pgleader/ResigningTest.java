package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How a term ends in order. */
class ResigningTest extends ElectionTest {

    @Test
    void onRevokedReturnsBeforeTheLockIsReleased() {
        ScriptedCandidate candidate = election.leader();
        candidate.resign();
        CompletableFuture<Void> released = candidate.released;
        election.turn();
        assertThat(candidate.leads()).isFalse();
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.RESIGNING);
        assertThat(election.session().held).containsExactly(candidate.key);
        election.callbacks.runAll();
        assertThat(released).isNotDone();
        election.turn();
        assertThat(election.journal())
                .containsExactly(
                        "onRevoked 1 RESIGNED", "release [bigint:1], nobody leading", "tell [released bigint:1]");
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.FOLLOWER);
        election.callbacks.runAll();
        assertThat(released).isCompleted();
    }

    @Test
    void theLockIsStillCheckedUntilItIsReleased() {
        election.leader().resign();
        for (int i = 0; i < 14; i++) {
            election.turnAfter(SECOND);
        }
        assertThat(election.journal()).hasSize(4).containsOnly("check");
    }

    @Test
    void theRevokeTimeoutReleasesTheLockAllTheSame() { // C36
        ScriptedCandidate candidate = election.leader();
        candidate.resign();
        CompletableFuture<Void> released = candidate.released;
        election.turn();
        election.turnAfter(REVOKE_TIMEOUT.minusMillis(1));
        assertThat(count(election.journal(), "release")).isZero();
        election.turnAfter(Duration.ofMillis(1));
        assertThat(count(election.journal(), "release")).isOne();
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.REVOKING);
        for (int i = 0; i < 60; i++) {
            election.turnAfter(SECOND);
        }
        assertThat(count(election.journal(), "try"))
                .as("tries while onRevoked is under way")
                .isZero();
        election.callbacks.runAll();
        assertThat(released).isCompleted();
        election.run(COOL_DOWN.plus(RETRY_INTERVAL));
        assertThat(candidate.leads()).isTrue();
    }

    @Test
    void theKeyIsNotTriedAgainInTheCoolDown() {
        ScriptedCandidate candidate = election.leader();
        candidate.resign();
        election.turn();
        election.callbacks.runAll();
        election.turn();
        election.run(COOL_DOWN.minusMillis(1));
        assertThat(election.journal()).noneMatch(entry -> entry.startsWith("try"));
        election.run(RETRY_INTERVAL);
        assertThat(election.journal()).contains("try [bigint:1]");
        assertThat(candidate.leads()).isTrue();
    }

    @Test
    void aFollowerThatResignsHoldsNoLockAndLetsOthersGoFirst() {
        ScriptedCandidate candidate = election.follower();
        candidate.resign();
        CompletableFuture<Void> released = candidate.released;
        election.turn();
        election.callbacks.runAll();
        assertThat(released).isCompleted();
        election.run(COOL_DOWN.minusMillis(1));
        assertThat(election.journal()).isEmpty();
    }

    @Test
    void aSessionThatIsLostMeanwhileTakesTheLockWithIt() {
        ScriptedCandidate candidate = election.leader();
        candidate.resign();
        CompletableFuture<Void> released = candidate.released;
        election.turn();
        election.session().checks.add(fault(Fault.CONNECTION_LOST));
        election.turnAfter(CHECK_INTERVAL);
        election.run(SECOND);
        assertThat(released).isCompleted();
        assertThat(election.journal())
                .contains("check", "abort, nobody leading", "onRevoked 1 RESIGNED")
                .noneMatch(entry -> entry.startsWith("release"));
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void theCoolDownCountsFromOnRevokedAlsoIfTheLockWentBefore(boolean lost) {
        ScriptedCandidate candidate = election.leader();
        candidate.resign();
        election.turn();
        if (lost) {
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
        }
        for (int i = 0; i < 40; i++) {
            election.turnAfter(SECOND); // Long after the revoke timeout.
        }
        assertThat(election.session().held).isEmpty();
        election.journal();
        election.run(COOL_DOWN.minusMillis(1));
        assertThat(election.journal()).contains("onRevoked 1 RESIGNED").noneMatch(entry -> entry.startsWith("try"));
        election.run(RETRY_INTERVAL.multipliedBy(2));
        assertThat(candidate.leads()).isTrue();
    }

    @Test
    void aReleaseThatFailsEndsTheSession() { // C26
        ScriptedCandidate candidate = election.leader();
        ScriptedSession session = election.session();
        candidate.resign();
        CompletableFuture<Void> released = candidate.released;
        session.releases.add(fault(Fault.LOCK_LOST));
        election.turn();
        election.callbacks.runAll();
        election.turn();
        assertThat(session.isEnded()).isTrue();
        assertThat(sessionFault()).isEqualTo(Fault.LOCK_LOST);
        election.callbacks.runAll();
        assertThat(released).isCompleted();
    }

    @Test
    void resigningTwiceIsOneRelease() {
        ScriptedCandidate candidate = election.leader();
        candidate.resign();
        CompletableFuture<Void> first = candidate.released;
        candidate.resign();
        CompletableFuture<Void> second = candidate.released;
        election.turn();
        election.callbacks.runAll();
        election.turn();
        election.callbacks.runAll();
        assertThat(first).isCompleted();
        assertThat(second).isCompleted();
        assertThat(count(election.journal(), "release")).isOne();
    }

    @Test
    void theOtherKeysOfTheSessionStay() {
        ScriptedCandidate candidate = election.leader();
        ScriptedCandidate other = election.candidate(2);
        other.admit();
        election.turn();
        candidate.resign();
        election.run(SECOND.multipliedBy(20));
        assertThat(other.leads()).isTrue();
        assertThat(other.state().terms()).isOne();
        assertThat(count(election.journal(), "abort")).isZero();
    }

    @Test
    void aStartThatFailsIsRevokedAndReleased() { // C28
        ScriptedCandidate candidate = election.candidate(1);
        candidate.failsWith = new IllegalStateException("scripted");
        candidate.admit();
        election.turn();
        election.callbacks.runAll();
        election.turn();
        assertThat(candidate.leads()).isFalse();
        election.callbacks.runAll();
        election.turn();
        assertThat(election.journal())
                .containsExactly(
                        "open",
                        "try [bigint:1]",
                        "check",
                        "onElected 1",
                        "onRevoked 1 CALLBACK_FAILED",
                        "release [bigint:1], nobody leading",
                        "tell [released bigint:1]");
        assertThat(candidate.standing().lastRevocation()).isEqualTo(RevocationReason.CALLBACK_FAILED);
    }

    @Test
    void aStartThatSucceedsAfterOneThatFailedIsAGoodTerm() {
        ScriptedCandidate candidate = election.candidate(1);
        candidate.failsWith = new IllegalStateException("scripted");
        candidate.admit();
        election.run(SECOND);
        candidate.failsWith = null;
        election.run(Duration.ofMinutes(1));
        assertThat(candidate.leads()).isTrue();
        assertThat(candidate.state().terms()).isEqualTo(2);
    }

    @Test
    void startsThatFailAreTriedLessAndLessOften() { // C28
        ScriptedCandidate candidate = election.candidate(1);
        candidate.failsWith = new AssertionError("scripted");
        candidate.admit();
        election.run(Duration.ofMinutes(1)); // Waits about 2, 2 + 4, 2 + 4 + 8, 2 + 4 + 8 + 16 s.
        assertThat(candidate.state().terms()).isEqualTo(5);
        election.run(Duration.ofMinutes(64)); // At the longest 64 s.
        assertThat(candidate.state().terms()).isBetween(60L, 66L);
    }
}
