package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.freshKey;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.PostgresServer;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.time.Duration;
import java.util.Optional;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.postgresql.ds.PGSimpleDataSource;

/** A server that says that it is older than it is. */
@Timeout(300)
class UnsupportedServerTest {

    private static final PostgresServer SERVER = PostgresServer.shared();

    private volatile int majorVersion;

    /** An object of which one method is another one's. */
    @FunctionalInterface
    private interface Instead {
        Object answer(String method, Object original);
    }

    private static <T> T changed(Class<T> type, T original, Instead instead) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
                    try {
                        return instead.answer(method.getName(), method.invoke(original, arguments));
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                }));
    }

    private ConnectionSource source() {
        PGSimpleDataSource real = new PGSimpleDataSource();
        real.setUrl(SERVER.url(PostgresServer.DEFAULT_DATABASE));
        real.setUser(SERVER.superuser());
        real.setPassword(SERVER.superuserPassword());
        return ConnectionSource.of(changed(
                DataSource.class,
                real,
                (method, original) -> original instanceof Connection connection ? changed(connection) : original));
    }

    private Connection changed(Connection connection) {
        return changed(
                Connection.class,
                connection,
                (method, original) -> original instanceof DatabaseMetaData data ? changed(data) : original);
    }

    private DatabaseMetaData changed(DatabaseMetaData data) {
        return changed(DatabaseMetaData.class, data, (method, original) -> switch (method) {
            case "getDatabaseMajorVersion" -> majorVersion;
            case "getDatabaseProductVersion" -> majorVersion + ".7";
            default -> original;
        });
    }

    @Test
    void isRefusedByASession() throws Exception {
        LockSession.Settings settings =
                new LockSession.Settings("old", Duration.ofSeconds(20), Duration.ofSeconds(5), true);
        majorVersion = 13;
        assertThatExceptionOfType(LockSessionException.class)
                .isThrownBy(() -> LockSession.open(source(), settings))
                .withMessageContaining("PostgreSQL 13.7")
                .withMessageContaining("PostgreSQL 14")
                .satisfies(refused -> assertThat(refused.fault()).isEqualTo(Fault.UNSUPPORTED_SERVER));
        majorVersion = 14;
        LockSession oldest = LockSession.open(source(), settings);
        assertThat(oldest.facts().serverVersion()).isEqualTo("14.7");
        oldest.close();
    }

    @Test
    void isNotLedAndTheStatusSaysWhyUntilItIsUpgraded() {
        majorVersion = 13;
        try (TestCandidate candidate = TestCandidate.start("upgrading", source(), freshKey())) {
            LeaderStatus.Problem problem = await().atMost(PATIENCE)
                    .until(() -> candidate.elector().status().problem(), Optional::isPresent)
                    .orElseThrow();
            assertThat(problem.fault()).contains(Fault.UNSUPPORTED_SERVER);
            assertThat(problem.message()).contains("PostgreSQL 13.7");
            assertThat(candidate.elector().isLeader()).isFalse();
            assertThat(candidate.events()).isEmpty();
            majorVersion = 14;
            candidate.awaitElected(1);
            assertThat(candidate.elector().status().problem()).isEmpty();
        }
    }
}
