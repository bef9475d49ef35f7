package dev.pgleader;

/** A monotonic clock. Two readings mean something only by their difference. */
@FunctionalInterface
interface Ticker {

    Ticker SYSTEM = System::nanoTime;

    /** The reading, in nanoseconds. */
    long nanos();
}
