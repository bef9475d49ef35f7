package dev.pgleader;

import java.util.concurrent.atomic.AtomicLong;

/**
 * How long one term may be trusted. It ends at its deadline or when it is revoked, whichever comes first, and once anyone
 * has seen it ended it stays ended: {@link #renew} fails from then on.
 *
 * <p>The election thread renews and revokes; any thread reads, without a lock and without garbage.
 */
final class Lease {

    /** The bit that marks an ended lease. Deadlines are kept without it, at a resolution of two nanoseconds. */
    private static final long ENDED = 1;

    private final Ticker ticker;
    private final AtomicLong deadline;

    Lease(Ticker ticker, long deadlineNanos) {
        this.ticker = ticker;
        this.deadline = new AtomicLong(deadlineNanos & ~ENDED);
    }

    /** A lease that never was. */
    static Lease ended(Ticker ticker) {
        Lease lease = new Lease(ticker, 0);
        lease.revoke();
        return lease;
    }

    boolean isValid() {
        return remainingNanos() > 0;
    }

    /** The time left, in nanoseconds; 0 if the lease has ended. */
    long remainingNanos() {
        long current = deadline.get();
        if ((current & ENDED) != 0) {
            return 0;
        }
        long left = current - ticker.nanos();
        if (left > 0) {
            return left;
        }
        // If a renewal came between, it came in time: it isn't undone here, and this reading is the older one.
        return deadline.compareAndSet(current, current | ENDED) ? 0 : remainingNanos();
    }

    /** Moves the deadline; returns false, and changes nothing, if the lease has ended. */
    boolean renew(long deadlineNanos) {
        long current = deadline.get();
        return remainingNanos() > 0 && deadline.compareAndSet(current, deadlineNanos & ~ENDED);
    }

    void revoke() {
        deadline.getAndUpdate(current -> current | ENDED);
    }
}
