package dev.pgleader;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;

/** A clock that stands still until a test moves it. Thread-safe. */
final class ManualTicker implements Ticker {

    private final AtomicLong nanos;

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

    void advance(Duration duration) {
        nanos.addAndGet(duration.toNanos());
    }

    void advanceNanos(long duration) {
        nanos.addAndGet(duration);
    }
}
