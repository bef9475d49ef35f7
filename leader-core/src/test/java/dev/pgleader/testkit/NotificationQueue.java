package dev.pgleader.testkit;

import static org.awaitility.Awaitility.await;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Ways in which sessions of one database keep those of all others from notifying, since a server has a single queue for all.
 * Closing gives the queue back; a full one stays so until somebody asks how full it is.
 */
public final class NotificationQueue implements AutoCloseable {

    /** Why tests are skipped on a server whose queue can't be {@link #full}. */
    public static final String TOO_LARGE = "before PostgreSQL 17 the notification queue takes 8 GB";

    private static final String OTHER_DATABASE = "neighbour";
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final String SYNCHRONOUS = "synchronous_standby_names";

    /** For the standby; or for the queue, if somebody else's commit holds it for the same reason. */
    private static final String WAITS = "SELECT EXISTS (SELECT FROM pg_stat_activity"
            + " WHERE pid = ? AND (wait_event = 'SyncRep' OR wait_event_type = 'Lock'))";

    private interface End {
        void run() throws SQLException;
    }

    private final String state;
    private final End end;

    private NotificationQueue(String state, End end) {
        this.state = state;
        this.end = end;
    }

    /** Restarts the server with the smallest queue there is; false if it has no setting for that ({@link #TOO_LARGE}). */
    public static boolean shrink(PostgresServer server) throws SQLException {
        try (Connection connection = server.connect()) {
            if (Sql.truth(connection, "SELECT current_setting('max_notify_queue_pages', true) IS NULL")) {
                return false;
            }
        }
        server.setting("max_notify_queue_pages", "64");
        server.restart(PostgresServer.ShutdownMode.FAST);
        return true;
    }

    /** Fills the queue: a session listens in a transaction that it never ends, and another one notifies until it may not. */
    public static NotificationQueue full(PostgresServer server) throws SQLException {
        createDatabase(server);
        Connection lazy = server.connect(OTHER_DATABASE);
        Sql.execute(lazy, "LISTEN anything");
        lazy.setAutoCommit(false);
        Sql.execute(lazy, "SELECT 1");
        try (Connection filling = server.connect(OTHER_DATABASE)) {
            await().atMost(PATIENCE).until(() -> isFull(filling));
        }
        return new NotificationQueue("the queue is full", lazy::close);
    }

    private static boolean isFull(Connection filling) throws SQLException {
        return !isTaken(filling, "SELECT pg_notify('anything', repeat('x', 7000)) FROM generate_series(1, 20)");
    }

    /** Notifies; false if the queue is full. */
    private static boolean isTaken(Connection connection, String sql) throws SQLException {
        try {
            Sql.execute(connection, sql);
            return true;
        } catch (SQLException e) {
            if (e.getMessage().contains("NOTIFY queue")) {
                return false;
            }
            throw e;
        }
    }

    /** Holds the queue: a transaction that notified waits in its commit for a standby that doesn't exist. */
    public static NotificationQueue heldUp(PostgresServer server) throws SQLException {
        createDatabase(server);
        Connection hanging = server.connect(OTHER_DATABASE);
        Sql.execute(hanging, "CREATE TABLE IF NOT EXISTS written (n int)");
        int pid = Sql.backendPid(hanging);
        server.setting(SYNCHRONOUS, "nobody");
        AtomicBoolean over = new AtomicBoolean();
        Thread commit = new Thread(
                () -> {
                    // The server takes up the setting some time later: until then a commit doesn't hang.
                    while (!over.get() && notifyAndWrite(hanging)) {}
                },
                "commit that hangs");
        commit.setDaemon(true);
        commit.start();
        try (Connection observer = server.connect()) {
            await().atMost(PATIENCE).until(() -> Sql.truth(observer, WAITS, pid));
        }
        return new NotificationQueue("a commit holds the queue", () -> {
            over.set(true);
            server.resetSetting(SYNCHRONOUS);
            server.execute("SELECT pg_cancel_backend(" + pid + ")");
            await().atMost(PATIENCE).until(() -> !commit.isAlive());
            hanging.close();
        });
    }

    /** Returns false if the server has gone. */
    private static boolean notifyAndWrite(Connection hanging) {
        try {
            while (!isTaken(hanging, "INSERT INTO written SELECT 1 FROM (SELECT pg_notify('anything', '')) AS told")) {
                // It was full before, and stays so until somebody asks after the session that held it up has ended.
                Sql.execute(hanging, "SELECT pg_notification_queue_usage()");
            }
            return true;
        } catch (SQLException e) {
            // The server goes down in its test; its locks and the queue are free then, too.
            return false;
        }
    }

    private static void createDatabase(PostgresServer server) throws SQLException {
        try (Connection connection = server.connect()) {
            if (Sql.truth(
                    connection,
                    "SELECT NOT EXISTS (SELECT FROM pg_database WHERE datname = '" + OTHER_DATABASE + "')")) {
                server.createDatabase(OTHER_DATABASE);
            }
        }
    }

    @Override
    public void close() throws SQLException {
        end.run();
    }

    @Override
    public String toString() {
        return state;
    }
}
