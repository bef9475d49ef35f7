package dev.pgleader.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.pgleader.testkit.PgBouncer.PoolMode;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class PgBouncerTest {

    private static final PostgresServer SERVER = PostgresServer.shared();

    @BeforeAll
    static void requirePgBouncer() {
        assumeTrue(PgBouncer.available(), PgBouncer.MISSING);
    }

    @Test
    void clientsShareOneServerSessionInTransactionMode() throws SQLException {
        try (PgBouncer pooler = PgBouncer.before(SERVER)
                        .poolMode(PoolMode.TRANSACTION)
                        .poolSize(1)
                        .launch();
                Connection first = connect(pooler);
                Connection second = connect(pooler)) {
            assertThat(serverPid(first)).isEqualTo(serverPid(second));
        }
    }

    @Test
    void clientsHaveServerSessionsOfTheirOwnInSessionMode() throws SQLException {
        try (PgBouncer pooler = PgBouncer.before(SERVER)
                        .poolMode(PoolMode.SESSION)
                        .poolSize(2)
                        .launch();
                Connection first = connect(pooler);
                Connection second = connect(pooler)) {
            assertThat(serverPid(first)).isNotEqualTo(serverPid(second));
        }
    }

    @Test
    void refusesTransactionsInStatementMode() throws SQLException {
        try (PgBouncer pooler = PgBouncer.before(SERVER)
                        .poolMode(PoolMode.STATEMENT)
                        .poolSize(2)
                        .launch();
                Connection connection = connect(pooler)) {
            assertThatThrownBy(() -> Sql.execute(connection, "BEGIN")).isInstanceOf(SQLException.class);
        }
    }

    @Test
    void logsInToAServerThatAsksForPasswordsAsAUserOfItsList() throws SQLException {
        try (PostgresServer strict = PostgresServer.builder().passwords().launch()) {
            strict.createRole("listed", "listed-password");
            try (PgBouncer pooler = PgBouncer.before(strict)
                            .user("listed", "listed-password")
                            .launch();
                    Connection connection = DriverManager.getConnection(pooler.url("postgres"), "listed", "any")) {
                assertThat(Sql.text(connection, "SELECT current_user")).isEqualTo("listed");
            }
        }
    }

    @Test
    void tellsWhyItDidNotStart() {
        assertThatThrownBy(() -> PgBouncer.before(SERVER)
                        .setting("pool_mode", "nonsense")
                        .launch())
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("pool_mode");
    }

    private static Connection connect(PgBouncer pooler) throws SQLException {
        return DriverManager.getConnection(
                pooler.url(PostgresServer.DEFAULT_DATABASE), SERVER.superuser(), SERVER.superuserPassword());
    }

    private static String serverPid(Connection connection) throws SQLException {
        return String.valueOf(Sql.text(connection, "SELECT pg_backend_pid()"));
    }
}
