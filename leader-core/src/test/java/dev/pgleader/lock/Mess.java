package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import org.postgresql.PGConnection;
import org.postgresql.jdbc.PgConnection;

/** Work that leaves the connection of a lock in a state. After {@link #LEAVES_COPY} it's busy for good. */
enum Mess {
    THROWS,
    THROWS_ERROR,
    CLOSES_BY_STATEMENT,
    CLOSES_BY_RESULT,
    CLOSES_BY_METADATA,
    CLOSES_BY_UNWRAPPED_HANDLE,
    CLOSES_DRIVERS_CONNECTION,
    LEAVES_TRANSACTION,
    LEAVES_FAILED_TRANSACTION,
    LEAVES_COPY,
    LEAVES_SETTINGS,
    LEAVES_ROLE_OF_ITS_OWN,
    LEAVES_LISTENER,
    LEAVES_LOCKS,
    LEAVES_JDBC_SETTINGS,
    SESSION_IS_ENDED;

    /** What a lock waits for that finds its connection busy. */
    static final Duration NETWORK_TIMEOUT_OF_BUSY = Duration.ofMillis(1500);

    @SuppressWarnings("StatementSwitchToExpressionSwitch")
    boolean make(PostgresServer server, Connection connection, boolean inTransaction) throws SQLException {
        switch (this) {
            case THROWS -> throw new IllegalStateException("work");
            case THROWS_ERROR -> throw new AssertionError("work");
            case CLOSES_BY_STATEMENT -> {
                try (Statement statement = connection.createStatement()) {
                    statement.getConnection().close();
                }
            }
            case CLOSES_BY_RESULT -> {
                try (PreparedStatement statement = connection.prepareStatement("SELECT 1");
                        ResultSet rows = statement.executeQuery()) {
                    rows.getStatement().getConnection().close();
                }
            }
            case CLOSES_BY_METADATA -> connection.getMetaData().getConnection().close();
            case CLOSES_BY_UNWRAPPED_HANDLE ->
                connection.unwrap(Connection.class).close();
            case CLOSES_DRIVERS_CONNECTION ->
                connection.unwrap(PgConnection.class).close();
            case LEAVES_TRANSACTION -> {
                Sql.execute(connection, inTransaction ? "SELECT 1" : "BEGIN");
                Sql.execute(connection, "INSERT INTO written VALUES (-1)");
            }
            case LEAVES_FAILED_TRANSACTION -> {
                Sql.execute(connection, inTransaction ? "SELECT 1" : "BEGIN");
                assertThat(catchThrowable(() -> Sql.execute(connection, "SELECT 1 / 0")))
                        .isInstanceOf(SQLException.class);
            }
            case LEAVES_COPY ->
                connection.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY written FROM STDIN");
            case LEAVES_SETTINGS -> {
                Sql.execute(connection, "SET statement_timeout = 54321");
                Sql.execute(connection, "SELECT set_config('app.tenant', 'other', false)");
            }
            case LEAVES_ROLE_OF_ITS_OWN -> Sql.execute(connection, "SET ROLE pg_monitor");
            case LEAVES_LISTENER -> Sql.execute(connection, "LISTEN somebody");
            case LEAVES_LOCKS -> Sql.execute(connection, "SELECT pg_advisory_lock(4711)");
            case LEAVES_JDBC_SETTINGS -> {
                connection.setNetworkTimeout(Runnable::run, 12_345);
                if (!inTransaction) {
                    connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                    connection.setReadOnly(true);
                    connection.setAutoCommit(false);
                }
            }
            case SESSION_IS_ENDED -> server.terminateBackend(Sql.backendPid(connection));
        }
        return true;
    }
}
