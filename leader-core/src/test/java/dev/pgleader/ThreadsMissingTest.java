package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** R16, R26: callbacks that find no thread, or don't return, wait, are told of, and are neither lost nor doubled. */
class ThreadsMissingTest extends ElectionTest {

    private static final Duration PATIENCE = ElectorOptions.DEFAULT_HEALTH_CHECK_TIMEOUT;

    private LeaderStatus.Problem.Kind problem(ScriptedCandidate candidate) {
        Problem problem = candidate.standing().problem();
        return problem == null ? null : problem.kind();
    }

    @Test
    void callbacksWaitForAThreadAndThenRunInOrder() {
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        election.callbacks.runAll(); // Until then the listener isn't added.
        election.callbacks.refuse = true;
        election.turn();
        assertThat(candidate.leads()).isTrue();
        assertThat(election.turnAfter(Duration.ofMillis(1)))
                .as("looks for a thread often")
                .isLessThanOrEqualTo(Duration.ofMillis(200));
        election.turnAfter(CHECK_INTERVAL);
        assertThat(election.journal()).containsExactly("open", "try [bigint:1]", "check", "check");
        election.callbacks.refuse = false;
        election.turnAfter(Duration.ofMillis(200));
        election.callbacks.runAll();
        assertThat(election.journal()).containsExactly("onElected 1");
    }

    @Test
    void aResignationInTheMeantimeIsToldWhenThereIsAThread() {
        ScriptedCandidate candidate = election.leader();
        election.callbacks.refuse = true;
        candidate.resign();
        election.turn();
        election.turnAfter(SECOND);
        election.callbacks.runAll();
        assertThat(election.journal()).isEmpty();
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.RESIGNING);
        election.callbacks.refuse = false;
        election.turnAfter(Duration.ofMillis(200));
        election.callbacks.runAll();
        election.turn();
        election.callbacks.runAll();
        assertThat(election.journal())
                .containsExactly(
                        "onRevoked 1 RESIGNED", "release [bigint:1], nobody leading", "tell [released bigint:1]");
        assertThat(candidate.released).isCompleted();
    }

    /** Its election thread stays until then, with nothing else to do. */
    @Test
    void callbacksOfAnElectorThatHasClosedFindAThreadLater() {
        ScriptedCandidate candidate = election.leader();
        election.callbacks.refuse = true;
        candidate.close(Duration.ofSeconds(1));
        election.turn();
        election.turnAfter(SECOND);
        assertThat(candidate.left).isCompleted();
        assertThat(election.session().isEnded()).isTrue();
        assertThat(election.loop.isDeserted()).isFalse();
        assertThat(election.turnAfter(SECOND)).isBetween(Duration.ofMillis(1), Duration.ofMillis(200));
        election.callbacks.refuse = false;
        election.turnAfter(SECOND);
        election.callbacks.runAll();
        assertThat(election.journal()).contains("onRevoked 1 CLOSED");
        assertThat(election.loop.isDeserted()).isTrue();
    }

    @Test
    void manyFuturesThatFoundNoThreadAreCompletedTogether() {
        ScriptedCandidate candidate = election.leader();
        election.callbacks.refuse = true;
        var futures = List.of(candidate.findLeader(), candidate.findLeader(), candidate.findLeader());
        election.turn();
        assertThat(futures).noneMatch(java.util.concurrent.CompletableFuture::isDone);
        election.callbacks.refuse = false;
        election.turnAfter(Duration.ofMillis(200));
        election.callbacks.runAll();
        assertThat(futures).allMatch(java.util.concurrent.CompletableFuture::isDone);
    }

    /** R26: a term that ended while its callbacks hung showed no problem. */
    @Test
    void callbacksThatHangAreAProblemOfTheStatusSinceTheTermEnded() {
        ScriptedCandidate candidate = election.leader();
        election.session()
                .checks
                .add(ScriptedSession.fault(dev.pgleader.lock.LockSessionException.Fault.CONNECTION_LOST));
        election.turnAfter(CHECK_INTERVAL);
        long endedAt = election.ticker.nanos();
        election.turnAfter(PATIENCE.minusMillis(1));
        assertThat(problem(candidate)).isNull();
        Duration wait = election.turnAfter(Duration.ofMillis(1));
        assertThat(problem(candidate)).isEqualTo(LeaderStatus.Problem.Kind.CALLBACKS_OVERDUE);
        assertThat(candidate.standing().problem().since()).isEqualTo(endedAt);
        assertThat(candidate.standing().problem().message()).contains("term 1", "SESSION_LOST");
        assertThat(wait).isPositive();
        election.callbacks.runAll();
        election.turn();
        assertThat(problem(candidate)).isNull();
    }

    @Test
    void theProblemSaysWhenThereIsNoThread() {
        ScriptedCandidate candidate = election.leader();
        election.callbacks.refuse = true;
        candidate.resign();
        election.turn();
        election.turnAfter(PATIENCE);
        assertThat(candidate.standing().problem().message()).contains("No thread can be started");
    }

    @Test
    void workThatFailsToStartAgainAndAgainIsAProblemUntilItHasProvedItself() {
        ScriptedCandidate candidate = election.candidate(1);
        candidate.failsWith = new IllegalStateException("scripted");
        candidate.admit();
        election.run(SECOND);
        assertThat(problem(candidate)).isEqualTo(LeaderStatus.Problem.Kind.START_FAILING);
        assertThat(candidate.standing().problem().message()).contains("in 1 term(s)");
        candidate.failsWith = null;
        election.run(SECOND.multipliedBy(5));
        assertThat(candidate.leads()).isTrue();
        assertThat(problem(candidate)).isEqualTo(LeaderStatus.Problem.Kind.START_FAILING);
        election.run(Duration.ofMinutes(2));
        assertThat(problem(candidate)).isNull();
        assertThat(candidate.state().failedStarts()).isZero();
    }
}
