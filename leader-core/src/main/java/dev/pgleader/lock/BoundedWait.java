package dev.pgleader.lock;

import dev.failsafe.Failsafe;
import dev.failsafe.FailsafeException;
import dev.failsafe.RetryPolicy;
import java.sql.SQLException;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Tries again until something comes of it or the time is over. Polling, since a session that waits in {@code
 * pg_advisory_lock} keeps a snapshot: it holds back vacuum, and deadlocks with {@code CREATE INDEX CONCURRENTLY}.
 */
final class BoundedWait {

    private static final Duration LONGEST_WAIT = Duration.ofDays(30);
    private static final Duration FIRST_DELAY = Duration.ofMillis(50);
    private static final Duration LONGEST_DELAY = Duration.ofMillis(500);
    private static final Duration SHORTEST_POLLED_WAIT = Duration.ofMillis(1);
    private static final double JITTER = 0.25;

    private BoundedWait() {}

    static void requireReasonable(Duration maxWait) {
        if (maxWait.isNegative() || maxWait.compareTo(LONGEST_WAIT) > 0) {
            throw new IllegalArgumentException(
                    "maxWait must be between zero and " + LONGEST_WAIT + ", but is " + maxWait);
        }
    }

    /**
     * The first result that is not null, or null if there is none in time. The first try is always made.
     *
     * @throws SQLException as soon as one try throws it
     * @throws InterruptedException if the thread is interrupted between two tries
     */
    static <L> @Nullable L poll(Duration maxWait, Try<L> attempt) throws SQLException, InterruptedException {
        if (maxWait.compareTo(SHORTEST_POLLED_WAIT) < 0) {
            return attempt.run();
        }
        Duration half = maxWait.dividedBy(2);
        RetryPolicy<@Nullable L> untilFree = RetryPolicy.<@Nullable L>builder()
                .handleIf((result, failure) -> failure == null && result == null)
                .withMaxRetries(-1)
                .withBackoff(half.compareTo(FIRST_DELAY) < 0 ? half : FIRST_DELAY, LONGEST_DELAY)
                .withJitter(JITTER)
                .withMaxDuration(maxWait)
                .build();
        try {
            return Failsafe.with(untilFree).get(attempt::run);
        } catch (FailsafeException e) {
            if (e.getCause() instanceof SQLException failure) {
                throw failure;
            }
            if (e.getCause() instanceof InterruptedException interrupted) {
                // Failsafe sets the flag; the exception takes its place.
                Thread.interrupted();
                throw interrupted;
            }
            throw e;
        }
    }

    @FunctionalInterface
    interface Try<L> {
        @Nullable
        L run() throws SQLException;
    }
}
