package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A candidate that is not to compete for a while. */
class PausingTest extends ElectionTest {

    @Test
    void aLeaderThatPausesReleasesTheLockInOrderAndStaysOut() {
        ScriptedCandidate candidate = election.leader();
        candidate.signal(new CandidateState.Pause());
        election.run(Duration.ofMinutes(1));
        List<String> journal = election.journal();
        assertThat(journal)
                .containsSubsequence(
                        "onRevoked 1 RESIGNED", "release [bigint:1], nobody leading", "tell [released bigint:1]");
        assertThat(journal).noneMatch(entry -> entry.startsWith("try"));
        assertThat(candidate.standing().paused()).isTrue();
    }

    @Test
    void aPausedCandidateKeepsItsSessionAlive() {
        election.candidate(1).admit(true);
        election.turn();
        assertThat(election.journal()).containsExactly("open");
        election.run(CHECK_INTERVAL.multipliedBy(10));
        assertThat(election.journal()).hasSize(10).containsOnly("check");
    }

    @Test
    void aCandidateThatResumesCompetesAgainWithinARetryInterval() {
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit(true);
        election.run(SECOND.multipliedBy(10));
        assertThat(candidate.leads()).isFalse();
        candidate.signal(new CandidateState.Resume());
        election.run(RETRY_INTERVAL.plusMillis(1));
        assertThat(candidate.leads()).isTrue();
        assertThat(candidate.standing().paused()).isFalse();
    }
}
