package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** R18: nobody is elected on an answer to an earlier campaign. */
class CampaignConditionTest extends ElectionTest {

    private boolean mayLead = true;
    private int asked;

    private ScriptedCandidate candidate() {
        ScriptedCandidate candidate = election.candidate(1, () -> {
            asked++;
            return mayLead;
        });
        candidate.admit();
        return candidate;
    }

    private ScriptedCandidate leader() {
        ScriptedCandidate candidate = candidate();
        election.run(RETRY_INTERVAL);
        assertThat(candidate.leads()).isTrue();
        return candidate;
    }

    private ScriptedCandidate follower() {
        ScriptedCandidate candidate = candidate();
        election.server.take(candidate.key);
        election.run(RETRY_INTERVAL.multipliedBy(3));
        assertThat(asked).isPositive();
        return candidate;
    }

    private void assertNotElectedAgain(ScriptedCandidate candidate) {
        long terms = candidate.state().terms();
        mayLead = false;
        election.server.freeAll();
        election.run(Duration.ofMinutes(1));
        assertThat(candidate.state().terms()).isEqualTo(terms);
        mayLead = true;
        election.run(RETRY_INTERVAL.multipliedBy(2));
        assertThat(candidate.leads()).as("when it holds again").isTrue();
    }

    @Test
    void isAskedBeforeTheFirstTry() {
        mayLead = false;
        ScriptedCandidate candidate = candidate();
        election.run(RETRY_INTERVAL.multipliedBy(3));
        assertThat(asked).isBetween(3, 5);
        assertThat(count(election.journal(), "try")).isZero();
        mayLead = true;
        election.run(RETRY_INTERVAL);
        assertThat(candidate.leads()).isTrue();
    }

    @Test
    void aLeaderIsNotAsked() {
        leader();
        int before = asked;
        mayLead = false;
        election.run(Duration.ofMinutes(1));
        assertThat(asked).isEqualTo(before);
    }

    @Test
    void isAskedAnewAfterAResignation() {
        ScriptedCandidate candidate = leader();
        mayLead = false;
        candidate.resign();
        assertNotElectedAgain(candidate);
    }

    @Test
    void isAskedAnewAfterALoss() {
        ScriptedCandidate candidate = leader();
        mayLead = false;
        election.session().waits.add(fault(Fault.CONNECTION_LOST));
        election.loop.await(0);
        assertNotElectedAgain(candidate);
    }

    @Test
    void isAskedAnewAfterAPause() {
        ScriptedCandidate candidate = follower();
        candidate.signal(new CandidateState.Pause());
        election.turn();
        mayLead = false;
        candidate.signal(new CandidateState.Resume());
        assertNotElectedAgain(candidate);
    }

    @Test
    void isAskedAnewAfterTheCoolDownOfAFollower() {
        ScriptedCandidate candidate = follower();
        candidate.resign();
        assertNotElectedAgain(candidate);
    }

    @Test
    void isAskedAnewAfterAnOutage() {
        ScriptedCandidate candidate = follower();
        for (int i = 0; i < 5; i++) {
            election.opens.add(fault(Fault.UNREACHABLE));
        }
        election.session().waits.add(fault(Fault.CONNECTION_LOST));
        election.loop.await(0);
        assertNotElectedAgain(candidate);
    }

    @Test
    void isAskedAnewAfterAStop() {
        ScriptedCandidate candidate = follower();
        candidate.close();
        election.run(RETRY_INTERVAL);
        candidate.admit();
        assertNotElectedAgain(candidate);
    }

    /** An answer that comes when the campaign is over, from a condition that took long. */
    @Test
    void aLateAnswerCountsForNothing() {
        ScriptedCandidate candidate = candidate();
        election.turn(); // Asked; the answer is still to come.
        candidate.signal(new CandidateState.Pause());
        election.turn();
        election.callbacks.runAll(); // It says yes.
        mayLead = false;
        candidate.signal(new CandidateState.Resume());
        assertNotElectedAgain(candidate);
    }

    /** R40. */
    @Test
    void whateverItThrowsCountsAsNo() {
        Throwable[] failures = {
            new IllegalStateException("scripted"),
            new StackOverflowError("scripted"),
            new java.io.IOException("scripted")
        };
        int[] times = {0};
        ScriptedCandidate candidate = election.candidate(1, () -> {
            if (times[0] < failures.length) {
                throw Sneaky.thrown(failures[times[0]++]);
            }
            return true;
        });
        candidate.admit();
        election.run(RETRY_INTERVAL.multipliedBy(failures.length).minusMillis(1));
        assertThat(candidate.leads()).isFalse();
        election.run(RETRY_INTERVAL.multipliedBy(2));
        assertThat(candidate.leads()).isTrue();
    }
}
