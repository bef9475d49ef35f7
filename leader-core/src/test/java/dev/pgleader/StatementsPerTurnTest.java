package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What an election asks of the server doesn't grow with the number of its keys. */
class StatementsPerTurnTest {

    private static final int KEYS = 1_000;
    private static final Duration CHECK_INTERVAL = ElectorOptions.DEFAULT_HEALTH_CHECK_INTERVAL;
    private static final Duration RETRY_INTERVAL = ElectorOptions.DEFAULT_RETRY_INTERVAL;

    private final ScriptedElection election = new ScriptedElection();
    private final List<ScriptedCandidate> candidates = new ArrayList<>();

    private void admitAll(boolean taken) {
        for (int key = 0; key < KEYS; key++) {
            ScriptedCandidate candidate = election.candidate(key);
            if (taken) {
                election.server.take(candidate.key);
            }
            candidate.admit();
            candidates.add(candidate);
        }
    }

    private List<String> statements() {
        return election.journal().stream()
                .filter(entry -> !entry.startsWith("on") && !entry.startsWith("tell"))
                .toList();
    }

    @Test
    void allKeysAreWonWithOneTryAndOneCheck() {
        admitAll(false);
        election.turn();
        assertThat(statements()).containsExactly("open", "try 1000 keys", "check");
    }

    @Test
    void aLeaderOfAllKeysChecksOncePerInterval() {
        admitAll(false);
        election.run(Duration.ofMillis(1));
        election.journal();
        election.run(CHECK_INTERVAL.multipliedBy(20));
        assertThat(election.journal()).containsOnly("check").hasSize(20);
    }

    @Test
    void aFollowerOfAllKeysTriesOncePerInterval() {
        admitAll(true);
        election.run(Duration.ofMillis(1));
        election.journal();
        election.run(RETRY_INTERVAL.multipliedBy(20));
        assertThat(election.journal()).containsOnly("try 1000 keys").hasSize(20);
    }

    @Test
    void whoLeadsSomeKeysAndFollowsInOthersDoesNoMoreThanBoth() {
        admitAll(false);
        election.candidate(KEYS).admit();
        election.server.take(LockKey.of(KEYS));
        election.run(Duration.ofMillis(1));
        election.journal();
        election.run(CHECK_INTERVAL.multipliedBy(20));
        assertThat(statements()).hasSizeLessThanOrEqualTo(20 + 60).containsOnly("check", "try [bigint:1000]");
    }

    @Test
    void aGroupThatClosesReleasesAllKeysWithOneStatement() {
        admitAll(false);
        election.run(Duration.ofMillis(1));
        candidates.forEach(candidate -> candidate.close());
        election.run(Duration.ofMillis(1));
        assertThat(election.session().releaseStatements).isEqualTo(1);
        assertThat(candidates)
                .allSatisfy(candidate -> assertThat(candidate.left).isCompleted());
        assertThat(election.session().isEnded()).isTrue();
    }
}
