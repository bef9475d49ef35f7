package dev.pgleader;

import dev.failsafe.Execution;
import dev.failsafe.RetryPolicy;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** How long to wait after the last failure in a row: longer each time, up to a limit, with jitter. */
interface Backoff {

    /** Counts one more failure and returns the time to wait after it. */
    Duration afterFailure();

    /** Forgets the failures. */
    void reset();

    /** Delays that double from a quarter of the retry interval on. */
    static Backoff of(ElectorOptions options) {
        Duration first = options.retryInterval().dividedBy(4);
        Duration longest = options.maxReconnectDelay();
        RetryPolicy<Object> policy = RetryPolicy.builder()
                .withMaxAttempts(-1)
                .withBackoff(first, longest)
                .withJitter(0.2)
                .build();
        return new Backoff() {
            private @Nullable Execution<Object> failures;

            @Override
            public Duration afterFailure() {
                if (failures == null) {
                    failures = Execution.of(policy);
                }
                failures.recordException(new IllegalStateException("no session"));
                Duration jittered = failures.getDelay();
                return jittered.compareTo(longest) < 0 ? jittered : longest;
            }

            @Override
            public void reset() {
                failures = null;
            }
        };
    }
}
