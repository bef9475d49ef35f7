package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.ElectorProcess.Led;
import dev.pgleader.lock.Credentials;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a flood of notifications, which every role may send, does to elections with the default options. */
@Timeout(180)
class FloodedElectorsTest {

    private static final String DATABASE = "flooded";
    private static final String STRANGER = "flooding_stranger";

    /** A retry, a second, and how slow a loaded machine is. */
    private static final Duration BOUND =
            ElectorOptions.defaults().retryInterval().plusSeconds(1).plusSeconds(20);

    private final PostgresServer server = PostgresServer.shared();
    private final long bits = freshKeyBits();

    @Test
    @DisplayName("R03: 300 MB of notifications end no elector with a heap of 64 MB, and soon somebody leads again")
    void flood() throws Exception {
        server.createDatabase(DATABASE);
        server.createRole(STRANGER, "");
        try (JavaProcess one = start("one");
                JavaProcess other = start("other")) {
            await().atMost(PATIENCE).until(() -> !led(one, other).isEmpty());
            try (Connection stranger = server.connect(DATABASE, STRANGER, "")) {
                Sql.execute(
                        stranger,
                        "SELECT count(pg_notify('pgleader', n || repeat('x', 7900))) FROM generate_series(1, 40000) AS n");
            }
            long flooded = System.nanoTime();
            List<Led> before = led(one, other);
            await().atMost(PATIENCE).until(() -> led(one, other).size() > before.size());
            List<Led> after = led(one, other);
            Duration back = Duration.ofNanos(after.get(before.size()).from()
                    - after.get(before.size() - 1).to());
            System.out.println("nobody led for " + back.toMillis() + " ms");
            assertThat(back).isBetween(Duration.ZERO, BOUND);
            await().atMost(PATIENCE).until(() -> last(one, other).to() - flooded > BOUND.toNanos() / 4);
            assertThat(List.of(one.isAlive(), other.isAlive())).as("both live").containsOnly(true);
        }
    }

    private JavaProcess start(String id) {
        Credentials superuser = new Credentials(server.superuser(), server.superuserPassword());
        ElectorOptions options = ElectorOptions.defaults().toBuilder()
                .takeoverDelay(TakeoverDelay.NONE)
                .build();
        return ElectorProcess.describe(server.url(DATABASE), superuser, bits, id, options)
                .jvmOption("-Xmx64m")
                .jvmOption("-XX:+ExitOnOutOfMemoryError")
                .start();
    }

    private static List<Led> led(JavaProcess... processes) {
        return Stream.of(processes)
                .flatMap(process -> ElectorProcess.led(process).stream())
                .sorted(Comparator.comparingLong(Led::from))
                .toList();
    }

    private static Led last(JavaProcess... processes) {
        List<Led> all = led(processes);
        return all.get(all.size() - 1);
    }
}
