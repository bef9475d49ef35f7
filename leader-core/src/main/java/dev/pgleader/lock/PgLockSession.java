package dev.pgleader.lock;

import dev.pgleader.lock.LockSessionException.Fault;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A {@link LockSession} on PostgreSQL. */
final class PgLockSession implements LockSession {

    static final String APPLICATION_NAME = "pg-leader";
    static final String INSTANCE_PREFIX = APPLICATION_NAME + "/";

    private static final Logger LOG = LoggerFactory.getLogger(PgLockSession.class);
    private static final int OLDEST_SERVER = 14;
    private static final int AFFINITY_ROUNDS = 3;
    /** With other clients about, a pooler passes a round by chance one time in four. */
    private static final int POOLER_ROUNDS = 25;

    private static final String POOLER_ADVICE = "connect to PostgreSQL directly, or through a pooler in session mode";

    /** Something asked of the server. */
    private interface Question<T> {
        T ask() throws SQLException, LockSessionException;
    }

    /** Something told to the server. */
    private interface Order {
        void give() throws SQLException, LockSessionException;
    }

    private final SessionConnection session;
    private final Settings settings;
    /** Known to this session's backend alone. */
    private final String token = UUID.randomUUID().toString();

    private @Nullable Facts facts;
    private String leaseSetting = "";

    private PgLockSession(SessionConnection session, Settings settings) {
        this.session = session;
        this.settings = settings;
    }

    static LockSession open(ConnectionSource source, Settings settings) throws LockSessionException {
        SessionConnection connection;
        try {
            connection = source.open(settings.networkTimeout());
        } catch (SQLException e) {
            throw noConnection(
                    faultOf(e) == Fault.LOCK_TABLE_FULL ? Fault.LOCK_TABLE_FULL : Fault.UNREACHABLE, source, e);
        } catch (RuntimeException e) {
            throw noConnection(Fault.UNREACHABLE, source, e);
        }
        PgLockSession session = new PgLockSession(connection, settings);
        try {
            session.prepare(source);
        } catch (LockSessionException | RuntimeException | Error e) {
            session.abort();
            throw e;
        }
        return session;
    }

    private static LockSessionException noConnection(Fault fault, ConnectionSource source, Exception cause) {
        return new LockSessionException(fault, "No connection to " + source + ": " + cause.getMessage(), cause);
    }

    private void prepare(ConnectionSource source) throws LockSessionException {
        give(() -> {
            Connection connection = session.connection();
            connection.setNetworkTimeout(Runnable::run, millis(settings.networkTimeout()));
            if (!connection.getAutoCommit()) {
                connection.setAutoCommit(true);
            }
            session.physical().setPrepareThreshold(0);
            Facts proven = proveServer(connection, source);
            // The number that the server gave out at the login; a pooler gives one of its own.
            boolean direct = session.physical().getBackendPID() == proven.backendPid();
            if (source.canOpenSecond() || !direct) {
                proveAffinity(connection, source, proven.backendPid(), direct ? AFFINITY_ROUNDS : POOLER_ROUNDS);
            }
            boolean leaseEnforced = applySettings(connection);
            leaseSetting = queryString(connection, SessionSql.LEASE_SETTING);
            try (Statement statement = connection.createStatement()) {
                statement.execute(SessionSql.LISTEN);
            }
            facts = new Facts(
                    proven.backendPid(),
                    proven.database(),
                    proven.serverAddress(),
                    proven.serverVersion(),
                    new ServerRun(
                            proven.server().startedAt(), proven.server().statisticsResetAt(), timeline(connection)),
                    proven.serverUptime(),
                    leaseEnforced);
        });
    }

    private Facts proveServer(Connection connection, ConnectionSource source)
            throws SQLException, LockSessionException {
        String version = connection.getMetaData().getDatabaseProductVersion();
        if (connection.getMetaData().getDatabaseMajorVersion() < OLDEST_SERVER) {
            throw new LockSessionException(
                    Fault.UNSUPPORTED_SERVER,
                    "The server is PostgreSQL " + version + ", but a lease needs idle_session_timeout, which came with"
                            + " PostgreSQL " + OLDEST_SERVER);
        }
        try (PreparedStatement statement = connection.prepareStatement(SessionSql.FACTS)) {
            statement.setString(1, token);
            try (ResultSet row = onlyRow(statement.executeQuery())) {
                int pid = row.getInt(1);
                refuseUntrustworthy(row.getBoolean(3), row.getBoolean(4));
                if (row.getString(6) != null) {
                    throw new LockSessionException(
                            Fault.SHARED_BACKEND,
                            "The new connection reached backend " + pid
                                    + ", which serves another lock session already, as"
                                    + " behind a pooler in transaction mode: " + POOLER_ADVICE);
                }
                if (row.getLong(7) > 0) {
                    throw new LockSessionException(
                            Fault.SHARED_BACKEND,
                            "The new connection reached backend " + pid + ", which holds " + row.getLong(7)
                                    + " advisory lock(s) already: it was left behind locked, or is shared through a pooler; "
                                    + POOLER_ADVICE);
                }
                return new Facts(
                        pid,
                        row.getString(2),
                        source.toString(),
                        version,
                        new ServerRun(row.getString(9), row.getString(10), 0),
                        Duration.ofMillis(row.getLong(5)),
                        false);
            }
        }
    }

    /**
     * Looks from a second connection whether it meets the first one's backend. A pooler that hands out the backend used
     * last shows itself on the second connection, one that hands them out in turn on the first.
     */
    private void proveAffinity(Connection first, ConnectionSource source, int pid, int rounds)
            throws SQLException, LockSessionException {
        SessionConnection second = openSecond(source);
        try {
            for (int round = 0; round < rounds; round++) {
                boolean shared = false;
                // Not one by one: a pooler that hands out two backends in turn would keep step.
                for (int repetition = 0; repetition <= round % 3; repetition++) {
                    shared |= meets(second.connection(), pid);
                }
                if (shared || !meets(first, pid)) {
                    throw new LockSessionException(
                            Fault.SHARED_BACKEND,
                            "Two connections to " + source + " share one backend, so this is a pooler in transaction or"
                                    + " statement mode, where a session lock belongs to nobody: " + POOLER_ADVICE);
                }
            }
        } finally {
            second.close();
        }
    }

    private SessionConnection openSecond(ConnectionSource source) throws LockSessionException {
        try {
            SessionConnection second = source.open(settings.networkTimeout());
            try {
                Connection connection = second.connection();
                connection.setNetworkTimeout(Runnable::run, millis(settings.networkTimeout()));
                if (!connection.getAutoCommit()) {
                    connection.setAutoCommit(true);
                }
                second.physical().setPrepareThreshold(0);
                // A pooler takes a backend for a connection only when there is a statement to run.
                queryString(connection, SessionSql.NOTHING);
                return second;
            } catch (SQLException e) {
                second.abort();
                throw e;
            }
        } catch (SQLException | RuntimeException e) {
            throw new LockSessionException(
                    Fault.UNREACHABLE,
                    "No second connection to " + source + ", which is needed for a moment to prove that the first has a"
                            + " backend of its own: " + e.getMessage(),
                    e);
        }
    }

    private boolean meets(Connection connection, int pid) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(SessionSql.AFFINITY);
                ResultSet row = onlyRow(statement.executeQuery())) {
            return row.getInt(1) == pid || token.equals(row.getString(2));
        }
    }

    /** Returns whether the server accepted to end this session when it is silent for the lease. */
    private boolean applySettings(Connection connection) throws SQLException, LockSessionException {
        Map<String, String> wanted = sessionSettings();
        try {
            set(connection, wanted);
            return true;
        } catch (SQLException e) {
            if (isConnectionLost(e)) {
                throw e;
            }
        }
        boolean leaseEnforced = true;
        for (Map.Entry<String, String> setting : wanted.entrySet()) {
            try {
                set(connection, Map.ofEntries(setting));
            } catch (SQLException e) {
                if (isConnectionLost(e)) {
                    throw e;
                }
                leaseEnforced &= !setting.getKey().equals("idle_session_timeout");
                LOG.info("The server refuses {} = {}: {}", setting.getKey(), setting.getValue(), e.getMessage());
            }
        }
        if (!leaseEnforced && settings.requireEnforcedLease()) {
            throw new LockSessionException(
                    Fault.LEASE_NOT_ENFORCED,
                    "The server refuses idle_session_timeout, so it wouldn't free the lock of a leader that vanished: accept"
                            + " that in the options, or use a server that takes the setting");
        }
        return leaseEnforced;
    }

    private Map<String, String> sessionSettings() {
        long leaseMillis = settings.lease().toMillis();
        String thirdOfLeaseSeconds =
                Long.toString(settings.lease().plusMillis(2999).toSeconds() / 3);
        Map<String, String> wanted = new LinkedHashMap<>();
        wanted.put("application_name", INSTANCE_PREFIX + settings.instanceId());
        wanted.put("idle_session_timeout", leaseMillis + "ms");
        // The role's own limits are for other sessions. A statement that hangs ends with the lease, too.
        wanted.put("statement_timeout", leaseMillis + "ms");
        wanted.put("lock_timeout", "0");
        wanted.put("idle_in_transaction_session_timeout", "0");
        // A release is notified even while a synchronous standby is away.
        wanted.put("synchronous_commit", "off");
        wanted.put("tcp_keepalives_idle", thirdOfLeaseSeconds);
        wanted.put("tcp_keepalives_interval", thirdOfLeaseSeconds);
        wanted.put("tcp_keepalives_count", "2");
        wanted.put("tcp_user_timeout", leaseMillis + "ms");
        wanted.put("client_connection_check_interval", Math.max(100, leaseMillis / 3) + "ms");
        return wanted;
    }

    private static void set(Connection connection, Map<String, String> wanted) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(SessionSql.SET)) {
            statement.setArray(
                    1, connection.createArrayOf("text", wanted.keySet().toArray()));
            statement.setArray(
                    2, connection.createArrayOf("text", wanted.values().toArray()));
            statement.executeQuery().close();
        }
    }

    private static int timeline(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(SessionSql.TIMELINE);
                ResultSet row = onlyRow(statement.executeQuery())) {
            return row.getInt(1);
        } catch (SQLException e) {
            if (isConnectionLost(e)) {
                throw e;
            }
            LOG.debug("The server doesn't tell its timeline", e);
            return 0;
        }
    }

    @Override
    public Facts facts() {
        if (facts == null) {
            throw new IllegalStateException("The session isn't prepared");
        }
        return facts;
    }

    @Override
    public Set<LockKey> tryLock(Collection<LockKey> keys) throws LockSessionException {
        return ask(() -> {
            try (PreparedStatement statement = session.connection().prepareStatement(SessionSql.TRY_LOCK)) {
                setKeys(statement, keys);
                statement.setString(3, token);
                statement.setString(4, leaseSetting);
                Set<LockKey> granted = new HashSet<>();
                int answered = 0;
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) {
                        answered++;
                        if (rows.getBoolean(3)) {
                            granted.add(LockKey.ofBits(rows.getInt(1), rows.getLong(2)));
                        }
                    }
                }
                if (answered != keys.size()) {
                    throw onAnotherBackend();
                }
                return granted;
            }
        });
    }

    @Override
    public boolean lockWithin(LockKey key, Duration longest) throws LockSessionException {
        return ask(() -> {
            Connection connection = session.connection();
            Duration bound = settings.networkTimeout().plus(longest);
            connection.setNetworkTimeout(Runnable::run, millis(bound));
            try (PreparedStatement statement = connection.prepareStatement(SessionSql.LOCK_WITHIN)) {
                statement.setString(1, Integer.toString(key.objsubid()));
                statement.setString(2, Long.toString(key.bits()));
                statement.setString(3, longest.toMillis() + "ms");
                statement.setString(4, token);
                statement.setString(5, leaseSetting);
                statement.execute();
                // The settings, the block, the answer.
                boolean answered = !statement.getMoreResults() && statement.getMoreResults();
                if (!answered) {
                    throw new SQLException("The server returned no row where it must return one");
                }
                try (ResultSet row = onlyRow(statement.getResultSet())) {
                    if (!row.getBoolean(1)) {
                        throw onAnotherBackend();
                    }
                    connection.setNetworkTimeout(Runnable::run, millis(settings.networkTimeout()));
                    return row.getBoolean(2);
                }
            }
        });
    }

    @Override
    public Set<LockKey> findFree(Collection<LockKey> keys) throws LockSessionException {
        return ask(() -> {
            try (PreparedStatement statement = session.connection().prepareStatement(SessionSql.FREE)) {
                setKeys(statement, keys);
                Set<LockKey> free = new HashSet<>();
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) {
                        free.add(LockKey.ofBits(rows.getInt(1), rows.getLong(2)));
                    }
                }
                return free;
            }
        });
    }

    @Override
    public boolean join(LockKey group) throws LockSessionException {
        return ask(() -> {
            try (PreparedStatement statement = session.connection().prepareStatement(SessionSql.JOIN)) {
                setKey(statement, group);
                try (ResultSet row = onlyRow(statement.executeQuery())) {
                    return row.getBoolean(1);
                }
            }
        });
    }

    @Override
    public int countMembers(LockKey group) throws LockSessionException {
        return ask(() -> {
            try (PreparedStatement statement = session.connection().prepareStatement(SessionSql.MEMBERS)) {
                setKey(statement, group);
                try (ResultSet row = onlyRow(statement.executeQuery())) {
                    return row.getInt(1);
                }
            }
        });
    }

    private static void setKey(PreparedStatement statement, LockKey key) throws SQLException {
        statement.setInt(1, key.objsubid());
        statement.setLong(2, key.bits());
    }

    private static void setKeys(PreparedStatement statement, Collection<LockKey> keys) throws SQLException {
        Connection connection = statement.getConnection();
        Object[] spaces = keys.stream().map(LockKey::objsubid).toArray();
        Object[] bits = keys.stream().map(LockKey::bits).toArray();
        statement.setArray(1, connection.createArrayOf("int4", spaces));
        statement.setArray(2, connection.createArrayOf("int8", bits));
    }

    @Override
    public Set<LockKey> check() throws LockSessionException {
        return ask(() -> {
            try (PreparedStatement statement = session.connection().prepareStatement(SessionSql.CHECK);
                    ResultSet row = onlyRow(statement.executeQuery())) {
                if (row.getInt(1) != facts().backendPid() || !token.equals(row.getString(2))) {
                    throw onAnotherBackend();
                }
                refuseUntrustworthy(row.getBoolean(3), row.getBoolean(4));
                if (facts().leaseEnforced() && !leaseSetting.equals(row.getString(5))) {
                    throw new LockSessionException(
                            Fault.LEASE_NOT_ENFORCED,
                            "Somebody changed idle_session_timeout of the lock session from " + leaseSetting + " to "
                                    + row.getString(5));
                }
                return keys(row.getArray(6), row.getArray(7));
            }
        });
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

    @Override
    public void release(Map<LockKey, String> notifications) throws LockSessionException {
        give(() -> {
            Connection connection = session.connection();
            try (PreparedStatement statement = connection.prepareStatement(SessionSql.RELEASE)) {
                List<Map.Entry<LockKey, String>> entries = List.copyOf(notifications.entrySet());
                setKeys(statement, entries.stream().map(Map.Entry::getKey).toList());
                Object[] payloads = entries.stream().map(Map.Entry::getValue).toArray();
                statement.setArray(3, connection.createArrayOf("text", payloads));
                statement.setString(4, token);
                int answered = 0;
                boolean all = true;
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) {
                        answered++;
                        all &= rows.getBoolean(1);
                    }
                }
                if (answered != entries.size()) {
                    throw onAnotherBackend();
                }
                if (!all) {
                    throw new LockSessionException(
                            Fault.LOCK_LOST,
                            "A lock was lost before it was released, of " + shortened(notifications.keySet()));
                }
            }
        });
    }

    private static String shortened(Collection<LockKey> keys) {
        return keys.size() <= 3 ? keys.toString() : keys.size() + " keys";
    }

    @Override
    public void giveBack(Collection<LockKey> keys) throws LockSessionException {
        give(() -> {
            try (PreparedStatement statement = session.connection().prepareStatement(SessionSql.GIVE_BACK)) {
                setKeys(statement, keys);
                statement.setString(3, token);
                int unlocked = 0;
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) {
                        unlocked += rows.getBoolean(1) ? 1 : 0;
                    }
                }
                if (unlocked != keys.size()) {
                    throw new LockSessionException(
                            Fault.LOCK_LOST, "Of " + keys.size() + " locks to give back, " + unlocked + " were held");
                }
            }
        });
    }

    @Override
    public void announce(List<String> notifications) throws LockSessionException {
        give(() -> {
            Connection connection = session.connection();
            try (PreparedStatement statement = connection.prepareStatement(SessionSql.ANNOUNCE)) {
                statement.setArray(1, connection.createArrayOf("text", notifications.toArray()));
                statement.executeQuery().close();
            }
        });
    }

    @Override
    public Optional<Holder> findHolder(LockKey key) throws LockSessionException {
        return ask(() -> {
            try (PreparedStatement statement = session.connection().prepareStatement(SessionSql.HOLDER)) {
                setKey(statement, key);
                try (ResultSet row = statement.executeQuery()) {
                    return row.next() ? Optional.of(new Holder(row.getInt(1), row.getString(2))) : Optional.empty();
                }
            }
        });
    }

    @Override
    public List<String> await(long maxNanos) throws LockSessionException {
        return ask(() -> session.await(maxNanos));
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
        return "lock session" + (facts == null ? "" : " of backend " + facts.backendPid());
    }

    private static void refuseUntrustworthy(boolean inRecovery, boolean readOnly) throws LockSessionException {
        if (inRecovery) {
            throw new LockSessionException(
                    Fault.STANDBY,
                    "The server is a standby, whose advisory locks the primary doesn't know: connect to the primary");
        }
        if (readOnly) {
            throw new LockSessionException(
                    Fault.READ_ONLY,
                    "The server takes no writes (transaction_read_only is on): it may have been fenced off after a failover");
        }
    }

    private static LockSessionException onAnotherBackend() {
        return new LockSessionException(
                Fault.SHARED_BACKEND,
                "A statement ran on another backend than the one before, as behind a pooler in transaction or statement"
                        + " mode: " + POOLER_ADVICE);
    }

    private <T> T ask(Question<T> question) throws LockSessionException {
        try {
            return question.ask();
        } catch (SQLException e) {
            throw failed(e);
        }
    }

    private void give(Order order) throws LockSessionException {
        try {
            order.give();
        } catch (SQLException e) {
            throw failed(e);
        }
    }

    private static Fault faultOf(SQLException e) {
        if (hasCause(e, SocketTimeoutException.class)) {
            return Fault.TIMEOUT;
        }
        if (isConnectionLost(e)) {
            return Fault.CONNECTION_LOST;
        }
        return switch (String.valueOf(e.getSQLState())) {
            case "53200" -> Fault.LOCK_TABLE_FULL;
            case "25006" -> Fault.READ_ONLY;
            default -> Fault.STATEMENT_FAILED;
        };
    }

    private LockSessionException failed(SQLException e) {
        Fault fault = faultOf(e);
        // A pool says of a connection that was taken from it no more than that it is closed.
        return new LockSessionException(
                fault == Fault.STATEMENT_FAILED && isEnded() ? Fault.CONNECTION_LOST : fault, reason(e), e);
    }

    private boolean isEnded() {
        try {
            return session.connection().isClosed();
        } catch (SQLException e) {
            return true;
        }
    }

    private static String reason(SQLException e) {
        return e.getSQLState() == null ? String.valueOf(e.getMessage()) : e.getMessage() + " (" + e.getSQLState() + ")";
    }

    private static boolean isConnectionLost(SQLException e) {
        return SqlStates.isEndOfSession(e) || hasCause(e, IOException.class);
    }

    private static boolean hasCause(Throwable e, Class<? extends Throwable> type) {
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (type.isInstance(cause)) {
                return true;
            }
        }
        return false;
    }

    private static ResultSet onlyRow(ResultSet rows) throws SQLException {
        if (!rows.next()) {
            rows.close();
            throw new SQLException("The server returned no row where it must return one");
        }
        return rows;
    }

    private static String queryString(Connection connection, String sql) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql);
                ResultSet row = onlyRow(statement.executeQuery())) {
            return row.getString(1);
        }
    }

    private static int millis(Duration duration) {
        return Math.toIntExact(duration.toMillis());
    }
}
