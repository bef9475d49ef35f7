package dev.pgleader;

import dev.pgleader.lock.LockSession.Facts;
import dev.pgleader.lock.LockSession.ServerRun;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * From when on a lock that was granted can't be under somebody else's lease any more: a server that restarts, recovers from a crash
 * or is promoted forgets its locks without waiting for the lease. A server is recognised by what it says of itself; how long
 * it says to have run counts for no more than a lease, and for no less than nothing, since its clock may be wrong. Of the election
 * thread.
 */
final class RestartGuard {

    private final long leaseNanos;
    private final TakeoverDelay delay;
    private @Nullable ServerRun lastRun;
    private long safeAt;

    RestartGuard(ElectorOptions options, long now) {
        this.leaseNanos = options.leaseDuration().toNanos();
        this.delay = options.takeoverDelay();
        this.safeAt = now;
    }

    /** A session was opened. */
    void opened(Facts facts, long now) {
        ServerRun before = lastRun;
        boolean forgotLocks = before != null && facts.server().isAnotherThan(before);
        Duration uptime = facts.serverUptime();
        long ranFor = uptime.isNegative() ? 0 : Math.min(nanos(uptime), leaseNanos);
        long safe = forgotLocks ? now + leaseNanos : now + leaseNanos - ranFor;
        safeAt = safe - safeAt > 0 ? safe : safeAt;
        lastRun = before == null ? facts.server() : facts.server().knowing(before);
    }

    private static long nanos(Duration duration) {
        return duration.compareTo(ElectorOptions.LONGEST) > 0 ? ElectorOptions.LONGEST.toNanos() : duration.toNanos();
    }

    /** From when on this instance may lead under a lock that it gets now. */
    long leadsFrom(long now) {
        if (delay == TakeoverDelay.NONE) {
            return now;
        }
        Duration fixed = delay.fixed();
        long fixedEnd = fixed == null ? now : now + fixed.toNanos();
        return fixedEnd - safeAt > 0 ? fixedEnd : safeAt;
    }
}
