package dev.pgleader.lock;

import dev.pgleader.lock.LockSessionException.Fault;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A {@link LockSession} on PostgreSQL, once {@link SessionOpening} has opened it. */
final class PgLockSession implements LockSession {

    static final String APPLICATION_NAME = "pg-leader";
    static final String INSTANCE_PREFIX = APPLICATION_NAME + "/";

    /** What to do about a connection whose statements don't stay on one backend. */
    static final String POOLER_ADVICE =
            "connect to PostgreSQL directly, or through a pooler in session mode that sends all statements to one server";

    private static final Logger LOG = LoggerFactory.getLogger(PgLockSession.class);

    /** An announcement of ours is far shorter. */
    private static final int LONGEST_NOTIFICATION = 1_000;

    /** Sets the parameters of a statement. */
    interface Binder {
        void bind(PreparedStatement statement) throws SQLException;
    }

    /** Reads the answer to a statement, which stands before its first row. */
    interface Mapper<T> {
        T map(ResultSet rows) throws SQLException, LockSessionException;
    }

    private final SessionConnection session;
    private final Settings settings;
    private final Facts facts;
    private final String token;
    private final String leaseSetting;

    /**
     * @param token known to this session's backend alone
     * @param leaseSetting what the server shows as {@code idle_session_timeout}
     */
    PgLockSession(SessionConnection session, Settings settings, Facts facts, String token, String leaseSetting) {
        this.session = session;
        this.settings = settings;
        this.facts = facts;
        this.token = token;
        this.leaseSetting = leaseSetting;
    }

    @Override
    public Facts facts() {
        return facts;
    }

    @Override
    public Attempt attempt(Collection<LockKey> keys) throws LockSessionException, LockTableFullException {
        try {
            Binder binder = statement -> {
                bindKeys(statement, keys);
                statement.setString(3, token);
                statement.setString(4, leaseSetting);
            };
            return query(SessionSql.ATTEMPT, binder, rows -> attempt(rows, keys));
        } catch (SQLException e) {
            if (SqlFaults.isCancelled(e)) {
                return new Attempt(heldAmong(keys), Map.of());
            }
            throw lockTableFullOr(e);
        }
    }

    private static Attempt attempt(ResultSet rows, Collection<LockKey> keys) throws SQLException, LockSessionException {
        Set<LockKey> granted = new HashSet<>();
        Map<LockKey, Holder> holders = new HashMap<>();
        int answered = 0;
        while (rows.next()) {
            Set<LockKey> asked = keys(rows.getArray(6), rows.getArray(7));
            answered += asked.size();
            if (rows.getBoolean(1)) {
                granted.addAll(asked);
            } else {
                holder(rows).ifPresent(holder -> asked.forEach(key -> holders.put(key, holder)));
            }
        }
        if (answered != keys.size()) {
            throw onAnotherBackend();
        }
        return new Attempt(granted, holders);
    }

    private static Optional<Holder> holder(ResultSet row) throws SQLException {
        int pid = row.getInt(2);
        if (!row.wasNull()) {
            return Optional.of(new Holder(pid, text(row, 3)));
        }
        // A prepared transaction keeps its locks without a backend.
        return row.getString(4) == null
                ? Optional.empty()
                : Optional.of(new Holder(0, SqlFaults.onOneLine("prepared transaction " + text(row, 5))));
    }

    /** The text in a column, empty if there is none. */
    static String text(ResultSet row, int column) throws SQLException {
        String text = row.getString(column);
        return text == null ? "" : text;
    }

    @Override
    public Map<LockKey, Holder> findHolders(Collection<LockKey> keys) throws LockSessionException {
        return ask(SessionSql.HOLDERS, statement -> bindKeys(statement, keys), rows -> attempt(rows, keys))
                .holders();
    }

    @Override
    public boolean waitInQueue(LockKey key, Duration longest) throws LockSessionException, LockTableFullException {
        Connection connection = session.connection();
        try {
            setNetworkTimeout(connection, settings.networkTimeout().plus(longest));
            try (PreparedStatement statement = connection.prepareStatement(SessionSql.WAIT_IN_QUEUE)) {
                statement.setString(1, Integer.toString(key.objsubid()));
                statement.setString(2, Long.toString(key.bits()));
                statement.setString(3, longest.toMillis() + "ms");
                statement.setString(4, token);
                statement.setString(5, leaseSetting);
                statement.execute();
                // The settings, the block, the answer.
                statement.getMoreResults();
                statement.getMoreResults();
                try (ResultSet row = onlyRow(statement.getResultSet())) {
                    if (!token.equals(row.getString(1))) {
                        throw onAnotherBackend();
                    }
                    return row.getBoolean(2);
                }
            } finally {
                if (!connection.isClosed()) {
                    setNetworkTimeout(connection, settings.networkTimeout());
                }
            }
        } catch (SQLException e) {
            if (SqlFaults.isCancelled(e)) {
                return heldAmong(List.of(key)).contains(key);
            }
            throw lockTableFullOr(e);
        }
    }

    @Override
    public boolean join(LockKey group) throws LockSessionException {
        return ask(
                SessionSql.JOIN,
                statement -> bindKey(statement, group),
                row -> onlyRow(row).getBoolean(1));
    }

    @Override
    public void leave(LockKey group) throws LockSessionException {
        ask(
                SessionSql.LEAVE,
                statement -> bindKey(statement, group),
                row -> onlyRow(row).getBoolean(1));
    }

    @Override
    public int countMembers(LockKey group) throws LockSessionException {
        return ask(
                SessionSql.MEMBERS,
                statement -> bindKey(statement, group),
                row -> onlyRow(row).getInt(1));
    }

    @Override
    public Set<Integer> findCommanders(Collection<Integer> backendPids) throws LockSessionException {
        Binder pids = statement ->
                statement.setArray(1, statement.getConnection().createArrayOf("int4", backendPids.toArray()));
        return ask(SessionSql.COMMANDERS, pids, rows -> {
            Set<Integer> commanders = new HashSet<>();
            while (rows.next()) {
                commanders.add(rows.getInt(1));
            }
            return commanders;
        });
    }

    @Override
    public Set<LockKey> check() throws LockSessionException {
        return ask(SessionSql.CHECK, statement -> {}, rows -> {
            ResultSet row = onlyRow(rows);
            if (row.getInt(1) != facts.backendPid() || !token.equals(row.getString(2))) {
                throw onAnotherBackend();
            }
            refuseUntrustworthy(row.getBoolean(3), row.getBoolean(4));
            if (facts.leaseEnforced() && !leaseSetting.equals(row.getString(5))) {
                throw new LockSessionException(
                        Fault.LEASE_NOT_ENFORCED,
                        "Somebody changed idle_session_timeout of the lock session from " + leaseSetting + " to "
                                + row.getString(5));
            }
            return keys(row.getArray(6), row.getArray(7));
        });
    }

    /** Which of the keys this session holds, after a statement that was cancelled while it locked or unlocked them. */
    private Set<LockKey> heldAmong(Collection<LockKey> keys) throws LockSessionException {
        Set<LockKey> held = check();
        held.retainAll(keys);
        return held;
    }

    @Override
    public void release(Collection<LockKey> keys) throws LockSessionException {
        try {
            unlock(keys);
        } catch (SQLException e) {
            if (!SqlFaults.isCancelled(e)) {
                throw failed(e);
            }
            try {
                unlock(heldAmong(keys));
            } catch (SQLException again) {
                throw failed(again);
            }
        }
    }

    private void unlock(Collection<LockKey> keys) throws SQLException, LockSessionException {
        Binder binder = statement -> {
            bindKeys(statement, keys);
            statement.setString(3, token);
        };
        List<Integer> counts = query(SessionSql.RELEASE, binder, rows -> {
            int answered = 0;
            int unlocked = 0;
            while (rows.next()) {
                answered++;
                unlocked += rows.getBoolean(1) ? 1 : 0;
            }
            return List.of(answered, unlocked);
        });
        if (counts.get(0) != keys.size()) {
            throw onAnotherBackend();
        }
        if (counts.get(1) != keys.size()) {
            throw new LockSessionException(
                    Fault.LOCK_LOST,
                    "A lock was lost before it was released, of "
                            + (keys.size() <= 3 ? keys.toString() : keys.size() + " keys"));
        }
    }

    @Override
    public boolean tell(List<String> notifications) throws LockSessionException {
        Binder binder = statement -> {
            statement.setString(1, settings.networkTimeout().toMillis() / 4 + "ms");
            statement.setArray(2, statement.getConnection().createArrayOf("text", notifications.toArray()));
        };
        try {
            return query(SessionSql.TELL, binder, rows -> true);
        } catch (SQLException e) {
            LockSessionException failure = failed(e);
            if (failure.fault() == Fault.CONNECTION_LOST || failure.fault() == Fault.TIMEOUT) {
                throw failure;
            }
            LOG.debug("The server didn't take {} notifications", notifications.size(), e);
            if (SqlFaults.isQueueFull(e)) {
                ask(SessionSql.SHORTEN_QUEUE, statement -> {}, ResultSet::next);
            }
            return false;
        }
    }

    @Override
    public List<Notification> awaitNotifications(long maxNanos) throws LockSessionException {
        try {
            return session.await(maxNanos).stream()
                    .filter(notification -> notification.payload().length() <= LONGEST_NOTIFICATION)
                    .toList();
        } catch (SQLException e) {
            throw failed(e);
        }
    }

    @Override
    public void wake() {
        session.wake();
    }

    @Override
    public void close() {
        session.close();
    }

    @Override
    public void abort() {
        session.abort();
    }

    @Override
    public String toString() {
        return "lock session of backend " + facts.backendPid();
    }

    static void refuseUntrustworthy(boolean inRecovery, boolean readOnly) throws LockSessionException {
        if (inRecovery) {
            throw new LockSessionException(
                    Fault.STANDBY,
                    "The server is a standby, whose advisory locks the primary doesn't know: connect to the primary");
        }
        if (readOnly) {
            throw new LockSessionException(
                    Fault.READ_ONLY,
                    "The server takes no writes (transaction_read_only is on), as one that was fenced off after a failover: connect"
                            + " to the primary");
        }
    }

    private static LockSessionException onAnotherBackend() {
        return new LockSessionException(
                Fault.SHARED_BACKEND,
                "A statement ran on another backend than the one before, as behind a pooler in transaction or statement"
                        + " mode, or one that balances load: " + POOLER_ADVICE);
    }

    /**
     * Asks what may be asked twice. A statement that somebody cancelled is no sign of a lost session, so it gets a second
     * look.
     */
    private <T> T ask(String sql, Binder binder, Mapper<T> mapper) throws LockSessionException {
        try {
            try {
                return query(sql, binder, mapper);
            } catch (SQLException e) {
                if (!SqlFaults.isCancelled(e)) {
                    throw e;
                }
                LOG.debug("A statement was cancelled and is repeated", e);
                return query(sql, binder, mapper);
            }
        } catch (SQLException e) {
            throw failed(e);
        }
    }

    private <T> T query(String sql, Binder binder, Mapper<T> mapper) throws SQLException, LockSessionException {
        return query(session.connection(), sql, binder, mapper);
    }

    /** One statement, one round trip. */
    static <T> T query(Connection connection, String sql, Binder binder, Mapper<T> mapper)
            throws SQLException, LockSessionException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            binder.bind(statement);
            try (ResultSet rows = statement.executeQuery()) {
                return mapper.map(rows);
            }
        }
    }

    static ResultSet onlyRow(@Nullable ResultSet rows) throws SQLException {
        if (rows == null || !rows.next()) {
            throw new SQLException("The server returned no row where it must return one");
        }
        return rows;
    }

    static void setNetworkTimeout(Connection connection, Duration timeout) throws SQLException {
        connection.setNetworkTimeout(Runnable::run, Math.toIntExact(timeout.toMillis()));
    }

    private static void bindKey(PreparedStatement statement, LockKey key) throws SQLException {
        statement.setInt(1, key.objsubid());
        statement.setLong(2, key.bits());
    }

    private static void bindKeys(PreparedStatement statement, Collection<LockKey> keys) throws SQLException {
        Connection connection = statement.getConnection();
        Object[] spaces = keys.stream().map(LockKey::objsubid).toArray();
        Object[] bits = keys.stream().map(LockKey::bits).toArray();
        statement.setArray(1, connection.createArrayOf("int4", spaces));
        statement.setArray(2, connection.createArrayOf("int8", bits));
    }

    private static Set<LockKey> keys(@Nullable Array spaces, @Nullable Array bits) throws SQLException {
        Set<LockKey> keys = new HashSet<>();
        if (spaces != null && bits != null) {
            Integer[] space = (Integer[]) spaces.getArray();
            Long[] bit = (Long[]) bits.getArray();
            for (int i = 0; i < space.length; i++) {
                keys.add(LockKey.ofBits(space[i], bit[i]));
            }
        }
        return keys;
    }

    private LockSessionException lockTableFullOr(SQLException e) throws LockTableFullException {
        if (SqlFaults.isLockTableFull(e)) {
            throw new LockTableFullException(SqlFaults.describe(e), e);
        }
        return failed(e);
    }

    private LockSessionException failed(SQLException e) {
        Fault fault = SqlFaults.ofStatement(e);
        // A pool says of a connection that was taken from it no more than that it is closed.
        return new LockSessionException(
                fault == Fault.STATEMENT_FAILED && isEnded() ? Fault.CONNECTION_LOST : fault, SqlFaults.describe(e), e);
    }

    private boolean isEnded() {
        try {
            return session.connection().isClosed();
        } catch (SQLException e) {
            return true;
        }
    }
}
