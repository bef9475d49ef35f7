package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** When a follower waits in the server's queue, for what and for how long; see {@link QueueOnServerTest} for a real server. */
class QueueingTest {

    private static final Duration SLICE = Duration.ofSeconds(2);

    private final ScriptedElection election = new ScriptedElection(
            ElectorOptions.builder().acquisitionMode(AcquisitionMode.QUEUE).build());

    /** Waits as the election thread does, for as long as the server is told to. */
    private void await(Duration longest) {
        election.loop.await(longest.toNanos());
    }

    @Test
    void aFollowerWaitsForASliceInsteadOfPolling() {
        election.follower();
        for (int slice = 0; slice < 5; slice++) {
            election.session().queueings.add(() -> {
                election.ticker.advance(SLICE);
                return false;
            });
            await(election.turn());
        }
        assertThat(election.journal())
                .filteredOn(entry -> !entry.startsWith("look"))
                .containsOnly("queue bigint:1 for 2000 ms")
                .hasSize(5);
    }

    /** Its condition is to be asked anew, which a poll does; a wait for another key put that off for ever. */
    @Test
    void aKeyThatIsWantedAgainIsTriedWhileAnotherOneIsWaitedFor() {
        election.follower();
        ScriptedCandidate second = election.candidate(2);
        second.admit();
        election.turn();
        assertThat(second.leads()).isTrue();
        election.callbacks.runAll();
        second.resign();
        for (int slice = 0; slice < 50; slice++) {
            election.session().queueings.add(() -> {
                election.ticker.advance(Duration.ofMillis(200));
                return false;
            });
            await(election.turn());
            election.callbacks.runAll();
        }
        assertThat(second.state().terms()).isEqualTo(2);
        assertThat(second.leads()).isTrue();
    }

    @Test
    void aWaitBesideALeadershipIsNotBrokenOff() {
        election.follower();
        ScriptedCandidate leader = election.candidate(2);
        leader.admit();
        election.turn();
        election.callbacks.runAll();
        election.session().queueings.add(() -> {
            election.loop.breakOffQueueing();
            return false;
        });
        await(election.turn());
        assertThat(election.session().isEnded()).isFalse();
        assertThat(leader.leads()).isTrue();
    }

    @Test
    void aKeyThatIsGrantedLeadsAfterACheck() {
        ScriptedCandidate follower = election.follower();
        election.server.freeAll();
        await(SLICE);
        assertThat(follower.leads()).isTrue();
        assertThat(election.journal()).containsExactly("queue bigint:1 for 2000 ms", "check");
    }

    @Test
    void aGrantThatTheCheckDoesNotShowIsNoLeadership() {
        ScriptedCandidate follower = election.follower();
        election.server.freeAll();
        election.session().checks.add(Set::of);
        await(SLICE);
        assertThat(follower.leads()).isFalse();
        assertThat(election.journal()).containsExactly("queue bigint:1 for 2000 ms", "check", "abort, nobody leading");
    }

    @ParameterizedTest
    @EnumSource(value = Fault.class, mode = EnumSource.Mode.EXCLUDE, names = "LOCK_TABLE_FULL")
    void aSessionThatFailsInTheQueueIsGivenUp(Fault fault) {
        ScriptedCandidate follower = election.follower();
        election.session().queueings.add(fault(fault));
        await(SLICE);
        assertThat(election.journal()).containsExactly("queue bigint:1 for 2000 ms", "abort, nobody leading");
        assertThat(follower.leads()).isFalse();
        assertThat(election.loop.view().problem()).isNotNull();
    }

    @Test
    void aGrantWaitsOutTheTakeoverDelay() {
        ScriptedElection delayed = new ScriptedElection(ElectorOptions.builder()
                .acquisitionMode(AcquisitionMode.QUEUE)
                .takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(15)))
                .build());
        ScriptedCandidate follower = delayed.follower();
        delayed.server.freeAll();
        delayed.loop.await(SLICE.toNanos());
        assertThat(follower.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
    }

    @Test
    void aLeaderDoesNotQueue() {
        election.leader();
        await(SLICE);
        assertThat(election.journal()).isEmpty();
    }

    @Test
    void aCandidateThatMustNotCompeteDoesNotQueue() {
        ScriptedCandidate follower = election.follower();
        follower.signal(new CandidateState.Pause());
        election.turn();
        await(SLICE);
        assertThat(election.journal()).isEmpty();
    }

    @Test
    void aCandidateQueuesOnlyWhileItsConditionHolds() {
        List<Boolean> answers = new ArrayList<>(List.of(true, false));
        ScriptedCandidate follower =
                election.candidate(1, () -> answers.size() > 1 ? answers.remove(0) : answers.get(0));
        election.server.take(follower.key);
        follower.admit();
        election.turn();
        election.callbacks.runAll();
        election.turn();
        election.journal();

        await(SLICE);
        assertThat(election.journal()).startsWith("queue bigint:1 for 2000 ms");
        election.callbacks.runAll();
        election.turn();
        await(SLICE);
        assertThat(election.journal()).isEmpty();
    }

    @Test
    void whatIsLeftToDoComesFirst() {
        ScriptedCandidate follower = election.follower();
        follower.signal(new CandidateState.Pause());
        await(SLICE);
        assertThat(election.journal()).isEmpty();
    }

    @Test
    void followersTakeTurns() {
        for (int key = 1; key <= 3; key++) {
            election.admitFollower(key);
        }
        election.turn();
        election.journal();
        for (int slice = 0; slice < 4; slice++) {
            await(SLICE);
        }
        assertThat(election.journal().stream()
                        .filter(entry -> entry.startsWith("queue"))
                        .map(entry -> entry.substring(6, 14)))
                .containsExactly("bigint:1", "bigint:2", "bigint:3", "bigint:1");
    }

    @Test
    void followersThatTakeTurnsPollAsWell() {
        for (int key = 1; key <= 2; key++) {
            election.admitFollower(key);
        }
        election.turn();
        election.journal();
        await(SLICE);
        assertThat(election.journal())
                .startsWith("queue bigint:1 for 1000 ms")
                .noneMatch(entry -> entry.startsWith("try"));
    }

    @Test
    void aGroupThatHoldsAKeyQueuesInShortSlices() {
        election.leader();
        election.admitFollower(2);
        election.turn();
        election.journal();
        await(SLICE);
        assertThat(election.journal()).startsWith("queue bigint:2 for 100 ms");
    }

    @Test
    void aCheckIsNotLateForTheQueue() {
        election.leader();
        election.admitFollower(2);
        election.run(ElectorOptions.DEFAULT_HEALTH_CHECK_INTERVAL.minusMillis(50));
        election.journal();
        await(SLICE);
        assertThat(election.journal()).startsWith("queue bigint:2 for 50 ms");
    }

    @Test
    void whatIsDueInAMomentIsWaitedForOutsideOfTheQueue() {
        election.leader();
        election.admitFollower(2);
        election.run(ElectorOptions.DEFAULT_HEALTH_CHECK_INTERVAL.minusMillis(9));
        election.journal();
        await(SLICE);
        assertThat(election.journal()).isEmpty();
    }
}
