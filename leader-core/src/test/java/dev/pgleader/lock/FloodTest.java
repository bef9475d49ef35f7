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
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A role that may only connect sends more notifications than fit into the heap of those that listen. */
@Timeout(120)
class FloodTest {

    private static final Duration PATIENCE = Duration.ofSeconds(40);

    private static PostgresServer server;

    @BeforeAll
    static void launch() throws SQLException {
        server = PostgresServer.builder().tls().launch();
        server.createRole("flooder", "");
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @ParameterizedTest
    @ValueSource(strings = {"disable", "require"})
    @DisplayName(
            "R03: 300 MB of notifications in one statement fill no heap of 64 MB, and there is a session afterwards")
    void flooded(String sslMode) throws Exception {
        String url = server.url(PostgresServer.DEFAULT_DATABASE, Map.of("sslmode", sslMode));
        try (JavaProcess process = JavaProcess.builder(FloodedProcess.class)
                .jvmOption("-Xmx64m")
                .jvmOption("-XX:+ExitOnOutOfMemoryError")
                .arguments(url, server.superuser(), server.superuserPassword())
                .start()) {
            process.awaitLine("ready", PATIENCE);
            try (Connection flooder = server.connect(PostgresServer.DEFAULT_DATABASE, "flooder", "")) {
                Sql.execute(
                        flooder,
                        "SELECT count(pg_notify('pgleader', n || repeat('x', 7900))) FROM generate_series(1, 40000) AS n");
                Sql.execute(flooder, "NOTIFY pgleader, 'after the flood'");
            }
            JavaProcess.Line lost = process.awaitLine("lost", PATIENCE);
            assertThat(lost.text()).contains("more than 8 MiB");
            process.awaitLineAfter(lost, line -> line.equals("ready"), PATIENCE);
            try (Connection flooder = server.connect(PostgresServer.DEFAULT_DATABASE, "flooder", "")) {
                Sql.execute(flooder, "NOTIFY pgleader, 'and now?'");
            }
            process.awaitLine("heard and now\\?", PATIENCE);
        }
    }

    /** Holds a lock, checks it twice a second, listens, and goes on with a new session when it loses one. */
    static final class FloodedProcess {

        private FloodedProcess() {}

        public static void main(String[] arguments) throws Exception {
            JavaProcess.exitWithParent();
            ConnectionSource source = ConnectionSource.of(arguments[0], arguments[1], arguments[2]);
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
                    System.out.println("heard " + heard.payload());
                }
                if (System.nanoTime() - checked > TimeUnit.MILLISECONDS.toNanos(500)) {
                    session.check();
                    checked = System.nanoTime();
                }
            }
        }
    }
}
