package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/** A candidate of a {@link ScriptedElection}, which is asked as {@link LeaderElector} does it; its listener writes to the journal. */
final class ScriptedCandidate implements LeadershipListener {

    final LockKey key;
    final Candidate candidate;
    /** Of the last {@link #admit()}. */
    CompletableFuture<Void> left = CompletableFuture.completedFuture(null);
    /** Of the last {@link #resign()}. */
    CompletableFuture<Void> released = new CompletableFuture<>();
    /** Of the last {@link #verify()}. */
    CompletableFuture<Boolean> verified = new CompletableFuture<>();
    /** Thrown by each onElected. */
    @Nullable
    Throwable failsWith;

    private final ScriptedElection election;
    private CandidateRun run = CandidateRun.over();

    ScriptedCandidate(ScriptedElection election, LockKey key, @Nullable BooleanSupplier campaignCondition) {
        this.election = election;
        this.key = key;
        this.candidate =
                new Candidate(key.toString(), key, election.callbacks, campaignCondition, election.commands::wake);
        var unused = candidate.dispatcher.add(this);
    }

    void admit() {
        admit(false);
    }

    void admit(boolean paused) {
        CandidateRun entering = new CandidateRun();
        run = entering;
        left = entering.ended();
        election.commands.post(() -> election.loop.admit(candidate, entering, paused));
    }

    void signal(CandidateState.Signal signal) {
        election.requests.signal(candidate, signal);
    }

    void resign() {
        released = election.requests.signalUntilReleased(
                candidate, new CandidateState.StepDown(RevocationReason.RESIGNED));
    }

    /** The first half of {@link #close()}, which a caller's thread does before it posts the rest. */
    void revoke() {
        candidate.stop(run);
    }

    void close() {
        close(election.options.revokeTimeout());
    }

    void close(Duration revokeTimeout) {
        candidate.stop(run);
        signal(new CandidateState.Close(revokeTimeout.toNanos()));
    }

    void verify() {
        verified = election.requests.verify(candidate);
    }

    CompletableFuture<Optional<LeaderInfo>> findLeader() {
        return election.requests.findLeader(candidate);
    }

    CompletableFuture<Void> requestResignation() {
        return election.requests.requestResignation(candidate);
    }

    boolean leads() {
        return candidate.leads();
    }

    LeaderStatus.Role role() {
        return standing().role();
    }

    Candidate.Standing standing() {
        return candidate.standing();
    }

    CandidateState state() {
        return candidate.state();
    }

    Optional<Leadership> trustedLeadership() {
        return candidate.trustedLeadership();
    }

    @Override
    public void onElected(Leadership leadership) throws Exception {
        election.tell("onElected " + leadership.term());
        if (failsWith instanceof Exception exception) {
            throw exception;
        } else if (failsWith instanceof Error error) {
            throw error;
        }
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {
        election.tell("onRevoked " + leadership.term() + " " + reason);
    }
}
