package dev.pgleader;

import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/**
 * One term of leadership: what {@link LeadershipListener#onElected} is given, for the work of that term to ask whether it
 * may go on.
 *
 * <p>A term that was found invalid once is invalid for ever; a later term of the same elector is another object. A term
 * isn't a fencing token: work that is under way when it ends isn't stopped by anything. Thread-safe.
 */
public final class Leadership {

    private final String electorName;
    private final long term;
    private final Instant since;
    private final Lease lease;
    private final CompletableFuture<RevocationReason> revoked = new CompletableFuture<>();

    Leadership(String electorName, long term, Instant since, Lease lease) {
        this.electorName = electorName;
        this.term = term;
        this.since = since;
        this.lease = lease;
    }

    /** The number of this term among those of its elector, from 1; it says nothing about other instances. */
    public long term() {
        return term;
    }

    /** When the term began, by this machine's wall clock; for people to read. */
    public Instant since() {
        return since;
    }

    /** Whether this term still holds; the same as {@link LeaderElector#isLeader()} in this term. */
    public boolean isValid() {
        return lease.isValid();
    }

    /** How long the term may be trusted without a further check; zero if it's over. */
    public Duration remaining() {
        return Duration.ofNanos(lease.remainingNanos());
    }

    /** Throws {@link LeadershipLostException} unless this term {@linkplain #isValid() still holds}. */
    public void ensureValid() {
        if (!lease.isValid()) {
            throw new LeadershipLostException("Term " + term + " of " + electorName + " is over");
        }
    }

    /**
     * Completed with the reason when this term is revoked, without waiting for any listener; dependent actions run on the
     * elector's callback executor, before, between or after the calls of its listeners.
     */
    public CompletionStage<RevocationReason> revoked() {
        return revoked.minimalCompletionStage();
    }

    Lease lease() {
        return lease;
    }

    void completeRevoked(RevocationReason reason) {
        revoked.complete(reason);
    }

    @Override
    public String toString() {
        return "term " + term + " of " + electorName + (isValid() ? "" : " (over)");
    }
}
