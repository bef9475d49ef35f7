package dev.pgleader.lock;

import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends a round trip that takes too long, whatever it waits for. The timeout of the socket ends waits for the server alone;
 * the driver also waits, without bound, for a COPY to end that was left open, or for a statement of another thread.
 *
 * <p>One daemon thread serves all round trips, and ends when there are none. It runs no foreign code.
 */
final class Watchdog {

    private static final Logger LOG = LoggerFactory.getLogger(Watchdog.class);
    private static final ScheduledThreadPoolExecutor TIMER = timer();

    private Watchdog() {}

    private static ScheduledThreadPoolExecutor timer() {
        ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, Watchdog::daemon);
        timer.setKeepAliveTime(10, TimeUnit.SECONDS);
        timer.allowCoreThreadTimeOut(true);
        timer.setRemoveOnCancelPolicy(true);
        return timer;
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task, "pg-leader-watchdog");
        thread.setDaemon(true);
        // It outlives the application that happened to come first.
        thread.setContextClassLoader(null);
        return thread;
    }

    /**
     * Runs the round trip on this thread. Once the limit is over, runs {@code end} on another one, and interrupts this
     * one; no interrupt of its own is left behind.
     *
     * @param end ends the connection, so that a wait on its socket fails; null to leave the connection alone, so that only
     *     a wait that can be interrupted is ended
     * @throws SQLException what the round trip throws; if it was ended, with what that led to as its cause
     */
    static <R> R watch(Duration limit, @Nullable Runnable end, RoundTrip<R> roundTrip) throws SQLException {
        Watch watch = new Watch(Thread.currentThread(), end);
        try {
            watch.timer = TIMER.schedule(watch, limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (Throwable e) {
            LOG.debug("No thread for the watchdog: only the socket's timeout bounds this round trip", e);
        }
        R result;
        try {
            result = roundTrip.run();
        } catch (SQLException | RuntimeException | Error e) {
            if (watch.isOver()) {
                throw tooLong(limit, end, e);
            }
            throw e;
        }
        if (watch.isOver()) {
            throw tooLong(limit, end, null);
        }
        return result;
    }

    private static SQLException tooLong(Duration limit, @Nullable Runnable end, @Nullable Throwable cause) {
        return new SQLException(
                "The connection didn't answer within the network timeout of " + limit.toMillis()
                        + " ms: the server is silent, or the work left the connection busy, as with a COPY or a statement"
                        + " of another thread",
                end == null ? SqlStates.OBJECT_IN_USE : SqlStates.CONNECTION_FAILURE,
                cause);
    }

    private static final class Watch implements Runnable {

        private final Thread caller;
        private final @Nullable Runnable end;
        private final AtomicBoolean decided = new AtomicBoolean();
        private final CountDownLatch interrupted = new CountDownLatch(1);
        private @Nullable Future<?> timer;

        Watch(Thread caller, @Nullable Runnable end) {
            this.caller = caller;
            this.end = end;
        }

        @Override
        public void run() {
            if (decided.compareAndSet(false, true)) {
                try {
                    if (end != null) {
                        end(end);
                    }
                } finally {
                    caller.interrupt();
                    interrupted.countDown();
                }
            }
        }

        private static void end(Runnable end) {
            try {
                // Not here: to end a TLS connection may take its time, and others wait for this thread.
                daemon(end).start();
            } catch (Throwable e) {
                LOG.debug("No thread to end a connection, so the watchdog does it", e);
                end.run();
            }
        }

        /** Decides, on the caller's thread, whether the round trip was in time. */
        boolean isOver() {
            if (decided.compareAndSet(false, true)) {
                if (timer != null) {
                    timer.cancel(false);
                }
                return false;
            }
            boolean seen = false;
            while (!seen) {
                try {
                    interrupted.await();
                    seen = true;
                } catch (InterruptedException e) {
                    // It is the watchdog's, or lost with it.
                }
            }
            Thread.interrupted();
            return true;
        }
    }

    @FunctionalInterface
    interface RoundTrip<R> {
        R run() throws SQLException;
    }
}
