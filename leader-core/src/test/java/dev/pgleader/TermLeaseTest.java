package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** How long a term may be trusted. */
class TermLeaseTest extends ElectionTest {

    private Duration remaining(ScriptedCandidate candidate) {
        return candidate.trustedLeadership().map(Leadership::remaining).orElse(Duration.ZERO);
    }

    @Test
    void countsFromTheStartOfTheFirstCheck() {
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        election.opens.add(() -> {
            ScriptedSession session = election.newSession();
            session.checks.add(() -> {
                election.ticker.advance(Duration.ofMillis(2_900));
                return Set.of(candidate.key);
            });
            return session;
        });
        election.turn();
        assertThat(remaining(candidate))
                .isBetween(nearly(TRUST_WINDOW.minusMillis(2_900)), TRUST_WINDOW.minusMillis(2_900));
    }

    @Test
    void countsFromTheStartOfTheLastGoodCheck() {
        ScriptedCandidate candidate = election.leader();
        election.session().checks.add(() -> {
            election.ticker.advance(Duration.ofMillis(2_900));
            return Set.of(candidate.key);
        });
        election.turnAfter(CHECK_INTERVAL);
        assertThat(remaining(candidate))
                .isBetween(nearly(TRUST_WINDOW.minusMillis(2_900)), TRUST_WINDOW.minusMillis(2_900));
        election.turnAfter(Duration.ofMillis(100)); // The next check begins an interval after the start of this one.
        assertThat(remaining(candidate)).isBetween(nearly(TRUST_WINDOW), TRUST_WINDOW);
    }

    /** A lease has a resolution of two nanoseconds. */
    private Duration nearly(Duration duration) {
        return duration.minusNanos(1);
    }

    /** The session of a lease that ended in a check is lost, and so is what it was granted meanwhile. */
    @Test
    void aKeyThatWasGrantedIsNotLedIfALeaseEndsInTheCheck() {
        ScriptedCandidate leader = election.leader();
        ScriptedCandidate second = election.candidate(2);
        second.admit();
        election.session().checks.add(() -> {
            election.ticker.advance(TRUST_WINDOW);
            return Set.of(leader.key, second.key);
        });
        election.turn();
        assertThat(leader.leads()).isFalse();
        assertThat(second.state().terms()).isZero();
    }

    @Test
    void isCheckedOncePerInterval() {
        election.leader();
        election.run(CHECK_INTERVAL.multipliedBy(20));
        assertThat(count(election.journal(), "check")).isEqualTo(20);
    }

    @Test
    void runsOutByItselfWhenTheElectionThreadStandsStill() { // C38
        ScriptedCandidate candidate = election.leader();
        election.ticker.advance(TRUST_WINDOW.minusNanos(2));
        assertThat(candidate.leads()).isTrue();
        election.ticker.advanceNanos(2);
        assertThat(candidate.leads()).isFalse();
        assertThat(candidate.trustedLeadership()).isEmpty();
    }

    @Test
    void thatRanOutWhileTheThreadStoodStillIsTheEndOfTheTermWithoutAnotherCheck() { // C38
        ScriptedCandidate candidate = election.leader();
        election.turnAfter(Duration.ofMinutes(1));
        List<String> journal = election.journal();
        assertThat(journal).startsWith("abort, nobody leading", "open");
        election.callbacks.runAll();
        assertThat(election.journal()).containsExactly("onRevoked 1 LEASE_EXPIRED");
        assertThat(candidate.leads()).isFalse();
    }

    @Test
    void thatRunsOutDuringACheckIsTheEndOfTheTermEvenIfTheCheckSucceeds() {
        ScriptedCandidate candidate = election.leader();
        ScriptedSession session = election.session();
        session.checks.add(() -> {
            election.ticker.advance(TRUST_WINDOW);
            return Set.of(candidate.key);
        });
        election.turnAfter(CHECK_INTERVAL);
        assertThat(candidate.leads()).isFalse();
        assertThat(session.isEnded()).isTrue();
        assertThat(candidate.standing().lastRevocation()).isEqualTo(RevocationReason.LEASE_EXPIRED);
        assertThat(election.journal()).containsSubsequence("check", "abort, nobody leading");
    }

    @Test
    void thatRunsOutDuringACheckIsNotRevivedWhoeverLookedMeanwhile() {
        ScriptedCandidate candidate = election.leader();
        List<Boolean> seen = new ArrayList<>();
        election.session().checks.add(() -> {
            election.ticker.advance(TRUST_WINDOW);
            seen.add(candidate.leads());
            return Set.of(candidate.key);
        });
        election.turnAfter(CHECK_INTERVAL);
        assertThat(seen).containsExactly(false);
        assertThat(candidate.leads()).isFalse();
    }

    @Test
    void ofOneKeyRunsOutWithThatOfAllOthers() {
        ScriptedCandidate first = election.leader();
        ScriptedCandidate second = election.candidate(2);
        second.admit();
        election.turnAfter(CHECK_INTERVAL.minusMillis(1));
        assertThat(second.leads()).isTrue();
        election.session().checks.add(() -> {
            election.ticker.advance(TRUST_WINDOW);
            return Set.of(first.key, second.key);
        });
        election.turnAfter(CHECK_INTERVAL);
        election.callbacks.runAll();
        assertThat(election.journal()).contains("onRevoked 1 LEASE_EXPIRED").doesNotContain("onElected 2");
        assertThat(first.leads() || second.leads()).isFalse();
    }

    @Test
    void ofANewTermIsANewOne() { // X12
        ScriptedCandidate candidate = election.leader();
        for (int term = 2; term <= 11; term++) {
            Leadership former = candidate.trustedLeadership().orElseThrow();
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
            election.turnAfter(CHECK_INTERVAL);
            election.run(SECOND);
            Leadership current = candidate.trustedLeadership().orElseThrow();
            assertThat(current.term()).isEqualTo(term);
            assertThat(former.isValid()).isFalse();
        }
    }
}
