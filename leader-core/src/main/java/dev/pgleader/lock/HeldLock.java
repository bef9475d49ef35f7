package dev.pgleader.lock;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A session-level advisory lock, together with the connection whose session holds it. The lock is held until {@link
 * #close()}, unless that session ends before: keep this in a try-with-resources statement.
 *
 * <p>{@link #close()} and {@link #isHeld()} may be called from any thread, by virtual ones too, and wait for a statement that
 * runs on the connection meanwhile, but no longer than the network timeout. The connection itself is for one thread at a
 * time.
 */
public final class HeldLock implements AutoCloseable {

    private static final Logger LOG = LoggerFactory.getLogger(HeldLock.class);

    private final LockKey key;
    private final PinnedConnection pinned;
    private final Connection connection;
    private final int backendPid;
    private final AtomicBoolean closed = new AtomicBoolean();

    private HeldLock(LockKey key, PinnedConnection pinned, int backendPid) {
        this.key = key;
        this.pinned = pinned;
        this.connection = GuardedConnection.forSession(pinned, key);
        this.backendPid = backendPid;
    }

    static @Nullable HeldLock tryLock(PinnedConnection pinned, LockKey key) throws SQLException {
        pinned.reset(true);
        SessionAnswer answer = pinned.tryLock(OneShotSql.TRY_FOR_SESSION, key);
        return answer.done() ? new HeldLock(key, pinned, answer.backendPid()) : null;
    }

    /** The lock that is held. */
    public LockKey key() {
        return key;
    }

    /**
     * The connection whose session holds the lock. It comes in autocommit mode and with no transaction open. At {@link
     * #close()}, an open transaction is rolled back, and auto-commit, isolation, read-only and network timeout are put
     * back to what the {@link javax.sql.DataSource} had set; a session that the work changed otherwise, as by {@code SET},
     * {@code LISTEN} or another lock, is ended, not given back. It
     * refuses {@link Connection#close()} and {@link Connection#abort}, and is of no use after {@link #close()}.
     */
    public Connection connection() {
        return connection;
    }

    /** The server process whose session took the lock: {@code pid} in {@code pg_locks} and {@code pg_stat_activity}. */
    public int backendPid() {
        return backendPid;
    }

    /**
     * Asks the database whether this session holds the lock now. False once the lock is closed, or its session ended.
     *
     * @throws SQLException if there is no answer: above all in an aborted transaction, which must be rolled back first, and
     *     while the work uses the connection for longer than the network timeout, as for a COPY
     */
    public boolean isHeld() throws SQLException {
        if (closed.get()) {
            return false;
        }
        try {
            SessionAnswer answer = pinned.askIfIdle(OneShotSql.CHECK, key);
            return answer.held() && answer.backendPid() == backendPid;
        } catch (SQLException e) {
            if (pinned.hasEnded(e)) {
                LOG.debug("The session of lock {} has ended", key, e);
                return false;
            }
            throw e;
        }
    }

    /**
     * Rolls back a transaction that was left open, frees the lock, and gives the connection back as it was. Only the
     * first call does anything; others don't wait for it. A COPY that was left open, or a statement that doesn't end within
     * the network timeout, ends the session, and the lock with it.
     *
     * @throws LockLostException if the lock was not held any more, or if the server did not confirm that it was. The
     *     connection is ended then, never reused
     */
    @Override
    public void close() throws LockLostException {
        if (!closed.compareAndSet(false, true)) {
            return;
        }
        SessionAnswer answer;
        try {
            pinned.reset(true);
            answer = pinned.ask(OneShotSql.UNLOCK, key);
        } catch (Throwable failure) {
            pinned.discard();
            throw new LockLostException(key, backendPid, "it could not be freed", failure);
        }
        if (answer.backendPid() != backendPid) {
            pinned.discard();
            throw new LockLostException(
                    key, backendPid, "backend " + answer.backendPid() + " answers on its connection now", null);
        }
        if (!answer.done()) {
            pinned.discard();
            throw new LockLostException(key, backendPid, "its session did not hold it any more", null);
        }
        if (answer.held()) {
            LOG.warn(
                    "The work took lock {} again in the session of backend {} and left it so: the connection is"
                            + " discarded",
                    key,
                    backendPid);
            pinned.discard();
        } else if (pinned.hasMoreThanBefore(answer)) {
            LOG.debug("The work left locks or subscriptions of its own behind: the connection is discarded");
            pinned.discard();
        } else {
            pinned.giveBack();
        }
    }

    @Override
    public String toString() {
        return "session lock " + PinnedConnection.describe(key) + " of backend " + backendPid;
    }
}
