package dev.pgleader.lock;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.postgresql.core.TransactionState;
import org.postgresql.jdbc.PgConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A connection on loan from a {@link DataSource}: used, then either given back as it came or discarded. Each round trip
 * ends within the network timeout, and {@link Watchdog} sees to it whatever the connection is busy with. Round trips take
 * turns with each other and with the calls of the work, so any thread may ask; what is lent is ended by one.
 */
final class PinnedConnection {

    private static final Logger LOG = LoggerFactory.getLogger(PinnedConnection.class);

    /** What the socket's own timeout gets ahead of the watchdog, since it tells more. */
    private static final Duration GRACE = Duration.ofMillis(200);

    /** The driver's value for statements that get no name on the server. */
    private static final int NEVER_NAMED = 0;

    private final LentConnection lent;
    private final Duration networkTimeout;
    private final ReentrantLock turn = new ReentrantLock();

    private final boolean autoCommitBefore;
    private final boolean readOnlyBefore;
    private final int networkTimeoutMillisBefore;
    private final int prepareThresholdBefore;
    private @Nullable SessionAnswer before;
    private @Nullable SessionAnswer latest;
    private volatile boolean sessionChanged;

    private PinnedConnection(LentConnection lent, Duration networkTimeout) throws SQLException {
        this.lent = lent;
        this.networkTimeout = networkTimeout;
        this.autoCommitBefore = handle().getAutoCommit();
        this.readOnlyBefore = handle().isReadOnly();
        this.networkTimeoutMillisBefore = physical().getNetworkTimeout();
        this.prepareThresholdBefore = physical().getPrepareThreshold();
        if (physical().getTransactionState() != TransactionState.IDLE) {
            throw new SQLException("The DataSource handed out a connection with an open transaction, which is not ours"
                    + " to end. Use the plain DataSource, not a transaction-aware one; if a pool's test query left the"
                    + " transaction open, let the pool use Connection.isValid");
        }
        // A named statement belongs to a backend, and a pooler in transaction mode changes backends.
        physical().setPrepareThreshold(NEVER_NAMED);
    }

    /**
     * Borrows a connection and changes nothing on the server yet.
     *
     * @throws SQLException if there is none, if it is not one of the PostgreSQL JDBC driver, if it is shared, or if it comes
     *     with a transaction open
     */
    static PinnedConnection borrow(DataSource dataSource, Duration networkTimeout) throws SQLException {
        LentConnection lent = LentConnection.borrow(dataSource);
        try {
            return new PinnedConnection(lent, networkTimeout);
        } catch (Throwable failure) {
            try {
                lent.giveBack();
            } catch (Throwable second) {
                failure.addSuppressed(second);
            }
            throw failure;
        }
    }

    Connection handle() {
        return lent.handle();
    }

    private PgConnection physical() {
        return lent.physical();
    }

    /** Held by whoever uses the connection just now. */
    ReentrantLock turn() {
        return turn;
    }

    /** Whether the session has locks or subscriptions now that it didn't come with. */
    boolean hasMoreThanBefore(SessionAnswer now) {
        return before == null || now.belongings() > before.belongings();
    }

    /** The work changes something that stays with the session, so nobody is to get it after this. */
    void sessionChanges() {
        sessionChanged = true;
    }

    /** Whether a statement failed since the work's transaction began, so that it can only be rolled back. */
    boolean isTransactionAborted() {
        return physical().getTransactionState() == TransactionState.FAILED;
    }

    /** Whether this failure means that the session is over, and its locks with it. */
    boolean hasEnded(SQLException failure) throws SQLException {
        return physical().isClosed() || handle().isClosed() || SqlFaults.isEndOfSession(failure);
    }

    /** Rolls back whatever transaction is open, then chooses how the next statement is run. */
    void reset(boolean autoCommit) throws SQLException {
        bounded(() -> {
            // Not Connection.rollback(), which refuses to end a transaction that the work began by SQL text.
            return physical().getTransactionState() != TransactionState.IDLE && executeNow(OneShotSql.ROLLBACK);
        });
        bounded(() -> {
            handle().setAutoCommit(autoCommit);
            return autoCommit;
        });
    }

    void execute(String sql) throws SQLException {
        bounded(() -> executeNow(sql));
    }

    void commit() throws SQLException {
        bounded(() -> {
            physical().setPrepareThreshold(NEVER_NAMED);
            handle().commit();
            return true;
        });
    }

    /**
     * Tries to take the key with one of the try statements of {@link OneShotSql}.
     *
     * @throws SQLException also if this session holds the key already: then "granted" would prove nothing; and if the
     *     server says that it granted the key, and shows no lock
     */
    SessionAnswer tryLock(String sql, LockKey key) throws SQLException {
        SessionAnswer answer = ask(sql, key);
        if (answer.held()) {
            throw new SQLException("Lock " + describe(key) + " is already held by the session of backend "
                    + answer.backendPid() + " that the DataSource handed out: somebody returned it locked, or a pooler"
                    + " such as PgBouncer in transaction mode shares it. The connection is discarded. If a pooler stands between, "
                    + PgLockSession.POOLER_ADVICE + "; else look for who gives back what he has locked");
        }
        if (answer.done() && !answer.shown()) {
            throw new SQLException(
                    "The server says that it granted lock " + describe(key) + ", but its pg_locks shows no"
                            + " such lock, so nobody is kept from it. The server says that it is \"" + version()
                            + "\": use PostgreSQL itself. Others that speak its protocol, such as CockroachDB, or a proxy or an"
                            + " emulation in between, may take advisory locks for a call that does nothing");
        }
        if (answer.done() && answer.backendPid() == physical().getBackendPID()) {
            // The login led to this backend, so no pooler changes it: the work has what the DataSource had set.
            physical().setPrepareThreshold(prepareThresholdBefore);
        }
        return answer;
    }

    private String version() throws SQLException {
        return bounded(() -> {
            try (PreparedStatement statement = handle().prepareStatement(OneShotSql.VERSION);
                    ResultSet row = statement.executeQuery()) {
                return row.next() ? String.valueOf(row.getString(1)) : "unknown";
            }
        });
    }

    /** Asks with one of the statements of {@link OneShotSql} about a key. If there is no answer, the connection is ended. */
    SessionAnswer ask(String sql, LockKey key) throws SQLException {
        return bounded(() -> answer(sql, key));
    }

    /**
     * Asks on behalf of somebody who only wants to know, so the connection is left alone if it is busy.
     *
     * @throws SQLException also if it is busy for longer than the network timeout
     */
    SessionAnswer askIfIdle(String sql, LockKey key) throws SQLException {
        return bounded(
                () -> {
                    throw new SQLException(
                            "The work has been using the connection of lock " + describe(key) + " for longer than the"
                                    + " network timeout of " + networkTimeout.toMillis()
                                    + " ms, so the server can't be asked about the lock",
                            SqlStates.OBJECT_IN_USE);
                },
                null,
                () -> answer(sql, key));
    }

    private SessionAnswer answer(String sql, LockKey key) throws SQLException {
        try (PreparedStatement statement = prepare(sql)) {
            bind(key, statement);
            try (ResultSet row = statement.executeQuery()) {
                SessionAnswer answer = SessionAnswer.read(row);
                latest = answer;
                if (before == null) {
                    before = answer;
                }
                return answer;
            }
        }
    }

    /** The failure of a wait for this key, with who holds it, if that can be seen now. */
    LockTimeoutException timedOut(LockKey key, Duration waited) throws SQLException {
        return bounded(() -> {
            try (PreparedStatement statement = prepare(OneShotSql.HOLDER)) {
                bind(key, statement);
                try (ResultSet row = statement.executeQuery()) {
                    if (!row.next()) {
                        return new LockTimeoutException(key, waited, null, null, null);
                    }
                    return new LockTimeoutException(
                            key, waited, row.getObject(1, Integer.class), row.getString(2), row.getString(3));
                }
            }
        });
    }

    /**
     * Puts every setting back and closes the handle; ends a session that the work changed for good. What fails here has no bearing on the work that is done: it is
     * logged, and the connection is discarded.
     */
    void giveBack() {
        if (sessionChanged) {
            LOG.debug("The work changed the session of a connection for good, so it is discarded");
            discard();
            return;
        }
        try {
            reset(true);
            bounded(() -> {
                if (before != null
                        && latest != null
                        && !before.defaultIsolation().equals(latest.defaultIsolation())) {
                    try (PreparedStatement statement = prepare(OneShotSql.SET_DEFAULT_ISOLATION)) {
                        statement.setString(1, before.defaultIsolation());
                        statement.execute();
                    }
                }
                if (handle().isReadOnly() != readOnlyBefore) {
                    handle().setReadOnly(readOnlyBefore);
                }
                handle().setAutoCommit(autoCommitBefore);
                return true;
            });
            physical().setPrepareThreshold(prepareThresholdBefore);
            close();
        } catch (Throwable e) {
            LOG.debug("A connection could not be given back as it came, so it is discarded", e);
            discard();
        }
    }

    /** The pool may ask the server something before it takes the connection back, and has set no bound. */
    private void close() throws SQLException {
        boolean interrupted = Thread.interrupted();
        try {
            physical().setNetworkTimeout(Runnable::run, networkTimeoutMillisBefore);
            Watchdog.watch(networkTimeout.plus(GRACE), lent::abort, () -> {
                lent.giveBack();
                return true;
            });
        } finally {
            restore(interrupted);
        }
    }

    /** Ends the session at once; see {@link LentConnection#discard}. */
    void discard() {
        lent.discard();
    }

    /** The key as a message shows it: as {@code pg_locks} orders it, and by name if it has one. */
    static String describe(LockKey key) {
        return key.name().map(name -> key + " (\"" + name + "\")").orElseGet(key::toString);
    }

    private static void bind(LockKey key, PreparedStatement statement) throws SQLException {
        statement.setInt(1, key.objsubid());
        statement.setLong(2, key.bits());
    }

    private boolean executeNow(String sql) throws SQLException {
        try (PreparedStatement statement = prepare(sql)) {
            return statement.execute();
        }
    }

    private PreparedStatement prepare(String sql) throws SQLException {
        int ofTheWork = physical().getPrepareThreshold();
        physical().setPrepareThreshold(NEVER_NAMED);
        try {
            return handle().prepareStatement(sql);
        } finally {
            physical().setPrepareThreshold(ofTheWork);
        }
    }

    private <R> R bounded(Watchdog.RoundTrip<R> roundTrip) throws SQLException {
        return bounded(
                () -> {
                    lent.abort();
                    throw new SQLException(
                            "A call of the work on this connection is still running, and didn't end within the network"
                                    + " timeout of " + networkTimeout.toMillis() + " ms: the session is ended",
                            SqlStates.CONNECTION_FAILURE);
                },
                lent::abort,
                roundTrip);
    }

    private <R> R bounded(
            Watchdog.RoundTrip<R> whenBusy, @Nullable Runnable whenTooLong, Watchdog.RoundTrip<R> roundTrip)
            throws SQLException {
        // An interrupt that is pending when a virtual thread reads from a socket closes the socket.
        boolean interrupted = Thread.interrupted();
        try {
            long deadlineNanos = System.nanoTime() + networkTimeout.toNanos();
            while (!turn.isHeldByCurrentThread()) {
                try {
                    if (!turn.tryLock(deadlineNanos - System.nanoTime(), TimeUnit.NANOSECONDS)) {
                        return whenBusy.run();
                    }
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
            try {
                return Watchdog.watch(networkTimeout.plus(GRACE), whenTooLong, () -> withNetworkTimeout(roundTrip));
            } finally {
                turn.unlock();
            }
        } finally {
            restore(interrupted);
        }
    }

    private <R> R withNetworkTimeout(Watchdog.RoundTrip<R> roundTrip) throws SQLException {
        if (lent.isEnded()) {
            throw new SQLException("The connection was given back", SqlStates.CONNECTION_GONE);
        }
        int millisOfTheWork = physical().getNetworkTimeout();
        physical().setNetworkTimeout(Runnable::run, Math.toIntExact(networkTimeout.toMillis()));
        try {
            return roundTrip.run();
        } finally {
            if (!physical().isClosed()) {
                physical().setNetworkTimeout(Runnable::run, millisOfTheWork);
            }
        }
    }

    private static void restore(boolean interrupted) {
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
