package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.postgresql.ds.PGSimpleDataSource;

/** A role that may only connect sends more notifications than fit into the heap of those that listen. */
@Timeout(120)
class FloodTest {

    private static final Duration PATIENCE = Duration.ofSeconds(40);

    @AutoClose
    private static final PostgresServer SERVER = PostgresServer.builder().tls().launch();

    @BeforeAll
    static void createRole() throws SQLException {
        SERVER.createRole("flooder", "");
    }

    @ParameterizedTest
    @CsvSource({
        "disable, false, 7900",
        "require, false, 7900",
        "disable, true, 7900",
        "disable, false, 1",
        "disable, true, 1"
    })
    @DisplayName(
            "R03: 40,000 long or 1,500,000 short notifications in one statement fill no heap of 64 MB, and there is a session afterwards")
    void flooded(String sslMode, boolean overDataSource, int length) throws Exception {
        String url = SERVER.url(PostgresServer.DEFAULT_DATABASE, Map.of("sslmode", sslMode));
        try (JavaProcess process = JavaProcess.builder(FloodedProcess.class)
                .jvmOption("-Xmx64m")
                .jvmOption("-XX:+ExitOnOutOfMemoryError")
                .arguments(url, SERVER.superuser(), SERVER.superuserPassword(), Boolean.toString(overDataSource))
                .start()) {
            process.awaitLine("ready", PATIENCE);
            try (Connection flooder = SERVER.connect(PostgresServer.DEFAULT_DATABASE, "flooder", "")) {
                Sql.execute(
                        flooder,
                        "SELECT count(pg_notify('pgleader', n || repeat('x', %d))) FROM generate_series(1, %d) AS n"
                                .formatted(length, length > 1_000 ? 40_000 : 1_500_000));
                Sql.execute(flooder, "NOTIFY pgleader, 'after the flood'");
            }
            JavaProcess.Line lost = process.awaitLine("lost", PATIENCE);
            assertThat(lost.text()).contains("floods the database");
            process.awaitLineAfter(lost, line -> line.equals("ready"), PATIENCE);
            try (Connection flooder = SERVER.connect(PostgresServer.DEFAULT_DATABASE, "flooder", "")) {
                Sql.execute(flooder, "NOTIFY pgleader, 'and what is now?'");
            }
            process.awaitLine("heard and what is now\\?", PATIENCE);
        }
    }

    /** Holds a lock, checks it twice a second, listens, and goes on with a new session when it loses one. */
    static final class FloodedProcess {

        private FloodedProcess() {}

        public static void main(String[] arguments) throws Exception {
            JavaProcess.exitWithParent();
            PGSimpleDataSource dataSource = new PGSimpleDataSource();
            dataSource.setUrl(arguments[0]);
            dataSource.setUser(arguments[1]);
            dataSource.setPassword(arguments[2]);
            ConnectionSource source = Boolean.parseBoolean(arguments[3])
                    ? ConnectionSource.of(dataSource)
                    : ConnectionSource.of(arguments[0], arguments[1], arguments[2]);
            Settings settings = new Settings("flooded", Duration.ofSeconds(20), Duration.ofSeconds(5), true);
            while (true) {
                LockSession session = LockSession.open(source, settings);
                try {
                    session.attempt(List.of(LockKey.of(1)));
                    System.out.println("ready");
                    serve(session);
                } catch (LockSessionException e) {
                    System.out.println("lost " + e.getMessage());
                    session.abort();
                }
            }
        }

        private static void serve(LockSession session) throws LockSessionException {
            long checked = System.nanoTime();
            while (true) {
                for (LockSession.Notification heard : session.awaitNotifications(TimeUnit.MILLISECONDS.toNanos(500))) {
                    if (heard.payload().length() > 8) {
                        System.out.println("heard " + heard.payload());
                    }
                }
                if (System.nanoTime() - checked > TimeUnit.MILLISECONDS.toNanos(500)) {
                    session.check();
                    checked = System.nanoTime();
                }
            }
        }
    }
}
