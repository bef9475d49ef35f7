package dev.pgleader.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.testkit.PostgresServer.ShutdownMode;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class PostgresServerTest {

    @AutoClose
    private static final PostgresServer SERVER = PostgresServer.launch();

    @BeforeAll
    static void createTable() throws SQLException {
        SERVER.execute("CREATE TABLE kept (what text)");
    }

    @Test
    void keepsItsPortAndItsDataOverEachKindOfEnd() throws SQLException {
        int port = SERVER.port();
        SERVER.execute("INSERT INTO kept VALUES ('before fast')");
        SERVER.restart(ShutdownMode.FAST);
        SERVER.execute("INSERT INTO kept VALUES ('before immediate')");
        SERVER.restart(ShutdownMode.IMMEDIATE);
        SERVER.execute("INSERT INTO kept VALUES ('before kill')");
        SERVER.killPostmaster();
        assertThatThrownBy(SERVER::connect).isInstanceOf(SQLException.class);
        SERVER.start();
        assertThat(SERVER.port()).isEqualTo(port);
        assertThat(value("SELECT string_agg(what, ', ') FROM kept"))
                .isEqualTo("before fast, before immediate, before kill");
    }

    @Test
    void startsAgainAfterItsPostmasterWasKilledWhileABackendWasFrozen() throws SQLException {
        try (Connection connection = SERVER.connect()) {
            SERVER.freezeBackend(Sql.backendPid(connection));
            SERVER.killPostmaster();
            SERVER.start();
            assertThat(value("SELECT 1")).isEqualTo("1");
        }
    }

    @Test
    void aFrozenServerLeavesOpenAndNewConnectionsWithoutAnAnswer() throws SQLException {
        try (Connection connection = SERVER.connect()) {
            SERVER.freeze();
            try {
                connection.setNetworkTimeout(Runnable::run, 200);
                assertThatThrownBy(() -> Sql.text(connection, "SELECT 1"))
                        .hasStackTraceContaining("SocketTimeoutException");
                String url = SERVER.url("postgres", Map.of("user", SERVER.superuser(), "socketTimeout", "1"));
                assertThatThrownBy(() -> DriverManager.getConnection(url))
                        .hasStackTraceContaining("SocketTimeoutException");
            } finally {
                SERVER.thaw();
            }
        }
        assertThat(value("SELECT 1")).isEqualTo("1");
    }

    @Test
    void aFrozenServerCanBeStopped() throws SQLException {
        SERVER.freeze();
        SERVER.restart(ShutdownMode.FAST);
        assertThat(value("SELECT 1")).isEqualTo("1");
    }

    @Test
    void refusesToFreezeAProcessThatIsNotItsOwn() {
        int own = Math.toIntExact(ProcessHandle.current().pid());
        assertThatThrownBy(() -> SERVER.freezeBackend(own)).isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void terminatesABackend() throws SQLException {
        try (Connection connection = SERVER.connect();
                LockTable table = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE)) {
            int pid = Sql.backendPid(connection);
            assertThat(table.session(pid)).isPresent();
            SERVER.terminateBackend(pid);
            await().until(() -> table.session(pid).isEmpty());
            assertThatThrownBy(() -> SERVER.terminateBackend(pid)).isInstanceOf(IllegalArgumentException.class);
        }
    }

    @Test
    void newSessionsHaveAChangedSettingAndLoseItAgain() throws SQLException {
        SERVER.setting("idle_session_timeout", "7s");
        assertThat(value("SHOW idle_session_timeout")).isEqualTo("7s");
        SERVER.resetSetting("idle_session_timeout");
        assertThat(value("SHOW idle_session_timeout")).isEqualTo("0");
    }

    @Test
    void aFencedServerRefusesWritesUntilItIsUnfenced() throws SQLException {
        SERVER.fence();
        try {
            assertThatThrownBy(() -> SERVER.execute("INSERT INTO kept VALUES ('fenced')"))
                    .isInstanceOfSatisfying(
                            SQLException.class, e -> assertThat(e.getSQLState()).isEqualTo("25006"));
        } finally {
            SERVER.unfence();
        }
        SERVER.execute("CREATE TABLE written (what text)");
    }

    @Test
    void aStandbyStreamsAndKeepsTheDataWhenPromoted() throws SQLException {
        SERVER.execute("CREATE TABLE replicated AS SELECT 1 AS before");
        try (PostgresServer standby = SERVER.standby()) {
            SERVER.execute("INSERT INTO replicated VALUES (2)");
            await().until(() -> "2".equals(value(standby, "SELECT count(*) FROM replicated")));
            assertThat(value(standby, "SELECT pg_is_in_recovery()")).isEqualTo("t");
            standby.promote();
            standby.execute("INSERT INTO replicated VALUES (3)");
            assertThat(value(standby, "SELECT count(*) FROM replicated")).isEqualTo("3");
        }
        assertThat(value("SELECT count(*) FROM replicated")).isEqualTo("2");
    }

    @Test
    void asksForPasswordsAndSpeaksTlsWhenBuiltSo() throws SQLException {
        try (PostgresServer strict = PostgresServer.builder()
                .passwords()
                .tls()
                .setting("max_connections", "17")
                .launch()) {
            strict.createRole("Some \"one\"", "it's secret");
            strict.createDatabase("some database");
            String url = strict.url(
                    "some database",
                    Map.of(
                            "sslmode",
                            "verify-full",
                            "sslrootcert",
                            strict.certificate().toString()));
            try (Connection connection = DriverManager.getConnection(url, "Some \"one\"", "it's secret")) {
                assertThat(Sql.truth(connection, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
                        .isTrue();
                assertThat(Sql.text(connection, "SHOW max_connections")).isEqualTo("17");
                assertThat(Sql.truth(connection, "SELECT usesuper FROM pg_user WHERE usename = current_user"))
                        .isFalse();
            }
            assertThatThrownBy(() -> DriverManager.getConnection(url, "Some \"one\"", "a guess"))
                    .isInstanceOfSatisfying(
                            SQLException.class, e -> assertThat(e.getSQLState()).isEqualTo("28P01"));
            try (PostgresServer standby = strict.standby()) {
                assertThat(value(standby, "SELECT pg_is_in_recovery()")).isEqualTo("t");
            }
        }
    }

    @Test
    void tellsWhyItDidNotStart() {
        assertThatThrownBy(() -> PostgresServer.builder()
                        .setting("max_connections", "many")
                        .launch())
                .hasMessageContaining("invalid value for parameter \"max_connections\"");
    }

    @Test
    void closingAfterAKillLeavesNoDirectory() throws SQLException {
        PostgresServer shortLived = PostgresServer.launch();
        Path data = Path.of(value(shortLived, "SHOW data_directory"));
        shortLived.killPostmaster();
        shortLived.close();
        assertThat(data.getParent()).doesNotExist();
    }

    private static String value(String sql) throws SQLException {
        return value(SERVER, sql);
    }

    private static String value(PostgresServer server, String sql) throws SQLException {
        try (Connection connection = server.connect()) {
            @Nullable String text = Sql.text(connection, sql);
            return text == null ? "null" : text;
        }
    }
}
