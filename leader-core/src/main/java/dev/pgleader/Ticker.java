package dev.pgleader;

/**
 * The clocks of this machine. The monotonic one measures all times; two readings of it mean something only by their
 * difference. The wall clock is there for one purpose: on Linux the monotonic clock stands still while the machine is
 * suspended (see CLOCK_MONOTONIC in <a href="https://man7.org/linux/man-pages/man2/clock_gettime.2.html">clock_gettime</a>), and
 * the wall clock doesn't, so that a {@link Lease} that ends by whichever comes first also ends in suspend.
 */
interface Ticker {

    Ticker SYSTEM = new Ticker() {
        @Override
        public long nanos() {
            return System.nanoTime();
        }

        @Override
        public long wallMillis() {
            return System.currentTimeMillis();
        }
    };

    /** The reading of the monotonic clock, in nanoseconds. */
    long nanos();

    /** The reading of the wall clock, in milliseconds. It may be set at any time. */
    long wallMillis();

    /** Both readings. */
    default Moment now() {
        // The monotonic clock last: if the machine is suspended in between, the lease that begins here ends earlier.
        long wallMillis = wallMillis();
        return new Moment(nanos(), wallMillis);
    }

    /** One moment by both clocks. */
    record Moment(long nanos, long wallMillis) {}
}
