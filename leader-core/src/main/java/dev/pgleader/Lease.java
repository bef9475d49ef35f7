package dev.pgleader;

import dev.pgleader.Ticker.Moment;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * How long one term may be trusted: a window of time from the start of the last good check, by the monotonic clock and by the
 * wall clock, whichever ends first; the monotonic clock doesn't run while the machine is suspended, and the wall clock can be set.
 * Once anyone has seen the lease ended, or it is revoked, it stays ended: {@link #renew} fails from then on.
 *
 * <p>The election thread renews; any thread reads and revokes, without a lock and without garbage.
 */
final class Lease {

    /** The bit that marks an ended lease. Deadlines are kept without it, at a resolution of two nanoseconds. */
    private static final long ENDED = 1;

    /** A lease that never was. */
    static final Lease NONE = ended();

    private final Ticker ticker;
    private final long windowNanos;
    private final AtomicLong deadline;
    /** Written before {@link #deadline}, so whoever reads a renewed deadline also reads its wall clock. */
    private volatile long wallDeadlineMillis;

    /** A lease of {@code windowNanos} from the start of a check. */
    Lease(Ticker ticker, Moment checkStarted, long windowNanos) {
        this.ticker = ticker;
        this.windowNanos = windowNanos;
        this.wallDeadlineMillis = wallDeadlineMillis(checkStarted);
        this.deadline = new AtomicLong(deadline(checkStarted));
    }

    private static Lease ended() {
        Lease lease = new Lease(Ticker.SYSTEM, new Moment(0, 0), 0);
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
        long wallLeftMillis = wallDeadlineMillis - ticker.wallMillis();
        long left = Math.min(current - ticker.nanos(), TimeUnit.MILLISECONDS.toNanos(wallLeftMillis));
        if (left > 0) {
            return left;
        }
        // If a renewal came between, it came in time: it isn't undone here, and this reading is the older one.
        return deadline.compareAndSet(current, current | ENDED) ? 0 : remainingNanos();
    }

    /** Lets the window begin anew at the start of a check; returns false, and changes nothing, if the lease has ended. */
    boolean renew(Moment checkStarted) {
        long current = deadline.get();
        if (remainingNanos() == 0) {
            return false;
        }
        wallDeadlineMillis = wallDeadlineMillis(checkStarted);
        return deadline.compareAndSet(current, deadline(checkStarted));
    }

    void revoke() {
        deadline.getAndUpdate(current -> current | ENDED);
    }

    private long deadline(Moment checkStarted) {
        return (checkStarted.nanos() + windowNanos) & ~ENDED;
    }

    private long wallDeadlineMillis(Moment checkStarted) {
        return checkStarted.wallMillis() + TimeUnit.NANOSECONDS.toMillis(windowNanos);
    }
}
