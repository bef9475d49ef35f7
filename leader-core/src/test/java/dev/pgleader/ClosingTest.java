package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** How a candidate leaves the election. */
class ClosingTest extends ElectionTest {

    private CompletableFuture<Void> admitted(ScriptedCandidate candidate) {
        candidate.admit();
        CompletableFuture<Void> left = candidate.left;
        election.turn();
        election.callbacks.runAll();
        return left;
    }

    @Test
    void aFollowerLeavesAtOnceAndTheSessionIsClosed() {
        ScriptedCandidate candidate = election.candidate(1);
        election.server.take(candidate.key);
        CompletableFuture<Void> left = admitted(candidate);
        election.journal();
        candidate.close();
        election.turn();
        assertThat(left).isCompleted();
        assertThat(election.journal()).containsExactly("close");
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.STOPPED);
        election.turnAfter(Duration.ofMinutes(1));
        assertThat(election.journal()).as("after it has left").isEmpty(); // C34
    }

    @Test
    void aLeaderLeavesWhenOnRevokedHasReturnedAndTheLockIsReleased() {
        ScriptedCandidate candidate = election.candidate(1);
        CompletableFuture<Void> left = admitted(candidate);
        election.journal();
        candidate.close();
        election.turn();
        assertThat(candidate.leads()).isFalse();
        assertThat(left).isNotDone();
        election.callbacks.runAll();
        election.turn();
        assertThat(left).isCompleted();
        assertThat(election.journal())
                .containsExactly(
                        "onRevoked 1 CLOSED",
                        "release [bigint:1], nobody leading",
                        "tell [released bigint:1]",
                        "close");
    }

    @Test
    void aLeaderWhoseOnRevokedHangsLeavesAfterTheRevokeTimeout() { // C36
        ScriptedCandidate candidate = election.candidate(1);
        CompletableFuture<Void> left = admitted(candidate);
        candidate.close();
        election.turn();
        election.callbacks.loseAll();
        election.run(REVOKE_TIMEOUT.minusMillis(1));
        assertThat(left).isNotDone();
        election.run(Duration.ofMillis(2));
        assertThat(left).isCompleted();
        assertThat(election.journal()).endsWith("close");
    }

    @Test
    void aCandidateThatTakesOverReleasesTheLockAndWasNeverElected() {
        election.server.uptime = SECOND;
        ScriptedCandidate candidate = election.candidate(1);
        CompletableFuture<Void> left = admitted(candidate);
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        candidate.close();
        election.turn();
        election.callbacks.runAll();
        assertThat(left).isCompleted();
        assertThat(election.journal())
                .endsWith("release [bigint:1], nobody leading", "tell [released bigint:1]", "close")
                .noneMatch(entry -> entry.startsWith("on"));
    }

    @Test
    void aLeaderThatResignsAlreadyLeavesAfterItsOnRevoked() { // C29
        ScriptedCandidate candidate = election.candidate(1);
        CompletableFuture<Void> left = admitted(candidate);
        candidate.resign();
        election.turn();
        candidate.close();
        election.turn();
        assertThat(left).isNotDone();
        election.callbacks.runAll();
        election.turn();
        assertThat(left).isCompleted();
        assertThat(election.journal())
                .endsWith(
                        "onRevoked 1 RESIGNED",
                        "release [bigint:1], nobody leading",
                        "tell [released bigint:1]",
                        "close");
    }

    @Test
    void aLeaderThatLosesTheSessionWhileItClosesIsRevokedOnce() { // C29
        ScriptedCandidate candidate = election.candidate(1);
        CompletableFuture<Void> left = admitted(candidate);
        candidate.close();
        election.turn();
        election.session().checks.add(fault(Fault.CONNECTION_LOST));
        election.turnAfter(CHECK_INTERVAL);
        assertThat(left).isNotDone();
        election.callbacks.runAll();
        election.turn();
        assertThat(left).isCompleted();
        assertThat(count(election.journal(), "onRevoked")).isOne();
    }

    @Test
    void afterALossItLeavesWhenOnRevokedHasReturnedOrWouldHaveHadTheTimeTo() { // C29
        for (boolean returns : new boolean[] {true, false}) {
            election = new ScriptedElection();
            ScriptedCandidate candidate = election.candidate(1);
            CompletableFuture<Void> left = admitted(candidate);
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
            election.turnAfter(CHECK_INTERVAL);
            candidate.close();
            election.turn();
            assertThat(left).isNotDone();
            if (returns) {
                election.callbacks.runAll();
                election.turn();
            } else {
                election.callbacks.loseAll();
                election.run(REVOKE_TIMEOUT);
                election.turn();
            }
            assertThat(left).isCompleted();
        }
    }

    @Test
    void leavesAtOnceWhileNoSessionCanBeOpened() {
        election.opens.add(fault(Fault.UNREACHABLE));
        ScriptedCandidate candidate = election.candidate(1);
        CompletableFuture<Void> left = admitted(candidate);
        candidate.close();
        election.turn();
        assertThat(left).isCompleted();
        assertThat(election.journal()).containsExactly("open");
    }

    @Test
    void theSessionStaysOpenForTheOthers() {
        ScriptedCandidate candidate = election.leader();
        ScriptedCandidate other = election.candidate(2);
        other.admit();
        election.turn();
        candidate.close();
        election.run(SECOND.multipliedBy(5));
        assertThat(other.leads()).isTrue();
        assertThat(election.journal()).doesNotContain("close");
    }

    @Test
    void whoeverHasLeftMayComeBackWithItsTermsCountedOn() {
        ScriptedCandidate candidate = election.leader();
        candidate.close();
        election.run(SECOND);
        candidate.admit();
        CompletableFuture<Void> left = candidate.left;
        election.run(SECOND);
        assertThat(candidate.leads()).isTrue();
        assertThat(left).isNotDone();
        assertThat(election.journal()).contains("onRevoked 1 CLOSED", "close", "open", "onElected 2");
    }

    /** R17: onElected came 415 ms after a close() during a login. */
    @Test
    void noTermBeginsIfItIsClosedWhileASessionIsOpened() {
        ScriptedCandidate candidate = election.candidate(1);
        election.opens.add(() -> {
            candidate.close();
            return election.newSession();
        });
        CompletableFuture<Void> left = admitted(candidate);
        election.run(SECOND);
        assertThat(left).isCompleted();
        assertThat(election.journal()).containsExactly("open", "close");
    }

    /** R17: the caller's thread is between its two steps, or it never gets to the second. */
    @ParameterizedTest
    @ValueSource(strings = {"open", "try", "check"})
    void noTermBeginsOnceItWasRevokedByItsCaller(String moment) {
        ScriptedCandidate candidate = election.candidate(1);
        election.opens.add(() -> {
            ScriptedSession session = election.newSession();
            if (moment.equals("open")) {
                candidate.revoke();
            }
            session.tries.add(() -> {
                if (moment.equals("try")) {
                    candidate.revoke();
                }
                return Set.of(candidate.key);
            });
            session.checks.add(() -> {
                if (moment.equals("check")) {
                    candidate.revoke();
                }
                return Set.of(candidate.key);
            });
            return session;
        });
        CompletableFuture<Void> left = admitted(candidate);
        List<Boolean> seen = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            seen.add(candidate.leads());
            election.callbacks.runAll();
            election.turn();
        }
        assertThat(seen).containsOnly(false);
        assertThat(left).isCompleted();
        assertThat(election.journal()).endsWith("close").noneMatch(entry -> entry.startsWith("on"));
        assertThat(candidate.state().terms()).isZero();
    }

    /** R19: stop() took 1.5 s to be true behind a slow check. */
    @Test
    void theCallersThreadRevokesTheLease() {
        ScriptedCandidate candidate = election.leader();
        Leadership term = candidate.trustedLeadership().orElseThrow();
        candidate.revoke();
        assertThat(candidate.leads()).isFalse();
        assertThat(term.isValid()).isFalse();
        election.turn();
        election.callbacks.runAll();
        election.turn();
        assertThat(election.journal()).startsWith("onRevoked 1 CLOSED", "release [bigint:1], nobody leading");
        assertThat(candidate.left).isCompleted();
    }

    /** R19: during a check that began before, the renewal must not bring the lease back. */
    @Test
    void aCheckThatIsUnderWayDoesNotReviveTheLease() {
        ScriptedCandidate candidate = election.leader();
        election.session().checks.add(() -> {
            candidate.revoke();
            return Set.of(candidate.key);
        });
        election.turnAfter(CHECK_INTERVAL);
        assertThat(candidate.leads()).isFalse();
        election.callbacks.runAll();
        election.turn();
        assertThat(election.journal())
                .containsSubsequence("check", "onRevoked 1 CLOSED", "release [bigint:1], nobody leading", "close")
                .noneMatch(entry -> entry.startsWith("abort"));
    }

    /** R20. */
    @Test
    void aBudgetShortensTheTimeThatCallbacksHave() {
        ScriptedCandidate candidate = election.leader();
        candidate.close(SECOND);
        election.turn();
        election.callbacks.loseAll();
        election.run(SECOND.minusMillis(1));
        assertThat(candidate.left).isNotDone();
        election.run(Duration.ofMillis(2));
        assertThat(candidate.left).isCompleted();
    }

    /** R17: the caller is faster than what the election thread is about to publish. */
    @Test
    void aTermThatBeginsTogetherWithAStopIsNeverValid() {
        ScriptedCandidate candidate = election.follower();
        candidate.revoke();
        Candidate.Rules rules = Candidate.Rules.of(election.options, election.ticker);
        candidate.candidate.apply(new CandidateState.LockTaken(election.ticker.nanos()), rules, election.ticker.now());
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.LEADER);
        assertThat(candidate.leads()).isFalse();
        assertThat(candidate.trustedLeadership()).isEmpty();
        election.callbacks.runAll();
        assertThat(election.journal()).doesNotContain("onElected 1");
    }
}
