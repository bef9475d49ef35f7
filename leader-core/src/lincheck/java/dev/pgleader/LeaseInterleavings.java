package dev.pgleader;

import java.util.concurrent.TimeUnit;
import org.jetbrains.lincheck.datastructures.IntGen;
import org.jetbrains.lincheck.datastructures.Operation;
import org.jetbrains.lincheck.datastructures.Param;

/**
 * A lease as its threads use it: the election thread checks and renews, any thread reads and revokes, and time passes. Whatever
 * they see must be what they would see one after another.
 */
@Param(name = "millis", gen = IntGen.class, conf = "1:6")
public class LeaseInterleavings {

    private static final String ELECTION_THREAD = "election thread";
    private static final long WINDOW_MILLIS = 5;

    private final Clocks clocks = new Clocks();
    private final Lease lease = new Lease(clocks, clocks.now(), TimeUnit.MILLISECONDS.toNanos(WINDOW_MILLIS));
    private Ticker.Moment checkStarted = clocks.now();

    private static final class Clocks implements Ticker {

        private volatile long millis;
        private volatile long wallMillis = 1_000;

        @Override
        public long nanos() {
            return TimeUnit.MILLISECONDS.toNanos(millis);
        }

        @Override
        public long wallMillis() {
            return wallMillis;
        }

        synchronized void advance(long change) {
            millis += change;
            wallMillis += change;
        }

        synchronized void suspend(long change) {
            wallMillis += change;
        }
    }

    @Operation(nonParallelGroup = ELECTION_THREAD)
    public void startCheck() {
        checkStarted = clocks.now();
    }

    @Operation(nonParallelGroup = ELECTION_THREAD)
    public boolean renew() {
        return lease.renew(checkStarted);
    }

    @Operation
    public boolean isValid() {
        return lease.isValid();
    }

    @Operation
    public void revoke() {
        lease.revoke();
    }

    @Operation
    public void pass(@Param(name = "millis") int millis) {
        clocks.advance(millis);
    }

    @Operation
    public void suspend(@Param(name = "millis") int millis) {
        clocks.suspend(millis);
    }
}
