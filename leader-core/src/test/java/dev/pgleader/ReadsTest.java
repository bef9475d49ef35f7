package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What callers ask of the database. */
class ReadsTest extends ElectionTest {

    @Test
    void isTrueAfterACheckThatBeganLater() {
        ScriptedCandidate candidate = election.leader();
        candidate.verify();
        CompletableFuture<Boolean> verified = candidate.verified;
        election.turnAfter(Duration.ofMillis(1));
        election.callbacks.runAll();
        assertThat(verified).isCompletedWithValue(true);
        assertThat(election.journal()).containsExactly("check");
    }

    @Test
    void isOneCheckForAll() {
        ScriptedCandidate candidate = election.leader();
        candidate.verify();
        CompletableFuture<Boolean> first = candidate.verified;
        candidate.verify();
        election.turn();
        election.callbacks.runAll();
        assertThat(election.journal()).containsExactly("check");
        assertThat(List.of(first, candidate.verified))
                .allSatisfy(each -> assertThat(each).isCompletedWithValue(true));
    }

    @ParameterizedTest
    @EnumSource(Fault.class)
    void isFalseIfTheCheckFails(Fault fault) {
        ScriptedCandidate candidate = election.leader();
        candidate.verify();
        CompletableFuture<Boolean> verified = candidate.verified;
        election.session().checks.add(fault(fault));
        election.turn();
        election.callbacks.runAll();
        assertThat(verified).isCompletedWithValue(false);
    }

    @Test
    void isFalseIfTheLeaseRanOutDuringTheCheck() {
        ScriptedCandidate candidate = election.leader();
        candidate.verify();
        CompletableFuture<Boolean> verified = candidate.verified;
        election.session().checks.add(() -> {
            election.ticker.advance(TRUST_WINDOW);
            return Set.of(candidate.key);
        });
        election.turn();
        election.callbacks.runAll();
        assertThat(verified).isCompletedWithValue(false);
    }

    @Test
    void isFalseForAFollowerAndWithoutASession() {
        ScriptedCandidate follower = election.follower();
        follower.verify();
        CompletableFuture<Boolean> following = follower.verified;
        election.turn();
        election.callbacks.runAll();
        assertThat(following).isCompletedWithValue(false);
        election.session().waits.add(fault(Fault.CONNECTION_LOST));
        election.loop.await(0);
        follower.verify();
        CompletableFuture<Boolean> lost = follower.verified;
        election.opens.add(fault(Fault.UNREACHABLE));
        election.turnAfter(SECOND);
        election.callbacks.runAll();
        assertThat(lost).isCompletedWithValue(false);
    }
}
