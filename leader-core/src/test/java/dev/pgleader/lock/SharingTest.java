package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import javax.sql.DataSource;
import net.ttddyy.dsproxy.support.ProxyDataSourceBuilder;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.event.Level;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.datasource.TransactionAwareDataSourceProxy;
import org.springframework.transaction.support.TransactionTemplate;

/** DataSources that would let somebody else use the session of a lock. */
class SharingTest {

    private static final LockKey KEY = LockKey.named("sharing-test");
    private static final Settings SETTINGS =
            new Settings("sharing", Duration.ofSeconds(20), Duration.ofSeconds(5), true);

    @AutoClose
    private static final PostgresServer SERVER = PostgresServer.launch();

    @BeforeAll
    static void createTable() throws Exception {
        SERVER.execute("create table written (n int)");
    }

    private static void assertRefused(DataSource dataSource, String reason) {
        AdvisoryLocks locks = AdvisoryLocks.on(dataSource);
        for (ThrowingRun run : List.<ThrowingRun>of(
                () -> locks.tryRunLocked(KEY, connection -> true),
                () -> locks.tryRunInTransaction(KEY, connection -> true),
                () -> locks.acquire(KEY, Duration.ZERO))) {
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(run::run)
                    .withMessageContaining(reason)
                    .withMessageContaining("Use the plain DataSource of a pool");
        }
        assertThatExceptionOfType(LockSessionException.class)
                .isThrownBy(() -> LockSession.open(ConnectionSource.of(dataSource), SETTINGS))
                .withMessageContaining(reason)
                .withMessageContaining("Use the plain DataSource of a pool");
    }

    private interface ThrowingRun {
        void run() throws SQLException, InterruptedException;
    }

    @DisplayName("R35: the connection of the caller's Spring transaction is refused, and the work isn't run")
    @ParameterizedTest
    @ValueSource(strings = {"plain", "delegating", "datasource-proxy", "hidden"})
    void ofASpringTransaction(String around) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 2)) {
            DataSource aware = new TransactionAwareDataSourceProxy(pool);
            DataSource wrapped = switch (around) {
                case "delegating" -> new DelegatingDataSource(aware);
                case "datasource-proxy" -> ProxyDataSourceBuilder.create(aware).build();
                case "hidden" -> hiding(aware);
                default -> aware;
            };
            new TransactionTemplate(new DataSourceTransactionManager(pool)).executeWithoutResult(status -> {
                assertRefused(wrapped, "hands out the connection of the Spring transaction");
                status.setRollbackOnly();
            });
            // Outside of a transaction it's the pool's.
            assertThat(AdvisoryLocks.on(wrapped)
                            .tryRunInTransaction(KEY, connection -> {
                                Sql.execute(connection, "insert into written values (1)");
                                return true;
                            })
                            .wasRun())
                    .isTrue();
            assertThat(pool.getHikariPoolMXBean().getActiveConnections()).isZero();
        }
    }

    /** A wrapper of somebody's own, which doesn't tell what is in it. */
    private static DataSource hiding(DataSource inner) {
        return (DataSource) Proxy.newProxyInstance(
                SharingTest.class.getClassLoader(),
                new Class<?>[] {DataSource.class},
                (proxy, method, arguments) -> switch (method.getName()) {
                    case "isWrapperFor" -> false;
                    case "unwrap" -> throw new SQLException("nothing inside");
                    default -> {
                        try {
                            yield method.invoke(inner, arguments);
                        } catch (InvocationTargetException e) {
                            throw e.getCause();
                        }
                    }
                });
    }

    @DisplayName("R35: the plain pool is taken inside of a Spring transaction, and its transaction is another one")
    @Test
    void plainPoolInsideOfASpringTransaction() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 2)) {
            new TransactionTemplate(new DataSourceTransactionManager(pool))
                    .executeWithoutResult(status -> assertThat(ran(pool)).isTrue());
        }
    }

    private static boolean ran(DataSource dataSource) {
        try {
            return AdvisoryLocks.on(dataSource)
                    .tryRunInTransaction(KEY, connection -> true)
                    .wasRun();
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    @DisplayName("N05: a DataSource that lends all the same connection is refused")
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void singleConnection(boolean suppressClose) throws Exception {
        try (Connection only = SERVER.dataSource().getConnection()) {
            SingleConnectionDataSource single = new SingleConnectionDataSource(only, suppressClose);
            assertRefused(single, "one and the same connection");
            assertRefused(new DelegatingDataSource(single), "one and the same connection");
            Sql.execute(only, "select 1");
        }
    }

    @DisplayName("N05: a connection that is lent a second time while a lock is held on it is refused")
    @Test
    void lentTwice() throws Exception {
        try (Connection only = SERVER.dataSource().getConnection()) {
            DataSource careless = TestDataSources.careless(() -> only);
            try (HeldLock lock = AdvisoryLocks.on(careless).acquire(KEY, Duration.ZERO)) {
                assertRefused(careless, "handed out one connection twice");
                assertThat(lock.isHeld()).isTrue();
            }
            assertThat(AdvisoryLocks.on(careless)
                            .tryRunLocked(KEY, connection -> true)
                            .wasRun())
                    .isTrue();
        }
    }

    @DisplayName("N05: a DataSource that may lead elsewhere each time is told, once")
    @Test
    void routing() throws Exception {
        DataSource routing = Lender.routing(SERVER.dataSource());
        try (LogCapture log = LogCapture.of(Sharing.class, Level.WARN)) {
            assertThat(ran(routing)).isTrue();
            assertThat(ran(routing)).isTrue();
            assertThat(log.events())
                    .singleElement()
                    .satisfies(event -> assertThat(event.message()).contains("chooses a database for each connection"));
        }
    }

    @DisplayName("R30: a wrapper that can't be unwrapped, whatever it throws, costs no connection")
    @ParameterizedTest
    @ValueSource(strings = {"unchecked", "checked", "null", "error"})
    void notUnwrapped(String how) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1, config -> config.setConnectionTimeout(2_000))) {
            DataSource wrapper = refusingToUnwrap(pool, how);
            for (int attempt = 0; attempt < 3; attempt++) {
                assertThatExceptionOfType(how.equals("error") ? Throwable.class : SQLException.class)
                        .isThrownBy(() -> AdvisoryLocks.on(wrapper).tryRunLocked(KEY, connection -> true))
                        .withMessageContaining(
                                how.equals("error") ? "an error" : "leads to no connection of the PostgreSQL");
                assertThatExceptionOfType(how.equals("error") ? Throwable.class : LockSessionException.class)
                        .isThrownBy(() -> LockSession.open(ConnectionSource.of(wrapper), SETTINGS))
                        .withMessageContaining(
                                how.equals("error") ? "an error" : "leads to no connection of the PostgreSQL");
            }
            assertThat(pool.getHikariPoolMXBean().getActiveConnections()).isZero();
        }
    }

    private static DataSource refusingToUnwrap(DataSource inner, String how) {
        return new DelegatingDataSource(inner) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection handle = inner.getConnection();
                return (Connection) Proxy.newProxyInstance(
                        SharingTest.class.getClassLoader(),
                        new Class<?>[] {Connection.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("unwrap")) {
                                switch (how) {
                                    case "unchecked" -> throw new UnsupportedOperationException("not here");
                                    case "checked" -> throw new SQLException("not here");
                                    case "error" -> throw new AssertionError("an error");
                                    default -> {
                                        return null;
                                    }
                                }
                            }
                            return method.invoke(handle, arguments);
                        });
            }
        };
    }
}
