package dev.pgleader.lock;

import static dev.pgleader.lock.LockSessionContract.assertFault;
import static dev.pgleader.lock.LockSessionContract.elapsed;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PgBouncer;
import dev.pgleader.testkit.PgBouncer.PoolMode;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.postgresql.ds.PGSimpleDataSource;

/** Sessions behind PgBouncer. */
@Timeout(300)
class PoolerTest {

    private static final String DATABASE = "pooled";
    private static final LockKey KEY = LockKey.of(91);
    private static final Settings SETTINGS =
            new Settings("pooled", Duration.ofSeconds(2), Duration.ofSeconds(10), true);
    private static final PostgresServer SERVER = PostgresServer.shared();

    @AutoClose
    private static final LockTable TABLE = new LockTable(SERVER, DATABASE);

    private final ExecutorService executor = Executors.newCachedThreadPool();
    private final AtomicBoolean over = new AtomicBoolean();

    @BeforeAll
    static void requirePgBouncer() throws SQLException {
        assumeTrue(PgBouncer.available(), PgBouncer.MISSING);
        SERVER.createDatabase(DATABASE);
    }

    @AfterEach
    void end() throws InterruptedException {
        over.set(true);
        executor.shutdown();
        assertThat(executor.awaitTermination(10, TimeUnit.SECONDS)).isTrue();
    }

    static Stream<Arguments> sharingPoolers() {
        List<Arguments> poolers = new ArrayList<>();
        for (PoolMode mode : List.of(PoolMode.TRANSACTION, PoolMode.STATEMENT)) {
            for (boolean roundRobin : List.of(false, true)) {
                for (int size : List.of(1, 2, 5)) {
                    for (int others : mode == PoolMode.TRANSACTION ? List.of(0, 3) : List.of(3)) {
                        poolers.add(Arguments.of(mode, roundRobin, size, others));
                    }
                }
            }
        }
        return poolers.stream();
    }

    @ParameterizedTest(name = "{0} mode, server_round_robin {1}, {2} server connections, {3} other clients")
    @MethodSource("sharingPoolers")
    @DisplayName("C07, F15: a session behind a pooler that shares backends never opens, and leaves no lock")
    void refused(PoolMode mode, boolean roundRobin, int poolSize, int others) throws Exception {
        try (PgBouncer pooler = pooler(mode, roundRobin, poolSize)) {
            List<Future<Integer>> traffic = traffic(pooler, others);
            ConnectionSource source = ConnectionSource.of(pooler.url(DATABASE), SERVER.superuser(), "");
            for (int round = 0; round < 3; round++) {
                assertFault(Fault.SHARED_BACKEND, () -> LockSession.open(source, SETTINGS))
                        .hasMessageContaining("session mode")
                        .hasMessageContaining("directly");
            }
            over.set(true);
            for (Future<Integer> client : traffic) {
                assertThat(client.get(30, TimeUnit.SECONDS)).isPositive();
            }
            assertThat(TABLE.advisoryRows()).isEmpty();
            try (Connection client = client(pooler)) {
                assertThat(Sql.text(client, "SHOW idle_session_timeout")).isEqualTo("0");
                assertThat(Sql.text(client, "SHOW search_path")).isEqualTo("\"$user\", public");
            }
            LockSession direct = LockSession.open(direct(), SETTINGS);
            assertThat(direct.attempt(List.of(KEY)).granted()).containsExactly(KEY);
            direct.release(List.of(KEY));
            direct.close();
        }
    }

    static Stream<Arguments> poolersOfDataSources() {
        return Stream.of(
                Arguments.of(PoolMode.TRANSACTION, false, 2, 0),
                Arguments.of(PoolMode.TRANSACTION, true, 2, 1),
                Arguments.of(PoolMode.STATEMENT, false, 5, 3));
    }

    @ParameterizedTest(name = "{0} mode, server_round_robin {1}, {2} server connections, {3} other clients")
    @MethodSource("poolersOfDataSources")
    @DisplayName("C07: over a DataSource behind such a pooler, two sessions never hold one key at a time")
    void neverBoth(PoolMode mode, boolean roundRobin, int poolSize, int others) throws Exception {
        try (PgBouncer pooler = pooler(mode, roundRobin, poolSize)) {
            List<Future<Integer>> traffic = traffic(pooler, others);
            PGSimpleDataSource dataSource = new PGSimpleDataSource();
            dataSource.setUrl(pooler.url(DATABASE, Map.of("user", SERVER.superuser(), "prepareThreshold", "0")));
            ConnectionSource source = ConnectionSource.of(dataSource);
            Contention contention = Contention.of(source, KEY, SETTINGS);
            over.set(true);
            for (Future<Integer> client : traffic) {
                assertThat(client.get(30, TimeUnit.SECONDS)).isPositive();
            }
            contention.assertNeverBoth();
            assertThat(contention.holds() + contention.faults(Fault.SHARED_BACKEND))
                    .isPositive();
        }
        TABLE.awaitFree(KEY.bits(), Duration.ofSeconds(20));
    }

    @Test
    @DisplayName("C07: over a DataSource behind a pooler that changes backends, no lock stays longer than the lease")
    void nothingStranded() throws Exception {
        try (PgBouncer pooler = pooler(PoolMode.TRANSACTION, true, 2);
                Connection first = client(pooler);
                Connection second = client(pooler)) {
            // Two backends, from now on used in turn.
            for (Connection client : List.of(first, second)) {
                client.setAutoCommit(false);
                Sql.execute(client, "SELECT 1");
            }
            for (Connection client : List.of(first, second)) {
                client.commit();
                client.setAutoCommit(true);
            }
            PGSimpleDataSource dataSource = new PGSimpleDataSource();
            dataSource.setUrl(pooler.url(DATABASE, Map.of("user", SERVER.superuser(), "prepareThreshold", "0")));
            for (int offset = 0; offset < 2; offset++) {
                Sql.execute(first, "SELECT 1");
                lockIfItOpens(ConnectionSource.of(dataSource), first);
            }
            TABLE.awaitFree(KEY.bits(), SETTINGS.lease().plusSeconds(1));
        }
    }

    private static void lockIfItOpens(ConnectionSource source, Connection other) throws Exception {
        try {
            LockSession session = LockSession.open(source, SETTINGS);
            try {
                Sql.execute(other, "SELECT 1");
                assertThat(session.attempt(List.of(KEY)).granted()).isEqualTo(session.check());
            } finally {
                session.abort();
            }
        } catch (LockSessionException e) {
            assertThat(e.fault()).isEqualTo(Fault.SHARED_BACKEND);
        }
    }

    @Test
    @DisplayName(
            "C07: behind a pooler in session mode that has one connection only, it is said what a second one is for")
    void sessionModeWithOneConnection() {
        try (PgBouncer pooler = pooler(PoolMode.SESSION, false, 1)) {
            ConnectionSource source = ConnectionSource.of(pooler.url(DATABASE), SERVER.superuser(), "");
            Settings impatient = new Settings("pooled", Duration.ofSeconds(2), Duration.ofMillis(500), true);
            assertFault(Fault.UNREACHABLE, () -> LockSession.open(source, impatient))
                    .hasMessageContaining("second connection")
                    .hasMessageContaining("CONNECTION LIMIT");
        }
    }

    @Test
    @DisplayName("C07: behind a pooler in session mode a session opens, and its lease and its end free the lock")
    void sessionMode() throws Exception {
        try (PgBouncer pooler = pooler(PoolMode.SESSION, false, 3)) {
            ConnectionSource source = ConnectionSource.of(pooler.url(DATABASE), SERVER.superuser(), "");
            Settings shortLease = new Settings("pooled", Duration.ofSeconds(1), Duration.ofSeconds(2), true);
            LockSession silent = LockSession.open(source, shortLease);
            long start = System.nanoTime();
            assertThat(silent.attempt(List.of(KEY)).granted()).containsExactly(KEY);
            TABLE.awaitFree(KEY.bits(), Duration.ofSeconds(20));
            assertThat(elapsed(start)).as("the server counts it").isGreaterThan(Duration.ofMillis(500));
            assertFault(
                    Fault.CONNECTION_LOST,
                    () -> silent.awaitNotifications(Duration.ofSeconds(5).toNanos()));
            silent.abort();
            for (int round = 0; round < 4; round++) {
                LockSession session = LockSession.open(source, SETTINGS);
                assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
                assertThat(session.check()).containsExactly(KEY);
                session.tell(List.of("through the pooler"));
                assertThat(LockSessionContract.receive(session, 1)).containsExactly("through the pooler");
                if (round % 2 == 0) {
                    session.abort();
                } else {
                    session.close();
                }
                await().until(() -> TABLE.holders(KEY.bits()).isEmpty());
            }
        }
    }

    @Test
    @DisplayName(
            "Statements are planned once for a direct session; behind a pooler they have no names, which others could use")
    void namedStatements() throws Exception {
        try (PgBouncer pooler = pooler(PoolMode.SESSION, false, 3)) {
            assertThat(namesOfSession(SERVER.url(DATABASE))).isPositive();
            assertThat(namesOfSession(pooler.url(DATABASE))).isZero();
        }
    }

    /** How many statements the server knows by name after some that an election repeats. */
    private static int namesOfSession(String url) throws Exception {
        List<Connection> lent = new ArrayList<>();
        PGSimpleDataSource dataSource = new PGSimpleDataSource() {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = super.getConnection();
                lent.add(connection);
                return connection;
            }
        };
        dataSource.setUrl(url);
        dataSource.setUser(SERVER.superuser());
        LockSession session = LockSession.open(ConnectionSource.of(dataSource), SETTINGS);
        try {
            for (int round = 0; round < 10; round++) {
                session.check();
            }
            return Integer.parseInt(Sql.text(lent.get(0), "SELECT count(*) FROM pg_catalog.pg_prepared_statements"));
        } finally {
            session.abort();
        }
    }

    @Test
    @DisplayName("X22: a transaction lock is exclusive also behind a pooler that shares backends between transactions")
    void transactionLock() throws Exception {
        int clients = 4;
        int transactions = 12;
        try (PgBouncer pooler = pooler(PoolMode.TRANSACTION, true, 3);
                Connection observer = SERVER.connect(DATABASE)) {
            Sql.execute(observer, "DROP TABLE IF EXISTS counter");
            Sql.execute(observer, "CREATE TABLE counter AS SELECT 0 AS n");
            List<Future<Integer>> traffic = traffic(pooler, 2);
            PGSimpleDataSource dataSource = new PGSimpleDataSource();
            dataSource.setUrl(pooler.url(DATABASE, Map.of("user", SERVER.superuser(), "prepareThreshold", "0")));
            AdvisoryLocks locks = AdvisoryLocks.on(dataSource);
            List<Future<Integer>> counts = new ArrayList<>();
            for (int i = 0; i < clients; i++) {
                counts.add(executor.submit(() -> {
                    for (int n = 0; n < transactions; n++) {
                        locks.runInTransaction(KEY, Duration.ofSeconds(30), PoolerTest::increment);
                    }
                    return transactions;
                }));
            }
            for (Future<Integer> count : counts) {
                assertThat(count.get(40, TimeUnit.SECONDS)).isEqualTo(transactions);
            }
            over.set(true);
            for (Future<Integer> client : traffic) {
                assertThat(client.get(30, TimeUnit.SECONDS)).isPositive();
            }
            assertThat(Sql.text(observer, "SELECT n FROM counter")).isEqualTo(Integer.toString(clients * transactions));
            assertThat(TABLE.advisoryRows()).isEmpty();
        }
    }

    /** What PgBouncer is told of named statements; one before 1.21 knows nothing of them. */
    static Stream<Map<String, String>> settingsForNamedStatements() {
        return PgBouncer.keepsNamedStatements()
                ? Stream.of(Map.of("max_prepared_statements", "0"), Map.of("max_prepared_statements", "200"))
                : Stream.of(Map.of());
    }

    @ParameterizedTest
    @MethodSource("settingsForNamedStatements")
    @DisplayName(
            "R32: 2,000 transaction locks from 8 threads, by a driver as it comes, behind a pooler in transaction mode")
    void preparedStatementsOfTheDriver(Map<String, String> settings) throws Exception {
        int threads = 8;
        int calls = 250;
        PgBouncer.Builder builder = PgBouncer.before(SERVER)
                .poolMode(PoolMode.TRANSACTION)
                .serverRoundRobin(true)
                .poolSize(4);
        settings.forEach(builder::setting);
        try (PgBouncer pooler = builder.launch();
                Connection observer = SERVER.connect(DATABASE)) {
            Sql.execute(observer, "DROP TABLE IF EXISTS written");
            Sql.execute(observer, "CREATE TABLE written (thread int, call int)");
            HikariConfig config = new HikariConfig();
            config.setJdbcUrl(pooler.url(DATABASE, Map.of("user", SERVER.superuser())));
            config.setMaximumPoolSize(threads);
            try (HikariDataSource pool = new HikariDataSource(config)) {
                AdvisoryLocks locks = AdvisoryLocks.on(pool);
                List<Future<Integer>> errors = new ArrayList<>();
                for (int thread = 0; thread < threads; thread++) {
                    LockKey key = LockKey.of(92, thread);
                    errors.add(executor.submit(() -> {
                        int failed = 0;
                        for (int call = 0; call < calls; call++) {
                            int n = call;
                            try {
                                locks.tryRunInTransaction(key, connection -> insert(connection, key, n));
                            } catch (SQLException e) {
                                failed++;
                            }
                        }
                        return failed;
                    }));
                }
                for (Future<Integer> error : errors) {
                    assertThat(error.get(55, TimeUnit.SECONDS)).isZero();
                }
                assertThat(Sql.text(observer, "SELECT count(*) FROM written")).isEqualTo("2000");
            }
        }
    }

    private static boolean insert(Connection connection, LockKey key, int call) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO written VALUES (?, ?)")) {
            statement.setLong(1, key.bits() & 0xff);
            statement.setInt(2, call);
            return statement.executeUpdate() == 1;
        }
    }

    /** Loses an update unless it is alone. */
    private static boolean increment(Connection connection) throws SQLException {
        String n = Sql.text(connection, "SELECT n FROM counter");
        Sql.execute(connection, "SELECT pg_sleep(0.002)");
        Sql.execute(connection, "UPDATE counter SET n = " + n + " + 1");
        return true;
    }

    private static PgBouncer pooler(PoolMode mode, boolean roundRobin, int poolSize) {
        return PgBouncer.before(SERVER)
                .poolMode(mode)
                .serverRoundRobin(roundRobin)
                .poolSize(poolSize)
                .launch();
    }

    private static ConnectionSource direct() {
        return ConnectionSource.of(SERVER.url(DATABASE), SERVER.superuser(), "");
    }

    private static Connection client(PgBouncer pooler) throws SQLException {
        return DriverManager.getConnection(
                pooler.url(DATABASE, Map.of("user", SERVER.superuser(), "prepareThreshold", "0")));
    }

    /** Other clients of the pooler, which count their statements until it is over. */
    private List<Future<Integer>> traffic(PgBouncer pooler, int clients) throws SQLException {
        List<Future<Integer>> traffic = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            Connection client = client(pooler);
            traffic.add(executor.submit(() -> {
                int statements = 0;
                try (client) {
                    do {
                        Sql.execute(client, "SELECT pg_sleep(0.001)");
                        statements++;
                    } while (!over.get());
                }
                return statements;
            }));
        }
        return traffic;
    }
}
