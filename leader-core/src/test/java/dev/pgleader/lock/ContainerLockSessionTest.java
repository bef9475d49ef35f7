package dev.pgleader.lock;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.PostgresServer;
import java.net.InetSocketAddress;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.testcontainers.postgresql.PostgreSQLContainer;

/** The contract over connections that are opened directly, to the server that Docker users run. */
@Tag("testcontainers")
class ContainerLockSessionTest extends PostgresLockSessionContract {

    private static final PostgreSQLContainer POSTGRES = new PostgreSQLContainer("postgres:18");

    private final ConnectionSource source = ConnectionSource.of(
            PostgresServer.url(network.port(), POSTGRES.getDatabaseName(), Map.of()),
            POSTGRES.getUsername(),
            POSTGRES.getPassword());

    @BeforeAll
    static void start() {
        POSTGRES.start();
    }

    @AfterAll
    static void stop() {
        POSTGRES.stop();
    }

    @Override
    InetSocketAddress server() {
        return new InetSocketAddress(POSTGRES.getHost(), POSTGRES.getFirstMappedPort());
    }

    @Override
    Connection connect() throws SQLException {
        return DriverManager.getConnection(POSTGRES.getJdbcUrl(), POSTGRES.getUsername(), POSTGRES.getPassword());
    }

    @Override
    LockSession openSession(Settings settings) throws Exception {
        return LockSession.open(source, settings);
    }

    @Override
    Duration lossIsNoticedWithin() {
        return Duration.ofSeconds(1);
    }
}
