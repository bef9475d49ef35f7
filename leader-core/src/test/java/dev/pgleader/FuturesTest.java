package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** The futures that callers wait for. */
class FuturesTest extends ElectionTest {

    @Test
    void areNeverCompletedOnTheElectionThread() {
        ScriptedCandidate candidate = election.candidate(1);
        List<CompletableFuture<?>> futures = new ArrayList<>();
        CompletableFuture<Leadership> elected = new CompletableFuture<>();
        candidate.candidate.futures.completeWhenElected(elected);
        futures.add(elected);
        candidate.admit();
        candidate.verify();
        futures.add(candidate.verified);
        election.turn();
        futures.add(candidate.trustedLeadership().orElseThrow().revoked().toCompletableFuture());
        election.turn();
        candidate.resign();
        futures.add(candidate.released);
        election.turn();
        candidate.candidate.calls.reports().drained(1);
        election.turn();
        assertThat(election.session().held).as("released").isEmpty();
        assertThat(futures).noneMatch(CompletableFuture::isDone);
        election.callbacks.runAll();
        assertThat(futures).allMatch(CompletableFuture::isDone);
    }

    @Test
    void ofTheNextTermAreCompletedWithIt() {
        ScriptedCandidate candidate = election.follower();
        CompletableFuture<Leadership> elected = new CompletableFuture<>();
        candidate.candidate.futures.completeWhenElected(elected);
        election.run(SECOND.multipliedBy(3));
        assertThat(elected).isNotDone();
        election.server.freeAll();
        election.run(RETRY_INTERVAL.plusMillis(1));
        assertThat(elected).isCompletedWithValueMatching(Leadership::isValid);
    }
}
