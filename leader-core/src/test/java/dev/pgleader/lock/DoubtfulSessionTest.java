package dev.pgleader.lock;

import static dev.pgleader.lock.LockSessionContract.assertFault;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.event.Level;

/** What a session does when it can't be trusted, though its connection works. */
@Timeout(300)
class DoubtfulSessionTest {

    private static final String DATABASE = "doubtful";
    private static final LockKey KEY = LockKey.of(77);
    private static final Settings SETTINGS =
            new Settings("doubtful", Duration.ofSeconds(20), Duration.ofSeconds(5), true);
    private static final PostgresServer SERVER = PostgresServer.shared();

    @AutoClose
    private static final LockTable TABLE = new LockTable(SERVER, DATABASE);

    @BeforeAll
    static void createDatabase() throws SQLException {
        SERVER.createDatabase(DATABASE);
    }

    /** A session whose connection the test can use, too. */
    @Nested
    class OnItsOwnBackend {

        private final Connection backend = SERVER.connect(DATABASE);
        private LockSession session;

        OnItsOwnBackend() throws SQLException {}

        @BeforeEach
        void lock() throws Exception {
            TABLE.awaitFree(KEY.bits(), Duration.ofSeconds(20));
            session = LockSession.open(ConnectionSource.of(TestDataSources.lending(() -> backend)), SETTINGS);
            assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
            assertThat(session.check()).containsExactly(KEY);
        }

        @AfterEach
        void abort() {
            session.abort();
        }

        @Test
        @DisplayName("C13: a check doesn't show locks that pg_advisory_unlock_all took away, and their release fails")
        void unlockAll() throws Exception {
            Sql.execute(backend, "SELECT pg_advisory_unlock_all()");
            assertThat(session.check()).isEmpty();
            assertFault(Fault.LOCK_LOST, () -> session.release(List.of(KEY)));
        }

        @Test
        @DisplayName("C13: a check shows a lock that somebody else took on this backend")
        void lockedBySomebodyElse() throws Exception {
            assertThat(Sql.tryLock(backend, 78)).isTrue();
            assertThat(session.check()).containsExactlyInAnyOrder(KEY, LockKey.of(78));
        }

        @Test
        @DisplayName("C13: after DISCARD ALL the backend is nobody's, and no call is carried out on it")
        void discardAll() throws Exception {
            Sql.execute(backend, "DISCARD ALL");
            assertFault(Fault.SHARED_BACKEND, session::check);
            assertFault(
                    Fault.SHARED_BACKEND, () -> session.attempt(List.of(KEY)).granted());
            assertThat(TABLE.holders(KEY.bits())).isEmpty();
            assertThat(Sql.tryLock(backend, KEY.bits())).isTrue();
            assertFault(Fault.SHARED_BACKEND, () -> session.release(List.of(KEY)));
            assertThat(TABLE.holders(KEY.bits())).hasSize(1);
        }

        @Test
        @DisplayName("C12, C26, X16: the session's settings are those of its lease")
        void settings() throws Exception {
            // TCP timeouts read back without a unit, and as what the kernel made of them.
            Map<String, String> settings = Map.of(
                    "idle_session_timeout", "20s",
                    "tcp_user_timeout", "20000",
                    "tcp_keepalives_idle", "7",
                    "tcp_keepalives_interval", "7",
                    "tcp_keepalives_count", "2",
                    "client_connection_check_interval", "6666ms",
                    "statement_timeout", "20s",
                    "lock_timeout", "0",
                    "idle_in_transaction_session_timeout", "0",
                    "application_name", "pg-leader/doubtful");
            for (Map.Entry<String, String> setting : settings.entrySet()) {
                assertThat(Sql.text(backend, "SHOW " + setting.getKey()))
                        .as(setting.getKey())
                        .isEqualTo(setting.getValue());
            }
        }

        @ParameterizedTest
        @ValueSource(strings = {"0", "1h", "5s"})
        @DisplayName("C26: a check refuses a lease that somebody changed")
        void changedLease(String lease) throws Exception {
            Sql.execute(backend, "SET idle_session_timeout = '" + lease + "'");
            assertFault(Fault.LEASE_NOT_ENFORCED, session::check).hasMessageContaining("idle_session_timeout");
        }

        @Test
        @DisplayName("C15: a check refuses a session that has become read-only")
        void readOnly() throws Exception {
            Sql.execute(backend, "SET default_transaction_read_only = on");
            assertFault(Fault.READ_ONLY, session::check);
            Sql.execute(backend, "SET default_transaction_read_only = off");
            assertThat(session.check()).containsExactly(KEY);
        }

        @Test
        @DisplayName("C07: of two sessions on one backend the earlier learns of the later")
        void sharedBackend() throws Exception {
            Sql.execute(backend, "SELECT set_config('pgleader.session', 'another', false)");
            assertFault(Fault.SHARED_BACKEND, session::check);
            assertFault(Fault.SHARED_BACKEND, () -> session.attempt(List.of(LockKey.of(80))));
            assertFault(Fault.SHARED_BACKEND, () -> session.waitInQueue(LockKey.of(80), Duration.ofMillis(10)));
            assertThat(TABLE.holders(80)).isEmpty();
        }
    }

    @Test
    @DisplayName("C07: a connection that reaches the backend of another session is refused")
    void backendOfAnother() throws SQLException {
        Connection backend = SERVER.connect(DATABASE);
        int pid = Sql.backendPid(backend);
        Sql.execute(backend, "SELECT set_config('pgleader.session', 'another', false)");
        ConnectionSource same = ConnectionSource.of(TestDataSources.lending(() -> backend));
        assertFault(Fault.SHARED_BACKEND, () -> LockSession.open(same, SETTINGS))
                .hasMessageContaining(Integer.toString(pid))
                .hasMessageContaining("directly");
    }

    @Test
    @DisplayName("C01, X11, F14: a connection that a pool hands out locked is refused, and never handed out again")
    void leftBehindLocked() throws SQLException {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(SERVER.loginUrl(DATABASE));
        config.setMaximumPoolSize(1);
        try (HikariDataSource pool = new HikariDataSource(config)) {
            int pid;
            try (Connection borrowed = pool.getConnection()) {
                pid = Sql.backendPid(borrowed);
                assertThat(Sql.tryLock(borrowed, 79)).isTrue();
            }
            ConnectionSource source = ConnectionSource.of(pool);
            assertFault(Fault.SHARED_BACKEND, () -> LockSession.open(source, SETTINGS))
                    .hasMessageContaining("holds 1 advisory lock");
            TABLE.awaitFree(79, Duration.ofSeconds(20));
            try (Connection borrowed = pool.getConnection()) {
                assertThat(Sql.backendPid(borrowed)).isNotEqualTo(pid);
            }
        }
    }

    @Test
    @DisplayName("C15: a role whose transactions are read-only is refused")
    void readOnlyRole() throws SQLException {
        SERVER.createRole("reader", "");
        SERVER.execute("ALTER ROLE reader SET default_transaction_read_only = on");
        ConnectionSource source = ConnectionSource.of(SERVER.url(DATABASE), "reader", "");
        assertFault(Fault.READ_ONLY, () -> LockSession.open(source, SETTINGS));
    }

    /** A server that refuses a setting, which PostgreSQL doesn't, but services built on it do. */
    @Nested
    class ServerThatRefusesSettings {

        private static final String REFUSING = "refusing";

        private final ConnectionSource source =
                ConnectionSource.of(SERVER.url(REFUSING), SERVER.superuser(), SERVER.superuserPassword());

        @BeforeAll
        static void createDatabase() throws SQLException {
            SERVER.createDatabase(REFUSING);
            try (Connection connection = SERVER.connect(REFUSING)) {
                Sql.execute(connection, """
                        SET allow_system_table_mods = on;
                        ALTER FUNCTION pg_catalog.set_config(text, text, boolean) RENAME TO really_set_config;
                        CREATE FUNCTION pg_catalog.set_config(name text, value text, local boolean) RETURNS text
                        LANGUAGE plpgsql AS $$
                        BEGIN
                            IF name IN ('idle_session_timeout', 'tcp_user_timeout') THEN
                                RAISE EXCEPTION 'unrecognized configuration parameter "%"', name USING ERRCODE = '42704';
                            END IF;
                            RETURN pg_catalog.really_set_config(name, value, local);
                        END $$
                        """);
            }
        }

        @Test
        @DisplayName("C12, C26: a server that doesn't end silent sessions is refused")
        void refused() {
            assertFault(Fault.LEASE_NOT_ENFORCED, () -> LockSession.open(source, SETTINGS))
                    .hasMessageContaining("idle_session_timeout");
            await().until(() -> TABLE.sessions("pg-leader/doubtful").isEmpty());
        }

        @Test
        void isAcceptedByThoseWhoAcceptThatSilentSessionsStay() throws Exception {
            Settings lenient = new Settings("lenient", SETTINGS.lease(), SETTINGS.networkTimeout(), false);
            try (LogCapture log = LogCapture.of(SessionOpening.class, Level.INFO)) {
                LockSession session = LockSession.open(source, lenient);
                assertThat(session.facts().leaseEnforced()).isFalse();
                assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
                assertThat(session.check()).containsExactly(KEY);
                assertThat(TABLE.sessions("pg-leader/lenient")).hasSize(1);
                session.release(List.of(KEY));
                session.close();
                assertThat(log.messages(Level.INFO))
                        .hasSize(2)
                        .anyMatch(message -> message.contains("idle_session_timeout"))
                        .anyMatch(message -> message.contains("tcp_user_timeout"));
            }
        }
    }

    @Test
    @DisplayName("R07: a server whose lock function only says yes is refused when a session opens")
    void locksThatAreNotReal() throws SQLException {
        SERVER.createDatabase("unreal");
        try (Connection connection = SERVER.connect("unreal")) {
            Sql.execute(connection, """
                    SET allow_system_table_mods = on;
                    ALTER FUNCTION pg_catalog.pg_try_advisory_lock(bigint) RENAME TO really_try_advisory_lock;
                    CREATE FUNCTION pg_catalog.pg_try_advisory_lock(key bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
                    """);
        }
        ConnectionSource source = ConnectionSource.of(SERVER.url("unreal"), SERVER.superuser(), "");
        assertFault(Fault.LOCKS_NOT_REAL, () -> LockSession.open(source, SETTINGS))
                .hasMessageContaining("CockroachDB");
    }

    /** Servers of the test's own, to be fenced and promoted. */
    @Nested
    class Topology {

        @Test
        @DisplayName("C15, C16, F9, F10: a fenced server and a standby are refused, and accepted when that is over")
        void fencedAndStandby() throws Exception {
            try (PostgresServer primary = PostgresServer.launch()) {
                ConnectionSource toPrimary = source(primary);
                LockSession session = LockSession.open(toPrimary, SETTINGS);
                assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
                primary.fence();
                // A session hears of a changed configuration before its next statement, at the latest after it.
                await().until(() -> faultOf(session::check) == Fault.READ_ONLY);
                assertFault(Fault.READ_ONLY, () -> LockSession.open(toPrimary, SETTINGS));
                primary.unfence();
                LockSession reopened = LockSession.open(toPrimary, SETTINGS);
                assertThat(reopened.facts().server().timeline()).isEqualTo(1);
                session.abort();
                reopened.close();
                try (PostgresServer standby = primary.standby()) {
                    ConnectionSource toStandby = source(standby);
                    assertFault(Fault.STANDBY, () -> LockSession.open(toStandby, SETTINGS))
                            .hasMessageContaining("primary");
                    standby.promote();
                    LockSession promoted = LockSession.open(toStandby, SETTINGS);
                    assertThat(promoted.facts().server().timeline()).isEqualTo(2);
                    assertThat(promoted.attempt(List.of(KEY)).granted()).containsExactly(KEY);
                    assertThat(promoted.check()).containsExactly(KEY);
                    promoted.close();
                }
            }
        }

        private Fault faultOf(Callable<?> call) throws Exception {
            try {
                Objects.requireNonNull(call.call());
                return Fault.STATEMENT_FAILED;
            } catch (LockSessionException e) {
                return e.fault();
            }
        }

        private ConnectionSource source(PostgresServer server) {
            return ConnectionSource.of(
                    server.url(PostgresServer.DEFAULT_DATABASE), server.superuser(), server.superuserPassword());
        }
    }
}
