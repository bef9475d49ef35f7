package dev.pgleader;

import java.util.concurrent.TimeUnit;

/**
 * Something that executes: a process with its machine's clocks. While it's frozen its clocks and the world go on; while its machine
 * is suspended, only its wall clock and the world do.
 */
class SimulatedHost {

    /**
     * A machine's clocks.
     *
     * @param rate by how much they run faster than simulated time, 1 being equal
     * @param offset the reading of the monotonic clock at the beginning
     */
    record Clock(double rate, long offset) {}

    final SimulatedWorld world;
    final String name;
    final Clock clock;
    boolean down;
    private long frozenUntil;
    private long suspendedFrom;
    private long suspendedUntil;
    /** For how long it was suspended before that. */
    private long suspendedBefore;
    /** By how much its wall clock is ahead. */
    private long wallStep;

    SimulatedHost(SimulatedWorld world, String name, Clock clock) {
        this.world = world;
        this.name = name;
        this.clock = clock;
    }

    /** The monotonic clock, in nanoseconds. */
    long readClock() {
        return clock.offset + (long) ((world.now() - suspendedNanos()) * clock.rate);
    }

    /** The wall clock, in milliseconds. */
    long readWallClock() {
        return TimeUnit.NANOSECONDS.toMillis((long) (world.now() * clock.rate) + wallStep);
    }

    /** Sets the wall clock. */
    void stepWallClock(long nanos) {
        wallStep += nanos;
    }

    /** When, in simulated time, this host's clock will have advanced so far. */
    long after(long nanosOfClock) {
        return world.now() + (long) Math.ceil(nanosOfClock / clock.rate) + 1;
    }

    void freeze(long nanos) {
        frozenUntil = Math.max(frozenUntil, world.now() + nanos);
    }

    void suspend(long nanos) {
        suspendedBefore = suspendedNanos();
        suspendedFrom = world.now();
        suspendedUntil = Math.max(suspendedUntil, world.now() + nanos);
        freeze(nanos);
    }

    private long suspendedNanos() {
        return suspendedBefore + Math.max(0, Math.min(world.now(), suspendedUntil) - suspendedFrom);
    }

    void thaw() {
        frozenUntil = world.now();
        suspendedUntil = Math.min(suspendedUntil, world.now());
    }

    long frozenUntil() {
        return frozenUntil;
    }

    boolean isFrozen() {
        return frozenUntil > world.now();
    }

    @Override
    public String toString() {
        return name;
    }
}
