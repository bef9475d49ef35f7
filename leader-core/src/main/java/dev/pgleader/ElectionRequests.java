package dev.pgleader;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** What other threads ask of an election: each request becomes a command of the election thread's next turn. Thread-safe. */
final class ElectionRequests {

    private final ElectionLoop loop;
    private final CommandQueue commands;

    ElectionRequests(ElectionLoop loop, CommandQueue commands) {
        this.loop = loop;
        this.commands = commands;
    }

    /** Feeds a signal to the candidate. */
    void signal(Candidate candidate, CandidateState.Signal signal) {
        commands.post(() -> loop.apply(candidate, signal));
    }

    /** Feeds a signal; the future is completed when the candidate doesn't hold the lock any more. */
    CompletableFuture<Void> signalUntilReleased(Candidate candidate, CandidateState.Signal signal) {
        CompletableFuture<Void> released = new CompletableFuture<>();
        commands.post(() -> {
            candidate.futures.completeWhenReleased(released);
            loop.apply(candidate, signal);
        });
        return released;
    }

    /** Completed with whether a check that begins after this call shows that the candidate leads. */
    CompletableFuture<Boolean> verify(Candidate candidate) {
        CompletableFuture<Boolean> verified = new CompletableFuture<>();
        commands.post(() -> loop.reads().verify(candidate, verified));
        return verified;
    }

    /** Completed with who holds the candidate's lock. */
    CompletableFuture<Optional<LeaderInfo>> findLeader(Candidate candidate) {
        CompletableFuture<Optional<LeaderInfo>> found = new CompletableFuture<>();
        commands.post(() -> loop.reads().findLeader(candidate, found));
        return found;
    }

    /** Completed when whoever leads has been asked to resign; exceptionally if that couldn't be sent. */
    CompletableFuture<Void> requestResignation(Candidate candidate) {
        CompletableFuture<Void> sent = new CompletableFuture<>();
        commands.post(() -> loop.requestResignation(candidate, sent));
        return sent;
    }
}
