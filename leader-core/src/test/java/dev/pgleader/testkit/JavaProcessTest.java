package dev.pgleader.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.testkit.JavaProcess.Line;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

class JavaProcessTest {

    private static final Duration SOON = Duration.ofSeconds(20);

    /** Says what it was started with, then repeats what it is told. */
    static final class Echo {

        public static void main(String[] arguments) throws InterruptedException {
            JavaProcess.exitWithParent(line -> System.out.println("echo " + line));
            System.err.println("a complaint");
            System.out.println(String.join(" ", arguments) + " " + System.getProperty("pgleader.echo") + " "
                    + System.getenv("PGLEADER_ECHO"));
            new CountDownLatch(1).await();
        }
    }

    /** Starts another JVM and a server, and freezes both. */
    static final class Parent {

        public static void main(String[] arguments) throws Exception {
            JavaProcess.exitWithParent();
            JavaProcess child = JavaProcess.start(Echo.class);
            child.awaitLine("null", SOON);
            child.pause();
            PostgresServer server = PostgresServer.launch();
            String data = dataDirectory(server);
            server.freeze();
            System.out.println("started " + child.pid() + " " + data);
            new CountDownLatch(1).await();
        }

        private static String dataDirectory(PostgresServer server) throws SQLException {
            try (Connection connection = server.connect()) {
                return Objects.requireNonNull(Sql.text(connection, "SHOW data_directory"));
            }
        }
    }

    @Test
    void passesArgumentsPropertiesEnvironmentAndLines() {
        try (JavaProcess echo = JavaProcess.builder(Echo.class)
                .arguments("one", "two")
                .systemProperty("pgleader.echo", "three")
                .environment("PGLEADER_ECHO", "four")
                .start()) {
            long before = System.nanoTime();
            Line first = echo.awaitLine("^one", SOON);
            assertThat(first.text()).isEqualTo("one two three four");
            assertThat(first.arrivalNanos() - before).isBetween(0L, SOON.toNanos());
            echo.sendLine("five");
            assertThat(echo.awaitLineAfter(first, line -> true, SOON).text()).isEqualTo("echo five");
        }
    }

    @Test
    void tellsBothOutputsWhenALineIsMissing() {
        try (JavaProcess echo = JavaProcess.start(Echo.class)) {
            echo.awaitLine("null", SOON);
            assertThatThrownBy(() -> echo.awaitLine("never", Duration.ofMillis(50)))
                    .isInstanceOf(AssertionError.class)
                    .hasMessageContaining("null null")
                    .hasMessageContaining("a complaint");
        }
    }

    @Test
    void saysNothingWhilePausedAndGoesOnAfterwards() {
        try (JavaProcess echo = JavaProcess.start(Echo.class)) {
            Line started = echo.awaitLine("null", SOON);
            echo.pause();
            echo.sendLine("hello");
            assertThatThrownBy(() -> echo.awaitLineAfter(started, line -> true, Duration.ofMillis(300)))
                    .isInstanceOf(AssertionError.class);
            echo.resume();
            assertThat(echo.awaitLineAfter(started, line -> true, SOON).text()).isEqualTo("echo hello");
        }
    }

    @Test
    void endsBySignal() {
        try (JavaProcess stopped = JavaProcess.start(Echo.class);
                JavaProcess killed = JavaProcess.start(Echo.class)) {
            stopped.awaitLine("null", SOON);
            stopped.stop();
            assertThat(stopped.exitCode(SOON)).isEqualTo(128 + 15);
            killed.awaitLine("null", SOON);
            killed.pause();
            killed.kill();
            assertThat(killed.exitCode(SOON)).isEqualTo(128 + 9);
            assertThat(killed.isAlive()).isFalse();
        }
    }

    @Test
    void nothingOutlivesAKilledParentNotEvenWhatIsFrozen() throws IOException {
        try (JavaProcess parent = JavaProcess.start(Parent.class)) {
            String[] started = parent.awaitLine("started", SOON).text().split(" ", -1);
            long child = Long.parseLong(started[1]);
            Path data = Path.of(started[2]);
            long postmaster = Long.parseLong(
                    Files.readAllLines(data.resolve("postmaster.pid")).get(0));
            assertThat(ProcessHandle.of(child)).isPresent();
            assertThat(ProcessHandle.of(postmaster)).isPresent();
            parent.kill();
            await().untilAsserted(() -> {
                assertThat(ProcessHandle.of(child)).isEmpty();
                assertThat(ProcessHandle.of(postmaster)).isEmpty();
                assertThat(data.getParent()).doesNotExist();
            });
        }
    }
}
