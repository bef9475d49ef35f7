package dev.pgleader;

import static dev.pgleader.ScriptedElection.RECONNECT_STEP;
import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** When a lock that was granted may be led under. */
class TakingOverTest extends ElectionTest {

    private ScriptedCandidate candidateThatGetsTheLock() {
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        election.turn();
        election.callbacks.runAll();
        return candidate;
    }

    private void assertThatItLeadsAfter(ScriptedCandidate candidate, Duration delay) {
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        assertThat(election.session().held).containsExactly(candidate.key);
        election.run(delay.minusMillis(1));
        assertThat(candidate.leads()).isFalse();
        assertThat(election.journal()).contains("check").doesNotContain("onElected 1");
        election.run(Duration.ofMillis(2));
        assertThat(candidate.leads()).isTrue();
        assertThat(election.journal()).contains("onElected " + candidate.state().terms());
    }

    @Test
    void waitsUntilAServerThatRestartedHasRunForALease() {
        election.server.uptime = Duration.ofSeconds(4);
        assertThatItLeadsAfter(candidateThatGetsTheLock(), LEASE.minusSeconds(4));
    }

    @Test
    void doesNotWaitIfTheServerHasRunForALease() {
        election.server.uptime = LEASE;
        assertThat(candidateThatGetsTheLock().leads()).isTrue();
    }

    @Test
    void waitsALeaseAfterAPromotion() {
        ScriptedCandidate candidate = election.follower();
        election.session().tries.add(fault(Fault.CONNECTION_LOST));
        election.server.timeline++;
        election.server.freeAll();
        election.turnAfter(RETRY_INTERVAL);
        election.turnAfter(RECONNECT_STEP);
        assertThatItLeadsAfter(candidate, LEASE);
    }

    @Test
    void waitsALeaseAfterAPromotionAlsoIfItReconnectsMeanwhile() {
        ScriptedCandidate candidate = election.follower();
        election.session().tries.add(fault(Fault.CONNECTION_LOST));
        election.server.timeline++;
        election.server.freeAll();
        election.turnAfter(RETRY_INTERVAL);
        election.turnAfter(RECONNECT_STEP);
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        election.session().waits.add(fault(Fault.CONNECTION_LOST));
        election.loop.await(0);
        election.run(LEASE.minusMillis(1));
        assertThat(election.journal()).doesNotContain("onElected 1");
        election.run(Duration.ofMillis(2));
        assertThat(election.journal()).contains("onElected 1");
    }

    @Test
    void aServerThatDoesNotTellItsTimelineWasNotPromoted() {
        election.server.timeline = 0;
        ScriptedCandidate candidate = election.follower();
        for (int timeline : new int[] {5, 0, 5}) {
            election.session().tries.add(fault(Fault.CONNECTION_LOST));
            election.server.timeline = timeline;
            election.turnAfter(RETRY_INTERVAL);
            election.run(SECOND);
        }
        election.server.freeAll();
        election.run(RETRY_INTERVAL.plusMillis(1));
        assertThat(candidate.leads()).isTrue();
    }

    @Test
    void noneNeverWaits() {
        use(ElectorOptions.builder().takeoverDelay(TakeoverDelay.NONE));
        election.server.uptime = Duration.ofSeconds(1);
        assertThat(candidateThatGetsTheLock().leads()).isTrue();
    }

    @Test
    void aFixedDelayIsWaitedForEachTime() {
        use(ElectorOptions.builder().takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(20))));
        assertThatItLeadsAfter(candidateThatGetsTheLock(), Duration.ofSeconds(20));
    }

    /** R13: a server that just started may have forgotten the lock of a leader that is cut off. */
    @Test
    void aFixedDelayIsNeverShorterThanWhatAutoWaits() {
        use(ElectorOptions.builder().takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(2))));
        election.server.uptime = Duration.ofSeconds(4);
        assertThatItLeadsAfter(candidateThatGetsTheLock(), LEASE.minusSeconds(4));
    }

    @Test
    void aSessionThatIsLostMeanwhileIsNoTerm() {
        election.server.uptime = Duration.ofSeconds(4);
        ScriptedCandidate candidate = candidateThatGetsTheLock();
        election.session().checks.add(fault(Fault.CONNECTION_LOST));
        election.turnAfter(CHECK_INTERVAL);
        election.callbacks.runAll();
        assertThat(election.journal()).noneMatch(entry -> entry.startsWith("on"));
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.FOLLOWER);
        assertThat(candidate.state().terms()).isZero();
    }

    @Test
    void aProcessThatStoodStillMeanwhileDoesNotLeadOnAnOldCheck() { // C38
        election.server.uptime = Duration.ofSeconds(4);
        ScriptedCandidate candidate = candidateThatGetsTheLock();
        List<Boolean> seen = new ArrayList<>();
        election.session().checks.add(() -> {
            seen.add(candidate.leads());
            throw new LockSessionException(Fault.CONNECTION_LOST, "scripted");
        });
        election.turnAfter(Duration.ofMinutes(5));
        assertThat(seen).containsExactly(false);
        election.callbacks.runAll();
        assertThat(election.journal()).doesNotContain("onElected 1");
    }
}
