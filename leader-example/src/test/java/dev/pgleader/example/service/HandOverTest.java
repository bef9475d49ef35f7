package dev.pgleader.example.service;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The service in a process of its own, as it is deployed. */
class HandOverTest {

    @Test
    void onSigtermTheLoopEndsThenTheLockIsFreeAndTheOtherInstanceTakesOver() throws Exception {
        ServiceDatabase database = ServiceDatabase.create("hand_over");
        try (ServiceProcess service =
                new ServiceProcess(Path.of("."), ServiceApplication.class, database.arguments())) {
            service.awaitLine("Relays the outbox in term 1");
            database.execute("INSERT INTO outbox (message) VALUES ('to the first')");
            awaitAllSent(database);
            try (RunningService successor = new RunningService(database)) {
                assertThat(successor.elector().isLeader()).isFalse();

                long begin = System.nanoTime();
                service.handle().destroy(); // SIGTERM
                await("the successor").atMost(ServiceProcess.PATIENCE).until(successor.elector()::isLeader);
                Duration handOver = Duration.ofNanos(System.nanoTime() - begin);
                System.out.println("The service handed over within " + handOver.toMillis() + " ms of SIGTERM");

                database.execute("INSERT INTO outbox (message) VALUES ('to the second')");
                awaitAllSent(database);
                // 128 + SIGTERM
                assertThat(service.awaitEnd()).isEqualTo(143);
                service.awaitLine("[orders] Closed");
                List<String> lines = service.lines();
                assertThat(lines).anyMatch(line -> line.contains("Revoked, term 1, CLOSED"));
                assertThat(position(lines, "No longer relays the outbox in term 1"))
                        .as("in %s", lines)
                        .isBetween(0, position(lines, "[orders] Closed"));
                assertThat(lines).noneMatch(line -> line.contains("ERROR"));
                List<String> senders = database.query("SELECT sent_by FROM outbox ORDER BY id");
                assertThat(senders.get(1)).isEqualTo(successor.instance()).isNotEqualTo(senders.get(0));
                assertThat(database.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'pg-leader/"
                                + senders.get(0) + "'"))
                        .isEmpty();
            }
        }
    }

    private static int position(List<String> lines, String part) {
        return IntStream.range(0, lines.size())
                .filter(index -> lines.get(index).contains(part))
                .findFirst()
                .orElse(-1);
    }

    private static void awaitAllSent(ServiceDatabase database) {
        await("all messages sent")
                .atMost(ServiceProcess.PATIENCE)
                .until(() -> database.query("SELECT id FROM outbox WHERE sent_at IS NULL")
                        .isEmpty());
    }
}
