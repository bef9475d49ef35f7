package dev.pgleader.example.lab.supervisor;

import java.util.concurrent.TimeUnit;

/** Milliseconds since its creation; monotonic. Thread-safe. */
final class LabClock {

    private final long startNanos = System.nanoTime();

    long millis() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNanos);
    }
}
