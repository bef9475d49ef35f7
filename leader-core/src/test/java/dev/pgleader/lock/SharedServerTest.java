package dev.pgleader.lock;

import static dev.pgleader.lock.LockSessionContract.assertFault;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockSession.Attempt;
import dev.pgleader.lock.LockSession.Holder;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.postgresql.ds.PGSimpleDataSource;
import org.slf4j.event.Level;

/** A session on a server that it shares with roles, settings and transactions of all kinds. */
@Timeout(60)
class SharedServerTest {

    private static final LockKey KEY = LockKey.of(1L << 33);
    private static final LockKey PAIR = LockKey.of(-3, 4);
    private static final Settings SETTINGS =
            new Settings("shared", Duration.ofSeconds(20), Duration.ofSeconds(5), true);

    @AutoClose
    private static final PostgresServer SERVER = PostgresServer.builder()
            .setting("max_prepared_transactions", "5")
            .setting("deadlock_timeout", "50ms")
            .launch();

    private final ExecutorService executor = Executors.newCachedThreadPool();

    @BeforeAll
    static void createRoles() throws SQLException {
        SERVER.createRole("service", "");
        SERVER.createRole("stranger", "");
    }

    @AfterEach
    void end() throws SQLException {
        executor.shutdownNow();
        // What a test that failed has left behind isn't the next one's.
        SERVER.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'pg-leader/%'");
    }

    private static LockSession open(String role) throws LockSessionException {
        return LockSession.open(ConnectionSource.of(SERVER.url(PostgresServer.DEFAULT_DATABASE), role, ""), SETTINGS);
    }

    private static Connection connect(String role) throws SQLException {
        return SERVER.connect(PostgresServer.DEFAULT_DATABASE, role, "");
    }

    @Test
    @DisplayName("N20: a prepared transaction that holds a key is told, with its name")
    void preparedTransaction() throws Exception {
        LockSession session = open("service");
        try (Connection connection = connect("stranger")) {
            Sql.execute(
                    connection, "BEGIN; SELECT pg_advisory_xact_lock(-3, 4); PREPARE TRANSACTION 'the\n\"migration\"'");
            try {
                Map<LockKey, Holder> expected = Map.of(PAIR, new Holder(0, "prepared transaction the \"migration\""));
                assertThat(session.attempt(List.of(PAIR, KEY))).isEqualTo(new Attempt(Set.of(KEY), expected));
                session.release(List.of(KEY));
                assertThat(session.findHolders(List.of(PAIR, KEY))).isEqualTo(expected);
            } finally {
                Sql.execute(connection, "ROLLBACK PREPARED 'the\n\"migration\"'");
            }
        }
        assertThat(session.findHolders(List.of(PAIR))).isEmpty();
        session.close();
    }

    @Test
    @DisplayName("R06: sessions of the same role and of superusers may command, and no others")
    void commanders() throws Exception {
        LockSession session = open("service");
        try (Connection same = connect("service");
                Connection stranger = connect("stranger");
                Connection superuser = SERVER.connect()) {
            Sql.execute(superuser, "SET SESSION AUTHORIZATION stranger");
            assertThat(session.findCommanders(
                            List.of(Sql.backendPid(same), Sql.backendPid(stranger), Sql.backendPid(superuser), 1, -1)))
                    .containsExactlyInAnyOrder(Sql.backendPid(same), Sql.backendPid(superuser));
        }
        assertThat(session.findCommanders(List.of())).isEmpty();
        session.close();
    }

    @Test
    @DisplayName("R25: a group has the members of one role, each once, until it leaves")
    void members() throws Exception {
        LockKey group = LockKey.of(99);
        LockSession first = open("service");
        LockSession second = open("service");
        LockSession foreign = open("stranger");
        for (LockSession session : List.of(first, second, foreign, first)) {
            assertThat(session.join(group)).isTrue();
        }
        assertThat(first.countMembers(group)).isEqualTo(2);
        assertThat(foreign.countMembers(group)).isEqualTo(1);
        first.leave(group);
        assertThat(second.countMembers(group)).isEqualTo(1);
        for (LockSession session : List.of(first, second, foreign)) {
            session.close();
        }
    }

    @ParameterizedTest
    @CsvSource({"simple, 5", "simple, -1", "extended, -1", "extendedForPrepared, 1", "extendedCacheEverything, 0"})
    @DisplayName("R34: a session does all it can, however the DataSource has its statements sent")
    void queryModes(String mode, int prepareThreshold) throws Exception {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(SERVER.url(PostgresServer.DEFAULT_DATABASE, Map.of("preferQueryMode", mode)));
        dataSource.setUser("service");
        dataSource.setPrepareThreshold(prepareThreshold);
        LockSession holder = open("stranger");
        assertThat(holder.attempt(List.of(KEY)).granted()).hasSize(1);
        LockSession session = LockSession.open(ConnectionSource.of(dataSource), SETTINGS);
        for (int round = 0; round < 7; round++) {
            for (PostgresLockSessionContract.Call call :
                    PostgresLockSessionContract.calls().values()) {
                call.on(session);
            }
            assertThat(session.waitInQueue(KEY, Duration.ofMillis(20))).isFalse();
            assertThat(session.waitInQueue(PAIR, Duration.ofMillis(20))).isTrue();
            assertThat(session.check()).contains(PAIR);
            session.release(List.of(PAIR));
            assertThat(session.attempt(List.of(KEY)).holders())
                    .containsEntry(KEY, new Holder(holder.facts().backendPid(), "pg-leader/shared"));
        }
        session.close();
        holder.close();
    }

    @Test
    @DisplayName("R23: the role's own limits don't touch a session, not even in the queue; what is unknown isn't told")
    void limitsOfTheRole() throws Exception {
        SERVER.createRole("limited", "");
        for (String limit : List.of(
                "statement_timeout = '300ms'",
                "lock_timeout = '100ms'",
                "idle_session_timeout = '300ms'",
                "idle_in_transaction_session_timeout = '100ms'",
                "default_transaction_isolation = 'serializable'",
                "default_transaction_deferrable = on")) {
            SERVER.execute("ALTER ROLE limited SET " + limit);
        }
        try (Connection connection = SERVER.connect()) {
            if (Sql.truth(connection, "SELECT current_setting('transaction_timeout', true) IS NOT NULL")) {
                SERVER.execute("ALTER ROLE limited SET transaction_timeout = '300ms'");
            }
        }
        LockSession holder = open("service");
        assertThat(holder.attempt(List.of(KEY)).granted()).hasSize(1);
        try (LogCapture log = LogCapture.of(SessionOpening.class, Level.INFO)) {
            LockSession session = open("limited");
            assertThat(session.waitInQueue(KEY, Duration.ofMillis(700))).isFalse();
            assertThat(session.check()).isEmpty();
            session.close();
            assertThat(log.events()).isEmpty();
        }
        holder.close();
    }

    @Test
    @DisplayName("R23: a deadlock of two that wait for each other's keys costs neither its session")
    void deadlock() throws Exception {
        LockSession first = open("service");
        LockSession second = open("service");
        assertThat(first.attempt(List.of(KEY)).granted()).hasSize(1);
        assertThat(second.attempt(List.of(PAIR)).granted()).hasSize(1);
        Future<Boolean> ofFirst = executor.submit(() -> first.waitInQueue(PAIR, Duration.ofSeconds(2)));
        Future<Boolean> ofSecond = executor.submit(() -> second.waitInQueue(KEY, Duration.ofSeconds(2)));
        assertThat(ofFirst.get(20, TimeUnit.SECONDS)).isFalse();
        assertThat(ofSecond.get(20, TimeUnit.SECONDS)).isFalse();
        assertThat(first.check()).containsExactly(KEY);
        assertThat(second.check()).containsExactly(PAIR);
        first.close();
        second.close();
    }

    @Test
    @DisplayName("R38: a wait in the queue that is cancelled is no grant, and the session lives")
    void cancelledInTheQueue() throws Exception {
        LockSession holder = open("service");
        LockSession waiting = open("service");
        assertThat(holder.attempt(List.of(KEY)).granted()).hasSize(1);
        Future<Boolean> granted = executor.submit(() -> waiting.waitInQueue(KEY, Duration.ofSeconds(10)));
        try (Connection connection = SERVER.connect()) {
            int pid = waiting.facts().backendPid();
            await().until(() ->
                    Sql.truth(connection, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = ? AND NOT granted)", pid));
            Sql.execute(connection, "SELECT pg_cancel_backend(" + pid + ")");
        }
        assertThat(granted.get(5, TimeUnit.SECONDS)).isFalse();
        assertThat(waiting.check()).isEmpty();
        waiting.close();
        holder.close();
    }

    @Test
    @DisplayName("R38: whatever statement is cancelled, the session tells the truth afterwards")
    void cancelledStatements() throws Exception {
        LockSession session = open("service");
        LockKey kept = LockKey.of(4);
        assertThat(session.attempt(List.of(kept)).granted()).hasSize(1);
        try (Connection cancelling = SERVER.connect()) {
            int pid = session.facts().backendPid();
            Future<Integer> cancels = executor.submit(() -> {
                int count = 0;
                while (!Thread.currentThread().isInterrupted()) {
                    // Rarely enough for a second look to pass.
                    Sql.execute(cancelling, "SELECT pg_cancel_backend(" + pid + "), pg_sleep(0.3)");
                    count++;
                }
                return count;
            });
            List<LockKey> many =
                    LongStream.range(1000, 2000).mapToObj(LockKey::of).toList();
            for (int round = 0; round < 400 && !cancels.isDone(); round++) {
                assertThat(session.check()).containsExactly(kept);
                Set<LockKey> granted = session.attempt(many).granted();
                assertThat(session.check()).hasSize(granted.size() + 1).containsAll(granted);
                session.release(granted);
                session.findHolders(many);
            }
            assertThat(session.check()).containsExactly(kept);
            cancels.cancel(true);
        }
        session.close();
    }

    @Test
    @DisplayName("the message of a login that fails is one line with its cause")
    void loginsThatFail() {
        assertThat(refusal("jdbc:postgresql://no-such-host.invalid/postgres", "service", Fault.UNREACHABLE))
                .contains("UnknownHostException: no-such-host.invalid");
        assertThat(refusal("jdbc:postgresql://localhost:1/postgres", "service", Fault.UNREACHABLE))
                .contains("refused");
        assertThat(refusal(SERVER.url("no_such_database"), "service", Fault.UNREACHABLE))
                .contains("\"no_such_database\" does not exist", "(3D000)");
        assertThat(refusal(SERVER.url(PostgresServer.DEFAULT_DATABASE), "nobody", Fault.LOGIN_REFUSED))
                .contains("role \"nobody\" does not exist", "(28000)");
    }

    private static String refusal(String url, String role, Fault fault) {
        StringBuilder message = new StringBuilder();
        assertFault(fault, () -> LockSession.open(ConnectionSource.of(url, role, ""), SETTINGS))
                .satisfies(failure -> message.append(failure.getMessage()))
                .message()
                .doesNotContainPattern("[\\r\\n]");
        return message.toString();
    }

    @Test
    void addressIsTheOneThatTheDriverReached() throws Exception {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setServerNames(new String[] {"localhost", "localhost"});
        dataSource.setPortNumbers(new int[] {1, SERVER.port()});
        dataSource.setUser("service");
        dataSource.setDatabaseName(PostgresServer.DEFAULT_DATABASE);
        LockSession session = LockSession.open(ConnectionSource.of(dataSource), SETTINGS);
        assertThat(session.facts().serverAddress()).isEqualTo("localhost:" + SERVER.port());
        session.close();
    }
}
