package dev.pgleader.lock;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.postgresql.jdbc.PgConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A connection on loan: the handle that a {@link DataSource} gave out, and the driver's connection under it. The latter is
 * looked up once, while the handle is sure to lead to it, and kept: closing the handle keeps the session, and with it the
 * session's advisory locks, and only the end of the driver's connection surely frees them.
 *
 * <p>{@link #giveBack()} and {@link #discard()} may be called from any thread; the first one counts.
 */
final class LentConnection {

    private static final Logger LOG = LoggerFactory.getLogger(LentConnection.class);

    /** Held weakly, since a lock that is forgotten, not closed, mustn't keep its connection from the garbage collector. */
    private static final Set<PgConnection> ON_LOAN =
            Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

    private final @Nullable DataSource dataSource;
    private final Connection handle;
    private final PgConnection physical;
    private final AtomicBoolean ended = new AtomicBoolean();

    private LentConnection(@Nullable DataSource dataSource, Connection handle, PgConnection physical) {
        this.dataSource = dataSource;
        this.handle = handle;
        this.physical = physical;
    }

    /** A connection that was opened directly, and is nobody else's. */
    static LentConnection own(Connection connection) throws SQLException {
        return new LentConnection(null, connection, connection.unwrap(PgConnection.class));
    }

    /**
     * Borrows a connection and changes nothing on it. Whatever goes wrong, none is kept.
     *
     * @throws SQLException if there is none, if it isn't one of the PostgreSQL JDBC driver, or if somebody else uses it at
     *     the same time
     */
    static LentConnection borrow(DataSource dataSource) throws SQLException {
        Sharing.refuse(dataSource);
        Connection handle = dataSource.getConnection();
        if (handle == null) {
            throw new SQLException("The DataSource " + name(dataSource) + " handed out null");
        }
        try {
            PgConnection physical = physical(dataSource, handle);
            Sharing.refuse(dataSource, physical);
            if (!ON_LOAN.add(physical)) {
                throw new SQLException(
                        "The DataSource " + name(dataSource) + " handed out one connection twice, and its"
                                + " session holds a lock already or is about to. " + Sharing.ADVICE);
            }
            return new LentConnection(dataSource, handle, physical);
        } catch (Throwable failure) {
            try (handle) {
                throw failure;
            }
        }
    }

    private static PgConnection physical(DataSource dataSource, Connection handle) throws SQLException {
        Throwable cause = null;
        PgConnection physical = null;
        try {
            physical = handle.unwrap(PgConnection.class);
        } catch (SQLException | RuntimeException e) {
            cause = e;
        }
        if (physical == null) {
            throw new SQLException(
                    "The DataSource " + name(dataSource) + " handed out a "
                            + handle.getClass().getName()
                            + " that leads to no connection of the PostgreSQL JDBC driver: Connection.unwrap(PgConnection.class)"
                            + " must return it. Use a wrapper that passes unwrap on, or the DataSource inside of it",
                    cause);
        }
        return physical;
    }

    private static String name(DataSource dataSource) {
        return dataSource.getClass().getName();
    }

    /** What the pool gave out. */
    Connection handle() {
        return handle;
    }

    /** The driver's own connection. */
    PgConnection physical() {
        return physical;
    }

    /** Whether it was given back or discarded. */
    boolean isEnded() {
        return ended.get();
    }

    /** Closes the handle of a connection that is as it came. */
    void giveBack() throws SQLException {
        if (ended.compareAndSet(false, true)) {
            // From here on somebody else may have it.
            ON_LOAN.remove(physical);
            handle.close();
        }
    }

    /**
     * Ends the driver's connection, and with it the session and its locks. Never throws, and never waits for the server: the
     * socket is closed first, whatever a pool does afterwards. Then the pool is told, see {@link Pools}, and gets the dead
     * connection back, so that it has its slot again.
     */
    void discard() {
        if (ended.compareAndSet(false, true)) {
            boolean taken = isTaken();
            abort();
            if (dataSource != null && !taken) {
                Pools.giveBackDead(dataSource, handle);
            } else {
                attempt("close", handle::close);
            }
            ON_LOAN.remove(physical);
        }
    }

    /** Whether the pool has its connection back already, by whoever closed the handle. */
    private boolean isTaken() {
        try {
            return handle.isClosed() && !physical.isClosed();
        } catch (SQLException | RuntimeException e) {
            LOG.debug("The handle doesn't tell whether it is closed", e);
            return false;
        }
    }

    /** Ends the driver's connection under whoever waits for it, and leaves the rest to {@link #discard()}. Never throws. */
    void abort() {
        attempt("abort", () -> physical.abort(Runnable::run));
    }

    /** A step that others make up for. Pools and wrappers are foreign code: they may throw anything. */
    @SuppressWarnings("CatchAndPrintStackTrace")
    static void attempt(String step, Step action) {
        try {
            action.run();
        } catch (Throwable e) {
            LOG.debug("Discarding a connection: the step \"{}\" failed, which leaves it to the others", step, e);
        }
    }

    @FunctionalInterface
    interface Step {
        void run() throws Exception;
    }
}
