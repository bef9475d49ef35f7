package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.awaitility.Awaitility;
import org.awaitility.core.ConditionFactory;
import org.postgresql.jdbc.PgConnection;

/** A database of one test class, whose connections the {@link Lender}s lend. */
final class LenderDatabase implements AutoCloseable {

    private final PostgresServer server;
    private final String name;
    private final LockTable table;

    private LenderDatabase(PostgresServer server, String name) {
        this.server = server;
        this.name = name;
        table = new LockTable(server, name);
    }

    /** Creates it on the server that all tests of this JVM share. */
    static LenderDatabase create(String name) {
        LenderDatabase database = new LenderDatabase(PostgresServer.shared(), name);
        try {
            database.server.createDatabase(name);
            try (Connection connection = database.connect()) {
                Sql.execute(connection, "CREATE TABLE written (n int)");
            }
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
        return database;
    }

    Connection connect() throws SQLException {
        return server.connect(name);
    }

    /** With user and password. */
    String url() {
        return server.loginUrl(name);
    }

    LockTable table() {
        return table;
    }

    /** Hundreds of tests wait for what has mostly happened already. */
    static ConditionFactory await() {
        return Awaitility.await()
                .atMost(Duration.ofSeconds(20))
                .pollDelay(Duration.ZERO)
                .pollInterval(Duration.ofMillis(10));
    }

    /** What a connection has set of its session, as it is lent for the first time. */
    static String settings(Lender.Open open) throws SQLException {
        try (Connection connection = open.dataSource().getConnection()) {
            String settings = settings(connection);
            if (!connection.getAutoCommit()) {
                connection.rollback();
            }
            return settings;
        }
    }

    private static String settings(Connection connection) throws SQLException {
        return Sql.text(
                connection,
                "SELECT coalesce(string_agg(name || '=' || setting, ' ' ORDER BY name), '') FROM pg_settings"
                        + " WHERE source = 'session' AND setting IS DISTINCT FROM reset_val AND name NOT LIKE 'transaction\\_%'");
    }

    /**
     * Takes all slots of a pool at the same time: each lends a live connection that is as a new one, and nothing is left on
     * the server.
     */
    void assertWhole(Lender.Open open, int size, String settings, LockKey key) throws SQLException {
        List<Connection> borrowed = new ArrayList<>();
        try {
            Set<Integer> pids = new HashSet<>();
            for (int slot = 0; slot < size; slot++) {
                Connection connection = open.dataSource().getConnection();
                borrowed.add(connection);
                assertAsNew(connection, settings);
                assertThat(pids.add(Sql.backendPid(connection))).isTrue();
            }
        } finally {
            for (Connection connection : borrowed) {
                connection.close();
            }
        }
        await().until(() -> table.holders(key.bits()).isEmpty());
        await().until(() -> table.sessions("pg-leader/").isEmpty());
    }

    private static void assertAsNew(Connection connection, String settings) throws SQLException {
        assertThat(connection.getAutoCommit()).isTrue();
        assertThat(connection.isReadOnly()).isFalse();
        assertThat(connection.getNetworkTimeout()).isZero();
        assertThat(connection.unwrap(PgConnection.class).getPrepareThreshold()).isEqualTo(5);
        assertThat(settings(connection)).isEqualTo(settings);
        assertThat(Sql.text(connection, "SELECT count(*) FROM pg_listening_channels()"))
                .isEqualTo("0");
        assertThat(Sql.text(
                        connection,
                        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
                .isEqualTo("0");
        assertThat(Sql.text(connection, "SELECT current_setting('app.tenant', true)"))
                .isIn(null, "");
    }

    @Override
    public void close() throws SQLException {
        table.close();
    }
}
