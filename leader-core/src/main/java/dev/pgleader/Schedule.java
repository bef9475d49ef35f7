package dev.pgleader;

import dev.pgleader.Ticker.Moment;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** When the election thread is to do what. All times are readings of the election's {@link Ticker}. Of the election thread. */
final class Schedule {

    /** However many hints come, there is this much time between two polls that they cause. */
    private static final long LEAST_BETWEEN_HINTS_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

    private long nextPollAt;
    private long nextCheckAt;
    private long lastHintAt;
    private @Nullable Moment checkStarted;
    private volatile @Nullable Long lastAttemptAt;

    Schedule(long now) {
        nextPollAt = now;
        nextCheckAt = now;
        lastHintAt = now - LEAST_BETWEEN_HINTS_NANOS;
    }

    boolean isPollDue(long now) {
        return now - nextPollAt >= 0;
    }

    /** Whether a check is due at the time, which may be in the future. */
    boolean isCheckDue(long at) {
        return at - nextCheckAt >= 0;
    }

    void pollAt(long at) {
        nextPollAt = at;
    }

    /** Polls earlier than planned, if that is earlier. */
    void pollBy(long at) {
        if (at - nextPollAt < 0) {
            nextPollAt = at;
        }
    }

    /** Somebody says that a lock is free: looks soon, but not oftener than the server can bear. */
    void hinted(long now) {
        long earliest = lastHintAt + LEAST_BETWEEN_HINTS_NANOS;
        long at = earliest - now > 0 ? earliest : now;
        if (at - nextPollAt < 0) {
            nextPollAt = at;
            lastHintAt = at;
        }
    }

    void checkAt(long at) {
        nextCheckAt = at;
    }

    /** A check that began then has succeeded. */
    void checked(Moment started, long intervalNanos) {
        checkStarted = started;
        nextCheckAt = started.nanos() + intervalNanos;
    }

    /** When the last check that succeeded began, the anchor of every lease; null before the first. */
    @Nullable
    Moment lastCheck() {
        return checkStarted;
    }

    void attempted(long now) {
        lastAttemptAt = now;
    }

    /** When a lock was tried last; null before the first time. For any thread. */
    @Nullable
    Long lastAttemptAt() {
        return lastAttemptAt;
    }

    long untilPollNanos(long now) {
        return nextPollAt - now;
    }

    long untilCheckNanos(long now) {
        return nextCheckAt - now;
    }
}
