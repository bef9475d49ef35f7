package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.sql.DataSource;

/** DataSources as users have them, and as they better hadn't. */
final class TestDataSources {

    private TestDataSources() {}

    static HikariDataSource hikari(PostgresServer server, int size) {
        return hikari(server, size, config -> {});
    }

    static HikariDataSource hikari(PostgresServer server, int size, Consumer<HikariConfig> configuration) {
        HikariConfig config = new HikariConfig();
        config.setDataSource(server.dataSource());
        config.setMaximumPoolSize(size);
        configuration.accept(config);
        return new HikariDataSource(config);
    }

    /** Lends these connections themselves: who closes one has closed it. */
    static DataSource lending(Callable<Connection> connections) {
        return proxy(
                DataSource.class,
                (proxy, method, arguments) -> method.getName().equals("getConnection") ? connections.call() : false);
    }

    /** A pool that knows nothing: it hands out the same connection again and again, and resets nothing. */
    static DataSource careless(Supplier<Connection> connection) {
        Connection handle = proxy(Connection.class, (proxy, method, arguments) -> {
            if (method.getName().equals("close")) {
                return null;
            }
            try {
                return method.invoke(connection.get(), arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        });
        return lending(() -> handle);
    }

    /** Borrows many times; also that the backend goes, as soon as it sees its client gone, so that nothing could ever hand it out. */
    static void assertNeverHandedOut(LockTable locks, DataSource pool, int pid) throws SQLException {
        for (int borrowed = 0; borrowed < 20; borrowed++) {
            try (Connection connection = pool.getConnection()) {
                assertThat(Sql.backendPid(connection)).isNotEqualTo(pid);
            }
        }
        await().until(() -> locks.session(pid).isEmpty());
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(
                Proxy.newProxyInstance(TestDataSources.class.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
