package dev.pgleader.lock;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.OptionalInt;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.postgresql.core.TransactionState;
import org.postgresql.jdbc.PgConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A connection on loan from a {@link DataSource}: used, then either given back as it came or discarded. Each round trip
 * ends within the network timeout. Not thread-safe.
 */
final class PinnedConnection {

    private static final Logger LOG = LoggerFactory.getLogger(PinnedConnection.class);

    private final DataSource dataSource;
    private final Connection handle;
    private final PgConnection physical;
    private final int networkTimeoutMillis;

    private final boolean autoCommitBefore;
    private final boolean readOnlyBefore;
    private final int networkTimeoutMillisBefore;
    private @Nullable String defaultIsolationBefore;
    private @Nullable String defaultIsolation;

    private PinnedConnection(DataSource dataSource, Connection handle, Duration networkTimeout) throws SQLException {
        this.dataSource = dataSource;
        this.handle = handle;
        this.physical = PhysicalConnection.of(handle);
        this.networkTimeoutMillis = Math.toIntExact(networkTimeout.toMillis());
        this.autoCommitBefore = handle.getAutoCommit();
        this.readOnlyBefore = handle.isReadOnly();
        this.networkTimeoutMillisBefore = handle.getNetworkTimeout();
        if (physical.getTransactionState() != TransactionState.IDLE) {
            throw new SQLException("The DataSource handed out a connection with an open transaction, which is not ours"
                    + " to end. Use the plain DataSource, not a transaction-aware one; if a pool's test query left the"
                    + " transaction open, let the pool use Connection.isValid");
        }
    }

    /**
     * Borrows a connection and changes nothing on it yet.
     *
     * @throws SQLException if there is none, if it is not one of the PostgreSQL JDBC driver, or if it comes with a
     *     transaction open
     */
    static PinnedConnection borrow(DataSource dataSource, Duration networkTimeout) throws SQLException {
        Connection handle = dataSource.getConnection();
        try {
            return new PinnedConnection(dataSource, handle, networkTimeout);
        } catch (Throwable failure) {
            try (handle) {
                throw failure;
            }
        }
    }

    Connection handle() {
        return handle;
    }

    /** Whether a statement failed since the work's transaction began, so that it can only be rolled back. */
    boolean isTransactionAborted() {
        return physical.getTransactionState() == TransactionState.FAILED;
    }

    /** Whether this failure means that the session is over, and its locks with it. */
    boolean hasEnded(SQLException failure) throws SQLException {
        return handle.isClosed() || SqlStates.isEndOfSession(failure);
    }

    /** Rolls back whatever transaction is open, then chooses how the next statement is run. */
    void reset(boolean autoCommit) throws SQLException {
        bounded(() -> {
            // Not Connection.rollback(), which refuses to end a transaction that the work began by SQL text.
            if (physical.getTransactionState() != TransactionState.IDLE) {
                executeNow(OneShotSql.ROLLBACK);
            }
            handle.setAutoCommit(autoCommit);
            return autoCommit;
        });
    }

    void execute(String sql) throws SQLException {
        bounded(() -> executeNow(sql));
    }

    void commit() throws SQLException {
        bounded(() -> {
            handle.commit();
            return true;
        });
    }

    /**
     * Tries to take the key with one of the try statements of {@link OneShotSql}.
     *
     * @throws SQLException also if this session holds the key already: then "granted" would prove nothing
     */
    SessionAnswer tryLock(String sql, LockKey key) throws SQLException {
        SessionAnswer answer = ask(sql, key);
        if (answer.held()) {
            throw new SQLException("Lock " + describe(key) + " is already held by the session of backend "
                    + answer.backendPid() + " that the DataSource handed out: somebody returned it locked, or a pooler"
                    + " such as PgBouncer in transaction mode shares it. The connection is discarded");
        }
        return answer;
    }

    SessionAnswer ask(String sql, LockKey key) throws SQLException {
        return bounded(() -> {
            try (PreparedStatement statement = handle.prepareStatement(sql)) {
                bind(key, statement);
                try (ResultSet row = statement.executeQuery()) {
                    SessionAnswer answer = SessionAnswer.read(row);
                    defaultIsolation = answer.defaultIsolation();
                    if (defaultIsolationBefore == null) {
                        defaultIsolationBefore = defaultIsolation;
                    }
                    return answer;
                }
            }
        });
    }

    /** The failure of a wait for this key, with who holds it, if that can be seen now. */
    LockTimeoutException timedOut(LockKey key, Duration waited) throws SQLException {
        return bounded(() -> {
            try (PreparedStatement statement = handle.prepareStatement(OneShotSql.HOLDER)) {
                bind(key, statement);
                try (ResultSet row = statement.executeQuery()) {
                    if (!row.next()) {
                        return new LockTimeoutException(key, waited, OptionalInt.empty(), null);
                    }
                    // A prepared transaction holds its locks without a process.
                    Integer pid = row.getObject(1, Integer.class);
                    return new LockTimeoutException(
                            key, waited, pid == null ? OptionalInt.empty() : OptionalInt.of(pid), row.getString(2));
                }
            }
        });
    }

    /**
     * Puts every setting back and closes the handle. What fails here has no bearing on the work that is done: it is
     * logged, and the connection is discarded.
     */
    void giveBack() {
        try {
            reset(true);
            bounded(() -> {
                if (defaultIsolationBefore != null && !defaultIsolationBefore.equals(defaultIsolation)) {
                    try (PreparedStatement statement = handle.prepareStatement(OneShotSql.SET_DEFAULT_ISOLATION)) {
                        statement.setString(1, defaultIsolationBefore);
                        statement.execute();
                    }
                }
                if (handle.isReadOnly() != readOnlyBefore) {
                    handle.setReadOnly(readOnlyBefore);
                }
                handle.setAutoCommit(autoCommitBefore);
                return true;
            });
            handle.setNetworkTimeout(Runnable::run, networkTimeoutMillisBefore);
            handle.close();
        } catch (SQLException | RuntimeException e) {
            LOG.debug("A connection could not be given back as it came, so it is discarded", e);
            discard();
        }
    }

    /** Ends the physical connection at once; see {@link PhysicalConnection#discard}. */
    void discard() {
        PhysicalConnection.discard(dataSource, handle);
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
        try (PreparedStatement statement = handle.prepareStatement(sql)) {
            return statement.execute();
        }
    }

    private <R> R bounded(RoundTrip<R> roundTrip) throws SQLException {
        // An interrupt that is pending when a virtual thread reads from a socket closes the socket.
        boolean interrupted = Thread.interrupted();
        try {
            int networkTimeoutMillisOfTheWork = handle.getNetworkTimeout();
            handle.setNetworkTimeout(Runnable::run, networkTimeoutMillis);
            try {
                return roundTrip.run();
            } finally {
                if (!handle.isClosed()) {
                    handle.setNetworkTimeout(Runnable::run, networkTimeoutMillisOfTheWork);
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    @FunctionalInterface
    private interface RoundTrip<R> {
        R run() throws SQLException;
    }
}
