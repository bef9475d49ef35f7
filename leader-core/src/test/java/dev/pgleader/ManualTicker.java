package dev.pgleader;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;

/** A clock that stands still until a test moves it. Thread-safe. */
final class ManualTicker implements Ticker {

    private final AtomicLong nanos;
    private final AtomicLong wallNanos = new AtomicLong(Duration.ofDays(20_000).toNanos());

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
        return wallNanos.get() / 1_000_000;
    }

    /** Sets the wall clock forward, or back. */
    void stepWallClock(Duration step) {
        wallNanos.addAndGet(step.toNanos());
    }

    /** The machine sleeps: its wall clock goes on, its monotonic clock doesn't. */
    void suspend(Duration duration) {
        stepWallClock(duration);
    }

    void advance(Duration duration) {
        advanceNanos(duration.toNanos());
    }

    void advanceNanos(long duration) {
        nanos.addAndGet(duration);
        wallNanos.addAndGet(duration);
    }
}
