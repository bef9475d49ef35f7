package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** For how long the election thread waits. */
class WaitingTest extends ElectionTest {

    @Test
    void endsWithTheNextDeadline() {
        use(ElectorOptions.builder()
                .retryInterval(Duration.ofSeconds(40))
                .maxReconnectDelay(Duration.ofSeconds(40))
                .coolDown(Duration.ofMillis(700))
                .revokeTimeout(Duration.ofMillis(500)));
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        election.server.uptime = LEASE.minusMillis(300);
        assertThat(election.turn()).as("taking over").isEqualTo(Duration.ofMillis(300));
        assertThat(election.turnAfter(Duration.ofMillis(300))).as("check").isEqualTo(Duration.ofMillis(2_700));
        candidate.resign();
        assertThat(election.turn()).as("revoke timeout").isEqualTo(Duration.ofMillis(500));
        election.callbacks.runAll();
        assertThat(election.turn()).as("cool-down").isEqualTo(Duration.ofMillis(700));
    }

    /** Whatever happens, whoever takes a turn exactly when the loop asked for one misses nothing. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void missesNoDeadline(long seed) {
        RandomGenerator random = new java.util.Random(seed);
        List<ScriptedCandidate> candidates =
                LongStream.range(0, 3).mapToObj(election::candidate).toList();
        candidates.forEach(ScriptedCandidate::admit);
        long lastCheckAt = election.ticker.nanos();
        for (int i = 0; i < 3_000; i++) {
            ScriptedCandidate candidate = candidates.get(random.nextInt(3));
            switch (random.nextInt(12)) {
                case 0 -> candidate.resign();
                case 1 -> candidate.signal(new CandidateState.Pause());
                case 2, 3 -> candidate.signal(new CandidateState.Resume());
                case 4 -> election.opens.add(fault(Fault.UNREACHABLE));
                case 5 -> {
                    if (election.loop.view().facts() != null) {
                        election.session().checks.add(fault(Fault.TIMEOUT));
                    }
                }
                default -> {
                    if (random.nextInt(3) > 0) {
                        election.callbacks.runAll();
                    }
                }
            }
            Duration wait = election.turn();
            List<String> journal = election.journal();
            if (journal.contains("check") || journal.contains("open")) {
                lastCheckAt = election.ticker.nanos();
            }
            for (ScriptedCandidate each : candidates) {
                CandidateState candidacy = each.state();
                Long dueAt = candidacy.dueAt();
                if (dueAt != null && !(candidacy.phase() instanceof CandidateState.Follower)) {
                    assertThat(dueAt - election.ticker.nanos()).isPositive();
                    assertThat(wait.toNanos()).isLessThanOrEqualTo(dueAt - election.ticker.nanos());
                }
                if (candidacy.leads()) {
                    assertThat(election.ticker.nanos() + wait.toNanos() - lastCheckAt)
                            .as("between two checks of a leader")
                            .isLessThanOrEqualTo(CHECK_INTERVAL.toNanos());
                    assertThat(each.leads()).isTrue();
                }
            }
            election.ticker.advanceNanos(random.nextBoolean() ? wait.toNanos() : random.nextLong(wait.toNanos() + 1));
        }
        assertThat(candidates)
                .extracting(candidate -> candidate.state().terms())
                .allMatch(terms -> terms > 5);
    }
}
