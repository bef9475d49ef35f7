package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Signal;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.postgresql.ds.PGSimpleDataSource;

/**
 * A PostgreSQL server of one test class's own ({@link org.junit.jupiter.api.AutoClose}), with an observer's session that is no part
 * of what is tested.
 */
final class TestServer implements AutoCloseable {

    private final PostgresServer postgres;
    private final Connection observer;

    private TestServer(PostgresServer postgres) throws SQLException {
        this.postgres = postgres;
        this.observer = dataSource().getConnection();
    }

    static TestServer start() {
        PostgresServer postgres = PostgresServer.builder()
                .setting("max_connections", "60")
                .setting("max_locks_per_transaction", "10")
                .setting("max_prepared_transactions", "2")
                .launch();
        try {
            return new TestServer(postgres);
        } catch (SQLException e) {
            postgres.close();
            throw new IllegalStateException(e);
        }
    }

    /** Opens a connection each time it is asked. */
    DataSource dataSource() {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(url());
        return dataSource;
    }

    /** With the superuser's name in it. */
    String url() {
        return postgres.url(PostgresServer.DEFAULT_DATABASE, Map.of("user", postgres.superuser()));
    }

    HikariDataSource pool(int size) {
        return pool(size, config -> {});
    }

    HikariDataSource pool(int size, Consumer<HikariConfig> configuration) {
        HikariConfig config = new HikariConfig();
        config.setDataSource(dataSource());
        config.setMaximumPoolSize(size);
        configuration.accept(config);
        return new HikariDataSource(config);
    }

    /** A pool that knows nothing: it hands out the same connection again and again, and resets nothing. */
    static DataSource handingOut(Supplier<Connection> connection) {
        Connection handle = (Connection) Proxy.newProxyInstance(
                TestServer.class.getClassLoader(), new Class<?>[] {Connection.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("close")) {
                        return null;
                    }
                    try {
                        return method.invoke(connection.get(), arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
        return (DataSource) Proxy.newProxyInstance(
                TestServer.class.getClassLoader(),
                new Class<?>[] {DataSource.class},
                (proxy, method, arguments) -> method.getName().equals("isWrapperFor") ? (Object) false : handle);
    }

    /** The processes that hold this key, in whichever mode. */
    synchronized List<Integer> holders(LockKey key) throws SQLException {
        try (PreparedStatement statement = observer.prepareStatement("select pid from pg_locks where"
                + " locktype = 'advisory' and granted and objsubid = ?"
                + " and ((classid::bigint << 32) | objid::bigint) = ?"
                + " and database = (select oid from pg_database where datname = current_database())")) {
            statement.setInt(1, key.objsubid());
            statement.setLong(2, key.bits());
            List<Integer> pids = new ArrayList<>();
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    pids.add(rows.getInt(1));
                }
            }
            return pids;
        }
    }

    /** Whether a session of somebody else could take the key now. */
    boolean isFree(LockKey key) throws SQLException {
        String arguments =
                key.objsubid() == 1 ? String.valueOf(key.bits()) : (int) (key.bits() >> 32) + "," + (int) key.bits();
        try (Connection other = dataSource().getConnection()) {
            // Freed at once: the server notices only some time later that this session is gone.
            return queryBoolean(
                    other,
                    "select case when pg_try_advisory_lock(%1$s) then pg_advisory_unlock(%1$s) else false end"
                            .formatted(arguments));
        }
    }

    /** One value, as text, of the row of a backend in {@code pg_stat_activity}; empty for null. */
    synchronized List<String> activity(int pid, String expression) throws SQLException {
        return queryStrings(
                observer, "select coalesce((" + expression + ")::text, '') from pg_stat_activity where pid = " + pid);
    }

    synchronized long count(String sql) throws SQLException {
        return Long.parseLong(queryStrings(observer, sql).get(0));
    }

    synchronized void execute(String sql) throws SQLException {
        executeOn(observer, sql);
    }

    /** Ends a session and waits for its end. */
    synchronized void terminate(int pid) throws SQLException {
        assertThat(queryBoolean(observer, "select pg_terminate_backend(" + pid + ", 5000)"))
                .isTrue();
    }

    /** Borrows many times; also that the backend goes, as soon as it sees its client gone, so that nothing could ever hand it out. */
    void assertNeverHandedOut(DataSource pool, int pid) throws SQLException {
        for (int borrowed = 0; borrowed < 20; borrowed++) {
            try (Connection connection = pool.getConnection()) {
                assertThat(backendPid(connection)).isNotEqualTo(pid);
            }
        }
        await().untilAsserted(() -> assertThat(activity(pid, "state")).isEmpty());
    }

    /** Stops a server process, which so looks like a host that vanished, until the result is closed. */
    static Frozen freeze(int pid) {
        return new Frozen(pid);
    }

    static int backendPid(Connection connection) throws SQLException {
        return Integer.parseInt(
                queryStrings(connection, "select pg_backend_pid()").get(0));
    }

    static void executeOn(Connection connection, String sql) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.execute();
        }
    }

    static boolean queryBoolean(Connection connection, String sql) throws SQLException {
        return queryStrings(connection, sql).get(0).equals("t");
    }

    static List<String> queryStrings(Connection connection, String sql) throws SQLException {
        List<String> values = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement(sql);
                ResultSet rows = statement.executeQuery()) {
            while (rows.next()) {
                values.add(rows.getString(1));
            }
        }
        return values;
    }

    @Override
    public void close() throws SQLException {
        observer.close();
        postgres.close();
    }

    static final class Frozen implements AutoCloseable {

        private final int pid;
        private final long startNanos;

        private Frozen(int pid) {
            this.pid = pid;
            Signal.STOP.send(pid);
            this.startNanos = System.nanoTime();
        }

        Duration age() {
            return Duration.ofNanos(System.nanoTime() - startNanos);
        }

        @Override
        public void close() {
            Signal.CONT.send(pid);
        }
    }
}
