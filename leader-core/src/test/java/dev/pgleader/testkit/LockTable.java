package dev.pgleader.testkit;

import dev.pgleader.lock.LockKey;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;

/**
 * An observer's view of the advisory locks of one database and of the sessions of its server, over a connection of its
 * own that holds no lock. That connection is opened anew when it was lost, at the call after the one that threw.
 *
 * <p>Safe for use by several threads.
 */
public final class LockTable implements AutoCloseable {

    /**
     * A session of the server.
     *
     * @param state as in {@code pg_stat_activity}: {@code idle}, {@code active}, {@code idle in transaction} and so on
     * @param transactionStart null outside of a transaction
     * @param backendXmin null while the session holds no snapshot
     */
    public record Session(
            int pid,
            String user,
            String applicationName,
            @Nullable String state,
            @Nullable OffsetDateTime transactionStart,
            @Nullable String backendXmin) {

        /** Tells whether it does nothing, outside of a transaction and without a snapshot. */
        public boolean isPlainIdle() {
            return "idle".equals(state) && transactionStart == null && backendXmin == null;
        }
    }

    /** A row of {@code pg_locks}; the two halves of a bigint key are unsigned, and its {@code objsubid} is 1. */
    public record AdvisoryRow(int pid, long classid, long objid, int objsubid, boolean granted) {

        /** Returns the key, whichever its space. */
        public LockKey key() {
            return objsubid == 1 ? LockKey.of((classid << 32) | objid) : LockKey.of((int) classid, (int) objid);
        }
    }

    /** Opens the observer's connection. */
    @FunctionalInterface
    public interface Opener {
        Connection open() throws SQLException;
    }

    private static final String ADVISORY_LOCKS = """
            SELECT pid, classid::bigint, objid::bigint, objsubid, granted FROM pg_locks
            WHERE locktype = 'advisory'
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """;
    private static final String SESSIONS = """
            SELECT pid, usename, application_name, state, xact_start, backend_xmin::text FROM pg_stat_activity
            WHERE backend_type = 'client backend'
            """;

    private final Opener opener;
    private @Nullable Connection connection;

    /** Observes a database of a server as its superuser. */
    public LockTable(PostgresServer server, String database) {
        // Bounded, since the server may be frozen.
        this(() -> server.connect(database, Map.of("connectTimeout", "5", "socketTimeout", "5")));
    }

    /** Observes the database that the opener's connections lead to. */
    public LockTable(Opener opener) {
        this.opener = opener;
    }

    /** Returns the process ids of the sessions that hold a bigint key: none or one. */
    public List<Integer> holders(long key) throws SQLException {
        return query(
                ADVISORY_LOCKS + "AND granted AND objsubid = 1 AND ((classid::bigint << 32) | objid::bigint) = ?",
                row -> row.getInt("pid"),
                key);
    }

    /** Returns the process ids of the sessions that hold a key, in whichever mode; 0 for a prepared transaction. */
    public List<Integer> holders(LockKey key) throws SQLException {
        return advisoryRows().stream()
                .filter(row -> row.granted() && row.key().equals(key))
                .map(AdvisoryRow::pid)
                .toList();
    }

    /** Tells whether nobody holds a key. */
    public boolean isFree(LockKey key) throws SQLException {
        return holders(key).isEmpty();
    }

    /** Returns all advisory locks of the database, those that are waited for included. */
    public List<AdvisoryRow> advisoryRows() throws SQLException {
        return query(
                ADVISORY_LOCKS + "ORDER BY classid, objid, objsubid, granted DESC, pid",
                row -> new AdvisoryRow(
                        row.getInt("pid"),
                        row.getLong("classid"),
                        row.getLong("objid"),
                        row.getInt("objsubid"),
                        row.getBoolean("granted")));
    }

    /** Returns a session of any database, if it exists. */
    public Optional<Session> session(int pid) throws SQLException {
        return query(SESSIONS + "AND pid = ?", LockTable::session, pid).stream().findFirst();
    }

    /** Returns the sessions of any database whose {@code application_name} starts with a prefix. */
    public List<Session> sessions(String applicationNamePrefix) throws SQLException {
        return query(
                SESSIONS + "AND starts_with(application_name, ?) ORDER BY pid",
                LockTable::session,
                applicationNamePrefix);
    }

    /**
     * Waits until a session holds a bigint key, also over an outage of the server, and returns its process id.
     *
     * @throws org.awaitility.core.ConditionTimeoutException if nobody holds it in time
     */
    public int awaitHolder(long key, Duration timeout) {
        return Awaitility.await("holder of key " + key)
                .atMost(timeout)
                .pollDelay(Duration.ZERO)
                .pollInterval(Duration.ofMillis(5))
                .ignoreExceptionsInstanceOf(SQLException.class)
                .until(() -> holders(key), holders -> !holders.isEmpty())
                .get(0);
    }

    /**
     * Waits until nobody holds a bigint key, also over an outage of the server.
     *
     * @throws org.awaitility.core.ConditionTimeoutException if somebody holds it all the time
     */
    public void awaitFree(long key, Duration timeout) {
        Awaitility.await("nobody holds key " + key)
                .atMost(timeout)
                .pollDelay(Duration.ZERO)
                .pollInterval(Duration.ofMillis(5))
                .ignoreExceptionsInstanceOf(SQLException.class)
                .until(() -> holders(key), List::isEmpty);
    }

    @Override
    public synchronized void close() throws SQLException {
        Connection closing = connection;
        connection = null;
        if (closing != null) {
            closing.close();
        }
    }

    private synchronized void discardConnection(SQLException reason) {
        try {
            close();
        } catch (SQLException e) {
            reason.addSuppressed(e);
        }
    }

    private static Session session(ResultSet row) throws SQLException {
        return new Session(
                row.getInt("pid"),
                row.getString("usename"),
                row.getString("application_name"),
                row.getString("state"),
                row.getObject("xact_start", OffsetDateTime.class),
                row.getString("backend_xmin"));
    }

    @FunctionalInterface
    private interface Row<T> {
        T read(ResultSet row) throws SQLException;
    }

    private synchronized <T> List<T> query(String sql, Row<T> reader, Object... parameters) throws SQLException {
        if (connection == null) {
            connection = opener.open();
        }
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i++) {
                statement.setObject(i + 1, parameters[i]);
            }
            List<T> found = new ArrayList<>();
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    found.add(reader.read(rows));
                }
            }
            return found;
        } catch (SQLException e) {
            discardConnection(e);
            throw e;
        }
    }
}
