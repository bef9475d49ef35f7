package dev.pgleader;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** Two clocks that stand still until a test moves them, together or only one. Thread-safe. */
final class ManualTicker implements Ticker {

    private final AtomicLong nanos;
    /** In nanoseconds, too, so that many small steps add up. */
    private final AtomicLong wallNanos = new AtomicLong(TimeUnit.DAYS.toNanos(20_000));

    ManualTicker(long startNanos) {
        this.nanos = new AtomicLong(startNanos);
    }

    /** A clock whose reading turns negative half a minute from now, as System.nanoTime() may at any time. */
    static ManualTicker beforeOverflow() {
        return new ManualTicker(Long.MAX_VALUE - Duration.ofSeconds(30).toNanos());
    }

    @Override
    public long nanos() {
        return nanos.get();
    }

    @Override
    public long wallMillis() {
        return TimeUnit.NANOSECONDS.toMillis(wallNanos.get());
    }

    void advance(Duration duration) {
        advanceNanos(duration.toNanos());
    }

    void advanceNanos(long duration) {
        nanos.addAndGet(duration);
        wallNanos.addAndGet(duration);
    }

    /** The machine is suspended: the monotonic clock stands still. */
    void suspend(Duration duration) {
        wallNanos.addAndGet(duration.toNanos());
    }

    /** Somebody sets the wall clock; by a negative duration, back. */
    void stepWallClock(Duration duration) {
        wallNanos.addAndGet(duration.toNanos());
    }
}
