package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** X15: a server without room for more locks costs nobody a leadership, and gets its room back. */
class LockTableFullTest {

    private final ScriptedElection election = new ScriptedElection(ElectorOptions.defaults(), new Random(1));
    private final List<ScriptedCandidate> candidates = new ArrayList<>();

    /** Admits candidates with keys from {@code first} on. */
    private void admit(int first, int count) {
        for (int key = first; key < first + count; key++) {
            ScriptedCandidate candidate = election.candidate(key);
            candidate.admit();
            candidates.add(candidate);
        }
    }

    private long leading() {
        return candidates.stream().filter(ScriptedCandidate::leads).count();
    }

    /** From now on the server has room for so many locks of this session; a try that wants more gets what there is. */
    private void makeRoomFor(int locks) {
        election.session().capacity = locks;
    }

    @Test
    void theLeadershipsThatTheGroupHasAreKept() {
        admit(1, 3);
        election.run(Duration.ofMillis(1));
        assertThat(leading()).isEqualTo(3);
        makeRoomFor(3);
        election.journal();

        admit(4, 1);
        election.run(Duration.ofMinutes(1));

        assertThat(leading()).isEqualTo(3);
        assertThat(election.journal())
                .doesNotContain("abort", "open")
                .noneMatch(entry -> entry.startsWith("onRevoked"));
        Problem shortage = election.loop.acquisition().problem();
        assertThat(shortage).isNotNull();
        assertThat(shortage.fault()).isEqualTo(Fault.LOCK_TABLE_FULL);
        assertThat(shortage.message()).contains("beside the 3 of this group", "max_locks_per_transaction");
        assertThat(election.loop.view().problem()).isNull();
    }

    @Test
    void itTriesAgainOnceInTheLongestReconnectDelayAndLeadsWhenThereIsRoom() {
        admit(1, 1);
        election.run(Duration.ofMillis(1));
        makeRoomFor(1);
        admit(2, 1);
        election.run(Duration.ofMillis(1));
        election.journal();

        election.run(ElectorOptions.DEFAULT_MAX_RECONNECT_DELAY.multipliedBy(10));
        assertThat(election.journal().stream().filter(entry -> entry.startsWith("try")))
                .hasSizeBetween(9, 11);

        makeRoomFor(2);
        election.run(ElectorOptions.DEFAULT_MAX_RECONNECT_DELAY.multipliedBy(2));
        assertThat(leading()).isEqualTo(2);
        assertThat(election.loop.acquisition().problem()).isNull();
    }

    @Test
    void theServerKeepsRoomForOthers() {
        admit(1, 1);
        election.run(Duration.ofMillis(1));
        makeRoomFor(500);

        admit(2, 1_000);
        election.run(Duration.ofMinutes(2));

        assertThat(leading()).isBetween(450L, 499L);
        assertThat(election.session().held).hasSize((int) leading());
    }

    @Test
    void aFailedTryGivesBackWhatItGot() {
        admit(1, 1);
        election.run(Duration.ofMillis(1));
        makeRoomFor(6);
        election.journal();
        admit(2, 10);
        election.turn();
        assertThat(election.journal()).containsSubsequence("try 10 keys", "check", "release 5 keys");
    }

    @Test
    void noKeyIsLeftOutForEverWhenOnlyAFewCanBeTried() {
        admit(1, 1);
        election.run(Duration.ofMillis(1));
        makeRoomFor(1);
        admit(2, 8);
        election.run(Duration.ofSeconds(1));
        Set<String> tried = new HashSet<>();
        for (int round = 0; round < 300; round++) {
            election.run(ElectorOptions.DEFAULT_MAX_RECONNECT_DELAY);
            election.journal().stream()
                    .filter(entry -> entry.startsWith("try ["))
                    .forEach(tried::add);
        }
        assertThat(tried)
                .contains("try [bigint:2]", "try [bigint:5]", "try [bigint:9]")
                .hasSizeGreaterThanOrEqualTo(8);
    }

    @Test
    void aReleaseThatTheServerCantTellOfIsARelease() {
        admit(1, 2);
        election.run(Duration.ofMillis(1));
        election.session().tellings.add(() -> false);
        ScriptedCandidate resigning = candidates.get(0);
        resigning.resign();
        election.run(Duration.ofMillis(1));
        assertThat(resigning.released).isCompleted();
        assertThat(candidates.get(1).leads()).isTrue();
        assertThat(election.session().isEnded()).isFalse();
    }

    @Test
    void aCandidateThatWaitsInTheQueueWaitsForRoomAsWell() {
        ScriptedElection queueing = new ScriptedElection(
                ElectorOptions.builder().acquisitionMode(AcquisitionMode.QUEUE).build());
        ScriptedCandidate follower = queueing.follower();
        queueing.session().capacity = 0;
        queueing.session().queueings.add(() -> true);
        queueing.loop.await(Duration.ofSeconds(1).toNanos());
        assertThat(queueing.loop.acquisition().problem()).isNotNull();
        assertThat(follower.leads()).isFalse();
        assertThat(queueing.session().isEnded()).isFalse();

        queueing.journal();
        queueing.loop.await(Duration.ofSeconds(1).toNanos());
        assertThat(queueing.journal()).as("while there is no room").isEmpty();
        queueing.turnAfter(ElectorOptions.DEFAULT_MAX_RECONNECT_DELAY.multipliedBy(2));
        queueing.loop.await(Duration.ofSeconds(1).toNanos());
        assertThat(queueing.journal()).containsSubsequence("try [bigint:1]", "queue bigint:1 for 2000 ms");
    }

    @Test
    void aNewSessionKnowsOfNoShortage() {
        admit(1, 1);
        election.run(Duration.ofMillis(1));
        makeRoomFor(1);
        admit(2, 1);
        election.run(Duration.ofMillis(1));
        assertThat(election.loop.acquisition().problem()).isNotNull();
        election.session().checks.add(fault(Fault.CONNECTION_LOST));
        election.run(ElectorOptions.DEFAULT_HEALTH_CHECK_INTERVAL.multipliedBy(2));
        assertThat(leading()).isEqualTo(2);
        assertThat(election.loop.acquisition().problem()).isNull();
    }
}
