package dev.pgleader.example.service;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The service in a process of its own, as it is deployed. */
class HandOverTest {

    private static final Duration PATIENCE = Duration.ofMinutes(2);

    @Test
    void onSigtermTheLoopEndsThenTheLockIsFreeAndTheOtherInstanceTakesOver() throws Exception {
        ServiceDatabase database = ServiceDatabase.create("hand_over");
        List<String> lines = new CopyOnWriteArrayList<>();
        Process process = start(database);
        try {
            read(process, lines);
            awaitLine(lines, "Relays the outbox in term 1");
            database.execute("INSERT INTO outbox (message) VALUES ('to the first')");
            awaitAllSent(database);
            try (RunningService successor = new RunningService(database)) {
                assertThat(successor.elector().isLeader()).isFalse();

                long begin = System.nanoTime();
                // SIGTERM. Process.destroy() would close its output too.
                process.toHandle().destroy();
                await("the successor").atMost(PATIENCE).until(successor.elector()::isLeader);
                Duration handOver = Duration.ofNanos(System.nanoTime() - begin);
                System.out.println("The service handed over within " + handOver.toMillis() + " ms of SIGTERM");

                database.execute("INSERT INTO outbox (message) VALUES ('to the second')");
                awaitAllSent(database);
                assertThat(process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS))
                        .as("ends by itself")
                        .isTrue();
                // 128 + SIGTERM
                assertThat(process.exitValue()).isEqualTo(143);
                awaitLine(lines, "[orders] Closed");
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
        } finally {
            process.destroyForcibly();
            process.waitFor(10, TimeUnit.SECONDS);
        }
    }

    private static Process start(ServiceDatabase database) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                ServiceApplication.class.getName()));
        command.addAll(database.arguments());
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        return process;
    }

    private static void read(Process process, List<String> lines) {
        Thread reader = new Thread(
                () -> {
                    try (BufferedReader output = process.inputReader(UTF_8)) {
                        for (String line = output.readLine(); line != null; line = output.readLine()) {
                            lines.add(line);
                        }
                    } catch (IOException e) {
                        lines.add(e.toString());
                    }
                },
                "output of " + process.pid());
        reader.setDaemon(true);
        reader.start();
    }

    private static void awaitLine(List<String> lines, String part) {
        await("'" + part + "' in the log")
                .atMost(PATIENCE)
                .until(() -> lines.stream().anyMatch(line -> line.contains(part)));
    }

    private static int position(List<String> lines, String part) {
        return IntStream.range(0, lines.size())
                .filter(index -> lines.get(index).contains(part))
                .findFirst()
                .orElse(-1);
    }

    private static void awaitAllSent(ServiceDatabase database) {
        await("all messages sent")
                .atMost(PATIENCE)
                .until(() -> database.query("SELECT id FROM outbox WHERE sent_at IS NULL")
                        .isEmpty());
    }
}
