package dev.pgleader.lock;

import dev.pgleader.lock.LockSession.Notification;
import java.net.SocketTimeoutException;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.postgresql.PGNotification;
import org.postgresql.util.PSQLState;

/**
 * A connection on somebody else's socket: it looks for news every {@value #SLICE_MILLIS} ms. The driver notices the end of
 * such a connection within a second.
 */
final class PolledConnection extends SessionConnection {

    private static final long SLICE_MILLIS = 100;

    private final BoundedEncoding encoding;
    private volatile @Nullable Thread waiting;
    private volatile boolean woken;

    PolledConnection(LentConnection lent) {
        super(lent);
        encoding = BoundedEncoding.of(lent.physical());
    }

    @Override
    Connection connection() {
        encoding.renew();
        return super.connection();
    }

    @Override
    List<Notification> await(long maxNanos) throws SQLException {
        long startNanos = System.nanoTime();
        waiting = Thread.currentThread();
        try {
            while (true) {
                long askedNanos = System.nanoTime();
                encoding.renew();
                PGNotification[] received = physical().getNotifications();
                if (System.nanoTime() - askedNanos >= networkTimeoutNanos()) {
                    // The driver takes a message that doesn't end for none, and its rest for the next one.
                    throw new SQLException(
                            "The rest of a message didn't come in time",
                            PSQLState.CONNECTION_FAILURE.getState(),
                            new SocketTimeoutException("Read timed out"));
                }
                long leftNanos = maxNanos - (System.nanoTime() - startNanos);
                if (received.length > 0 || woken || leftNanos <= 0) {
                    return ofOurChannel(received);
                }
                if (Thread.currentThread().isInterrupted()) {
                    throw new SQLException(
                            "Interrupted while waiting for the database", PSQLState.CONNECTION_FAILURE.getState());
                }
                LockSupport.parkNanos(this, Math.min(leftNanos, TimeUnit.MILLISECONDS.toNanos(SLICE_MILLIS)));
            }
        } finally {
            waiting = null;
            woken = false;
        }
    }

    private long networkTimeoutNanos() throws SQLException {
        int millis = physical().getNetworkTimeout();
        return millis == 0 ? Long.MAX_VALUE : TimeUnit.MILLISECONDS.toNanos(millis);
    }

    @Override
    void wake() {
        woken = true;
        LockSupport.unpark(waiting);
    }

    @Override
    void abort() {
        lent().discard();
    }
}
