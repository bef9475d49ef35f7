package dev.pgleader.lock;

import static dev.pgleader.lock.PgLockSession.onlyRow;
import static dev.pgleader.lock.PgLockSession.query;
import static dev.pgleader.lock.PgLockSession.text;

import dev.pgleader.lock.LockSession.Facts;
import dev.pgleader.lock.LockSession.ServerRun;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import org.postgresql.PGNotification;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Opens a lock session: connects, has the server prove that it can be trusted with the job, and only then changes the
 * session's settings. Behind a pooler that shares backends between clients, whatever was changed before the proof would go
 * to somebody else.
 */
final class SessionOpening {

    private static final Logger LOG = LoggerFactory.getLogger(SessionOpening.class);
    private static final int OLDEST_SERVER = 14;
    /** With other clients about, a pooler passes a round by chance one time in four. */
    private static final int AFFINITY_ROUNDS = 25;

    /** Which backend answered, and of which database. */
    private record Backend(int pid, String database) {}

    private final ConnectionSource source;
    private final Settings settings;
    private final String token = UUID.randomUUID().toString();

    private SessionOpening(ConnectionSource source, Settings settings) {
        this.source = source;
        this.settings = settings;
    }

    static LockSession open(ConnectionSource source, Settings settings) throws LockSessionException {
        return new SessionOpening(source, settings).open();
    }

    private LockSession open() throws LockSessionException {
        SessionConnection connection;
        try {
            connection = source.open(settings.networkTimeout());
        } catch (SQLException | RuntimeException e) {
            throw new LockSessionException(
                    SqlFaults.ofLogin(e), "No connection to " + source + ": " + SqlFaults.describeLogin(e), e);
        }
        try {
            return open(connection);
        } catch (SQLException e) {
            connection.abort();
            throw new LockSessionException(SqlFaults.ofStatement(e), SqlFaults.describe(e), e);
        } catch (LockSessionException | RuntimeException | Error e) {
            connection.abort();
            throw e;
        }
    }

    private LockSession open(SessionConnection session) throws SQLException, LockSessionException {
        Connection connection = session.connection();
        prepare(session);
        String version = requireVersion(connection);
        Backend backend = prove(connection);
        // The number that the server gave out at the login; a pooler gives one of its own.
        boolean direct = session.physical().getBackendPID() == backend.pid();
        if (!direct) {
            proveAffinity(connection, backend.pid());
        }
        Run run = run(connection);
        applySettings(connection);
        LeaseSetting lease = leaseSetting(connection);
        try (Statement statement = connection.createStatement()) {
            statement.execute(SessionSql.LISTEN);
        }
        Facts facts = new Facts(
                backend.pid(),
                backend.database(),
                session.address(),
                version,
                run.server(),
                run.uptime(),
                lease.enforced());
        if (direct) {
            // A statement is planned once. Behind a pooler its name could be that of another client's statement.
            session.physical().setPrepareThreshold(1);
        }
        LockSession opened = new PgLockSession(session, settings, facts, token, lease.shown());
        rehearse(opened);
        return opened;
    }

    /**
     * Takes a lock that nobody else wants, through all that an election does with one: a server that only pretends to have
     * locks is refused before it says who leads, and the first real lock meets no code that runs for the first time.
     */
    private static void rehearse(LockSession session) throws LockSessionException {
        LockKey key = LockKey.of(ThreadLocalRandom.current().nextLong());
        try {
            Set<LockKey> granted = session.attempt(List.of(key)).granted();
            if (!session.check().containsAll(granted)) {
                throw new LockSessionException(
                        Fault.LOCKS_NOT_REAL,
                        "The server granted a lock that it doesn't show in pg_locks, so its advisory locks aren't those of"
                                + " PostgreSQL, as with CockroachDB and with emulations, and exclude nobody: use PostgreSQL itself");
            }
            session.release(granted);
        } catch (LockTableFullException e) {
            LOG.debug("No room for a lock to rehearse with", e);
        }
        session.tell(List.of());
        // What was told before the first try is of no use. And as if something had come: others would hear a real
        // notification, too.
        session.awaitNotifications(0);
        SessionConnection.ofOurChannel(
                new PGNotification[] {new org.postgresql.core.Notification(SessionSql.CHANNEL, 0)});
    }

    private void prepare(SessionConnection session) throws SQLException {
        Connection connection = session.connection();
        PgLockSession.setNetworkTimeout(connection, settings.networkTimeout());
        if (!connection.getAutoCommit()) {
            connection.setAutoCommit(true);
        }
        session.physical().setPrepareThreshold(0);
    }

    private static String requireVersion(Connection connection) throws SQLException, LockSessionException {
        String version = connection.getMetaData().getDatabaseProductVersion();
        if (connection.getMetaData().getDatabaseMajorVersion() < OLDEST_SERVER) {
            throw new LockSessionException(
                    Fault.UNSUPPORTED_SERVER,
                    "The server is PostgreSQL " + version + ", but a lease needs idle_session_timeout, which came with"
                            + " PostgreSQL " + OLDEST_SERVER + ": use a newer server");
        }
        return version;
    }

    private Backend prove(Connection connection) throws SQLException, LockSessionException {
        return query(connection, SessionSql.PROOF, statement -> statement.setString(1, token), rows -> {
            ResultSet row = onlyRow(rows);
            int pid = row.getInt(1);
            PgLockSession.refuseUntrustworthy(row.getBoolean(3), row.getBoolean(4));
            if (!text(row, 5).isEmpty()) {
                throw sharedBackend("The new connection reached backend " + pid + ", which serves another lock session"
                        + " already, as behind a pooler in transaction mode: ");
            }
            if (row.getLong(6) > 0) {
                throw sharedBackend("The new connection reached backend " + pid + ", which holds " + row.getLong(6)
                        + " advisory lock(s) already: it was left behind locked, or is shared through a pooler; ");
            }
            return new Backend(pid, row.getString(2));
        });
    }

    private static LockSessionException sharedBackend(String what) {
        return new LockSessionException(Fault.SHARED_BACKEND, what + PgLockSession.POOLER_ADVICE);
    }

    /**
     * Looks from a second connection whether it meets the first one's backend. A pooler that hands out the backend used
     * last shows itself on the second connection, one that hands them out in turn on the first.
     */
    private void proveAffinity(Connection first, int pid) throws SQLException, LockSessionException {
        SessionConnection second = openSecond();
        try {
            for (int round = 0; round < AFFINITY_ROUNDS; round++) {
                boolean shared = false;
                // Not one by one: a pooler that hands out two backends in turn would keep step.
                for (int repetition = 0; repetition <= round % 3; repetition++) {
                    shared |= meets(second.connection(), pid);
                }
                if (shared) {
                    throw sharedBackend("Two connections to " + source + " share one backend, so this is a pooler in"
                            + " transaction or statement mode, where a session lock belongs to nobody: ");
                }
                if (!meets(first, pid)) {
                    throw sharedBackend(
                            "Statements of one connection to " + source + " ran on several backends, so this"
                                    + " is a pooler in transaction or statement mode, or one that balances load as Pgpool-II does,"
                                    + " and a session lock belongs to nobody: ");
                }
            }
        } finally {
            second.close();
        }
    }

    private SessionConnection openSecond() throws LockSessionException {
        try {
            SessionConnection second = source.open(settings.networkTimeout());
            try {
                prepare(second);
                // A pooler takes a backend for a connection only when there is a statement to run.
                query(second.connection(), SessionSql.NOTHING, statement -> {}, ResultSet::next);
                return second;
            } catch (SQLException e) {
                second.abort();
                throw e;
            }
        } catch (SQLException | RuntimeException e) {
            throw new LockSessionException(
                    Fault.UNREACHABLE,
                    "No second connection to " + source
                            + ", which is needed for a moment, since a pooler stands between and"
                            + " could give one backend to two sessions: raise the CONNECTION LIMIT of the role or the"
                            + " database, or the pooler's pool_size, to one more than there are instances, or connect"
                            + " directly; " + SqlFaults.describe(e),
                    e);
        }
    }

    private boolean meets(Connection connection, int pid) throws SQLException, LockSessionException {
        return query(connection, SessionSql.AFFINITY, statement -> {}, rows -> {
            ResultSet row = onlyRow(rows);
            return row.getInt(1) == pid || token.equals(row.getString(2));
        });
    }

    private void applySettings(Connection connection) throws SQLException, LockSessionException {
        Map<String, String> wanted = sessionSettings();
        try {
            set(connection, wanted);
        } catch (SQLException refused) {
            rethrowIfLost(refused);
            for (Map.Entry<String, String> setting : wanted.entrySet()) {
                try {
                    set(connection, Map.ofEntries(setting));
                } catch (SQLException e) {
                    rethrowIfLost(e);
                    LOG.info(
                            "The server refuses {} = {}: {}",
                            setting.getKey(),
                            setting.getValue(),
                            SqlFaults.describe(e));
                }
            }
        }
    }

    /** What the server shows as {@code idle_session_timeout}, and whether it ends this session when silent for the lease. */
    private record LeaseSetting(String shown, boolean enforced) {}

    private LeaseSetting leaseSetting(Connection connection) throws SQLException, LockSessionException {
        LeaseSetting lease = query(connection, SessionSql.LEASE_SETTING, statement -> {}, rows -> {
            ResultSet row = onlyRow(rows);
            return new LeaseSetting(
                    text(row, 1), row.getLong(2) == settings.lease().toMillis());
        });
        if (!lease.enforced() && settings.requireEnforcedLease()) {
            throw new LockSessionException(
                    Fault.LEASE_NOT_ENFORCED,
                    "The server refuses idle_session_timeout, so it wouldn't free the lock of a leader that vanished: accept"
                            + " that in the options, or use a server that takes the setting");
        }
        return lease;
    }

    private static void rethrowIfLost(SQLException e) throws SQLException {
        if (SqlFaults.isConnectionLost(e)) {
            throw e;
        }
    }

    private Map<String, String> sessionSettings() {
        long leaseMillis = settings.lease().toMillis();
        String thirdOfLeaseSeconds =
                Long.toString(settings.lease().plusMillis(2999).toSeconds() / 3);
        Map<String, String> wanted = new LinkedHashMap<>();
        // Each statement is qualified; this is for what isn't foreseen.
        wanted.put("search_path", "pg_catalog, pg_temp");
        wanted.put("application_name", PgLockSession.INSTANCE_PREFIX + settings.instanceId());
        wanted.put("idle_session_timeout", leaseMillis + "ms");
        // The role's own limits are for other sessions. A statement that hangs ends with the lease, too.
        wanted.put("statement_timeout", leaseMillis + "ms");
        wanted.put("lock_timeout", "0");
        wanted.put("idle_in_transaction_session_timeout", "0");
        wanted.put("transaction_timeout", "0");
        // A role may ask for transactions that keep a snapshot, or wait for one.
        wanted.put("default_transaction_isolation", "read committed");
        wanted.put("default_transaction_deferrable", "off");
        wanted.put("client_min_messages", "warning");
        wanted.put("plan_cache_mode", "force_generic_plan");
        // A release is notified even while a synchronous standby is away.
        wanted.put("synchronous_commit", "off");
        wanted.put("tcp_keepalives_idle", thirdOfLeaseSeconds);
        wanted.put("tcp_keepalives_interval", thirdOfLeaseSeconds);
        wanted.put("tcp_keepalives_count", "2");
        wanted.put("tcp_user_timeout", leaseMillis + "ms");
        wanted.put("client_connection_check_interval", Math.max(100, leaseMillis / 3) + "ms");
        return wanted;
    }

    private static void set(Connection connection, Map<String, String> wanted)
            throws SQLException, LockSessionException {
        query(
                connection,
                SessionSql.SET,
                statement -> {
                    Connection physical = statement.getConnection();
                    statement.setArray(
                            1, physical.createArrayOf("text", wanted.keySet().toArray()));
                    statement.setArray(
                            2, physical.createArrayOf("text", wanted.values().toArray()));
                },
                ResultSet::next);
    }

    /** Which run of the server this is, and for how long it says that it has lasted. */
    private record Run(ServerRun server, Duration uptime) {}

    private Run run(Connection connection) throws SQLException, LockSessionException {
        int timeline = timeline(connection);
        try {
            return query(connection, SessionSql.SERVER_RUN, statement -> {}, rows -> {
                ResultSet row = onlyRow(rows);
                ServerRun server =
                        new ServerRun(String.valueOf(row.getString(1)), String.valueOf(row.getString(2)), timeline);
                return new Run(server, Duration.ofMillis(row.getLong(3)));
            });
        } catch (SQLException e) {
            rethrowIfLost(e);
            LOG.debug("The server doesn't tell since when it runs", e);
            return new Run(new ServerRun("", "", timeline), Duration.ZERO);
        }
    }

    private static int timeline(Connection connection) throws SQLException, LockSessionException {
        try {
            return query(
                    connection,
                    SessionSql.TIMELINE,
                    statement -> {},
                    row -> onlyRow(row).getInt(1));
        } catch (SQLException e) {
            rethrowIfLost(e);
            LOG.debug("The server doesn't tell its timeline", e);
            return 0;
        }
    }
}
