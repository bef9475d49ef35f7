package dev.pgleader;

import org.jetbrains.lincheck.datastructures.ModelCheckingOptions;
import org.jetbrains.lincheck.datastructures.Options;
import org.jetbrains.lincheck.datastructures.StressOptions;
import org.jetbrains.lincheck.datastructures.verifier.EpsilonVerifier;
import org.junit.jupiter.api.Test;

/**
 * What threads do to each other where they meet without a lock: small programs of a few calls on two or three threads, each run in
 * all orders in which one thread may stop for another, as far as {@code lincheck.invocations} go.
 */
class InterleavingsTest {

    private static final int PROGRAMS = Integer.getInteger("lincheck.programs", 40);
    private static final int INVOCATIONS = Integer.getInteger("lincheck.invocations", 2_000);

    private static <T extends Options<T, ?>> T sized(T options) {
        return options.iterations(PROGRAMS)
                .invocationsPerIteration(INVOCATIONS)
                .threads(3)
                .actorsBefore(1)
                .actorsPerThread(3)
                .actorsAfter(2);
    }

    @Test
    void lease() {
        sized(new ModelCheckingOptions()).check(LeaseInterleavings.class);
    }

    @Test
    void commands() {
        sized(new ModelCheckingOptions()).check(CommandQueueInterleavings.class);
    }

    @Test
    void callbackQueue() {
        sized(new ModelCheckingOptions()).verifier(EpsilonVerifier.class).check(CallbackQueueInterleavings.class);
    }

    /** The model checker takes memory to be the same for all threads; here it's as it is. */
    @Test
    void leaseUnderStress() {
        sized(new StressOptions()).check(LeaseInterleavings.class);
    }
}
