package dev.pgleader.lock;

import static dev.pgleader.lock.LenderDatabase.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/** Each wrapper around pools other than the one that it has in {@link LenderContractTest}. */
@Timeout(120)
class WrappedPoolTest {

    /** All pairs take minutes. */
    private static final boolean ALL = Boolean.getBoolean("lender.all");

    private static final PostgresServer SERVER = PostgresServer.shared();

    @AutoClose
    private static final LenderDatabase DATABASE = LenderDatabase.create("wrapped_pool");

    private final LockKey key = LockKey.of(ThreadLocalRandom.current().nextLong());

    static Stream<Arguments> pairs() {
        List<Lender> pools = List.of(
                Lender.AGROAL, Lender.C3P0, Lender.DBCP2, Lender.TOMCAT, Lender.TOMCAT_BEFORE_11_0_22, Lender.DRUID);
        return Stream.of(Lender.values())
                .filter(Lender::isWrapper)
                .flatMap(wrapper ->
                        pools.stream().limit(ALL ? pools.size() : 2).map(pool -> Arguments.of(wrapper, pool)));
    }

    @DisplayName("N05: each pool gets its slot back through each wrapper, too")
    @ParameterizedTest(name = "{0} around {1}")
    @MethodSource("pairs")
    void givesSlotsBack(Lender wrapper, Lender pool) throws Exception {
        try (Lender.Open open = wrapper.around(pool, DATABASE.url(), 1)) {
            String settings = LenderDatabase.settings(open);
            LockSession session = LockSession.open(
                    ConnectionSource.of(open.dataSource()),
                    new LockSession.Settings("wrapped", Duration.ofSeconds(20), Duration.ofSeconds(5), true));
            assertThat(session.attempt(List.of(key)).granted()).hasSize(1);
            session.close();
            awaitWhole(open, settings);
            for (Mess mess : messes()) {
                AdvisoryLocks locks = AdvisoryLocks.on(
                        open.dataSource(),
                        mess == Mess.LEAVES_COPY ? Mess.NETWORK_TIMEOUT_OF_BUSY : Duration.ofSeconds(15));
                assertThat(catchThrowable(
                                () -> locks.tryRunLocked(key, connection -> mess.make(SERVER, connection, false))))
                        .satisfiesAnyOf(
                                failure -> assertThat(failure).isNull(),
                                failure -> assertThat(failure).isInstanceOf(LockLostException.class));
                awaitWhole(open, settings);
            }
        }
    }

    /** P6Spy asks each connection that it's lent something, and when that fails it never gives the slot back. */
    @DisplayName("N05: Agroal lends no dead connection to P6Spy")
    @Test
    void nothingDeadIsLentToP6Spy() throws Exception {
        for (int round = 0; round < 30; round++) {
            try (Lender.Open open = Lender.P6SPY.around(Lender.AGROAL, DATABASE.url(), 1)) {
                String settings = LenderDatabase.settings(open);
                LockSession session = LockSession.open(
                        ConnectionSource.of(open.dataSource()),
                        new LockSession.Settings("spied", Duration.ofSeconds(20), Duration.ofSeconds(5), true));
                session.close();
                awaitWhole(open, settings);
            }
        }
    }

    @DisplayName("N05: a dead connection that Agroal lends before it has flushed goes as soon as it comes back")
    @Test
    void lentBeforeTheFlush() throws Exception {
        try (Lender.Open open = Lender.AGROAL.open(DATABASE.url(), 2)) {
            DataSource pool = open.dataSource();
            String settings = LenderDatabase.settings(open);
            AtomicReference<Connection> lent = new AtomicReference<>();
            AtomicInteger idle = new AtomicInteger();
            // As if another thread borrowed in the moment in which the handle is closed.
            DataSource quick = new DelegatingDataSource(pool) {
                @Override
                public Connection getConnection() throws SQLException {
                    Connection used = pool.getConnection();
                    try (Connection other = pool.getConnection()) {
                        idle.set(Sql.backendPid(other));
                    }
                    return closing(used, () -> {
                        Connection other = pool.getConnection();
                        used.close();
                        lent.set(pool.getConnection());
                        other.close();
                    });
                }
            };
            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(quick)
                            .tryRunLocked(key, connection -> Mess.SESSION_IS_ENDED.make(SERVER, connection, false)));
            assertThat(lent.get().isValid(1)).isFalse();
            await().until(() -> DATABASE.table().session(idle.get()).isEmpty());
            lent.get().close();
            await().ignoreExceptions().untilAsserted(() -> DATABASE.assertWhole(open, 2, settings, key));
        }
    }

    private interface Close {
        void run() throws SQLException;
    }

    private static Connection closing(Connection connection, Close close) {
        return (Connection) Proxy.newProxyInstance(
                WrappedPoolTest.class.getClassLoader(),
                new Class<?>[] {Connection.class},
                (proxy, method, arguments) -> {
                    if (method.getName().equals("close")) {
                        close.run();
                        return null;
                    }
                    return method.invoke(connection, arguments);
                });
    }

    private static List<Mess> messes() {
        List<Mess> messes = new ArrayList<>(List.of(Mess.SESSION_IS_ENDED, Mess.LEAVES_SETTINGS));
        if (ALL) {
            messes.add(Mess.LEAVES_COPY);
        }
        return messes;
    }

    /** Agroal clears up behind a wrapper a moment later. */
    private void awaitWhole(Lender.Open open, String settings) {
        await().ignoreExceptions().untilAsserted(() -> DATABASE.assertWhole(open, 1, settings, key));
    }
}
