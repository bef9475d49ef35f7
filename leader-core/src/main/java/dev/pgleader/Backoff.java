package dev.pgleader;

import dev.failsafe.Execution;
import dev.failsafe.RetryPolicy;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** How long to wait between two attempts to open a session. */
interface Backoff {

    /** Counts one more failure in a row and returns the time from the last attempt to the next. */
    Duration afterFailure(Fault fault);

    /** Forgets the failures. */
    void reset();

    /**
     * One retry interval, with jitter, as long as the server can't be reached: so an elector is back soon after its database is.
     * The delay doubles, up to the longest, while the server answers with something that a person has to mend.
     */
    static Backoff of(ElectorOptions options) {
        RetryPolicy<Boolean> steady = RetryPolicy.<Boolean>builder()
                .handleResult(false)
                .withMaxAttempts(-1)
                .withDelay(options.retryInterval())
                .withJitter(options.retryJitter())
                .build();
        Duration shortest = options.retryInterval();
        // What the jitter adds is within the longest delay, too.
        Duration longest =
                Duration.ofNanos((long) (options.maxReconnectDelay().toNanos() / (1 + options.retryJitter())));
        RetryPolicy<Boolean> growing = shortest.compareTo(longest) < 0
                ? RetryPolicy.<Boolean>builder()
                        .handleResult(false)
                        .withMaxAttempts(-1)
                        .withBackoff(shortest, longest)
                        .withJitter(options.retryJitter())
                        .build()
                : steady;
        return new Backoff() {
            private @Nullable Execution<Boolean> failures;
            private boolean grows;

            @Override
            public Duration afterFailure(Fault fault) {
                boolean toMend = needsMending(fault);
                if (failures == null || grows != toMend) {
                    grows = toMend;
                    failures = Execution.of(grows ? growing : steady);
                }
                failures.recordResult(false);
                return failures.getDelay();
            }

            @Override
            public void reset() {
                failures = null;
            }
        };
    }

    /** Whether to try again soon makes no difference, before somebody has changed something. */
    private static boolean needsMending(Fault fault) {
        return switch (fault) {
            case LOGIN_REFUSED, SHARED_BACKEND, LOCKS_NOT_REAL, LEASE_NOT_ENFORCED, UNSUPPORTED_SERVER -> true;
            default -> false;
        };
    }
}
