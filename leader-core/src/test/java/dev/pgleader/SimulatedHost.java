package dev.pgleader;

/** Something that executes: a process with its machine's clock. While it's frozen its clock and the world go on. */
class SimulatedHost {

    /**
     * A monotonic clock.
     *
     * @param rate by how much it runs faster than simulated time, 1 being equal
     * @param offset its reading at the beginning
     */
    record Clock(double rate, long offset) {}

    final SimulatedWorld world;
    final String name;
    final Clock clock;
    boolean down;
    private long frozenUntil;

    SimulatedHost(SimulatedWorld world, String name, Clock clock) {
        this.world = world;
        this.name = name;
        this.clock = clock;
    }

    long readClock() {
        return clock.offset + (long) (world.now() * clock.rate);
    }

    /** When, in simulated time, this host's clock will have advanced so far. */
    long after(long nanosOfClock) {
        return world.now() + (long) Math.ceil(nanosOfClock / clock.rate) + 1;
    }

    void freeze(long nanos) {
        frozenUntil = Math.max(frozenUntil, world.now() + nanos);
    }

    void thaw() {
        frozenUntil = world.now();
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
