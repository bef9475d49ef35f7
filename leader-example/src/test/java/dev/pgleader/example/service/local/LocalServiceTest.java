package dev.pgleader.example.service.local;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.example.service.ServiceProcess;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code mvn -Pservice} as docs/service.md has it: processes that are started and ended as its reader does. */
class LocalServiceTest {

    private static final Duration LONG = Duration.ofMinutes(10);

    @TempDir
    Path directory;

    @Test
    void theDatabaseOutlivesTheInstanceThatStartedItAndTheNextOneLeads() throws Exception {
        String database;
        try (ServiceProcess first = start()) {
            database = databasePid(first);
            first.awaitLine("Elected, term 1");
            try (ServiceProcess second = start()) {
                assertThat(databasePid(second)).isEqualTo(database);
                String crash = first.awaitLine("kill -9 ");
                assertThat(lastWord(crash))
                        .isEqualTo(Long.toString(first.handle().pid()));

                first.handle().destroyForcibly();
                second.awaitLine("Elected, term 1");

                try (ServiceProcess third = start()) {
                    assertThat(databasePid(third)).isEqualTo(database);
                    assertThat(third.lines()).noneMatch(line -> line.contains("Elected"));
                }
            }
        }
        ProcessHandle process = ProcessHandle.of(Long.parseLong(database)).orElseThrow();
        process.destroy();
        awaitNothingLeft(process, directory.resolve("target/service-database"));
    }

    @Test
    void endsByItselfWhenNobodyUsesIt() throws Exception {
        LocalDatabase database = LocalDatabase.join(directory, Duration.ofSeconds(2));
        ProcessHandle process = ProcessHandle.of(database.pid()).orElseThrow();
        LocalDatabase again = LocalDatabase.join(directory, LONG);
        assertThat(again.port()).isEqualTo(database.port());
        assertThat(again.isNew()).isFalse();
        database.use().close();
        again.use().close();
        awaitNothingLeft(process, directory);
    }

    @Test
    void leavesNothingBehindWhenItIsKilledAndStartsAnew() throws Exception {
        LocalDatabase database = LocalDatabase.join(directory, LONG);
        ProcessHandle process = ProcessHandle.of(database.pid()).orElseThrow();
        process.destroyForcibly();
        await("its data is removed")
                .atMost(ServiceProcess.PATIENCE)
                .until(() -> !Files.exists(LocalDatabase.data(directory)));
        assertThat(LocalDatabase.address(directory)).exists();

        LocalDatabase next = LocalDatabase.join(directory, LONG);
        assertThat(next.isNew()).isTrue();
        ProcessHandle.of(next.pid()).orElseThrow().destroy();
        awaitNothingLeft(ProcessHandle.of(next.pid()).orElseThrow(), directory);
    }

    private ServiceProcess start() throws IOException {
        return new ServiceProcess(
                directory, LocalService.class, List.of("--server.port=0", "--management.server.port=0"));
    }

    private static String databasePid(ServiceProcess instance) {
        return lastWord(instance.awaitLine("PostgreSQL is a process of its own"));
    }

    private static String lastWord(String line) {
        return line.substring(line.lastIndexOf(' ') + 1);
    }

    private static void awaitNothingLeft(ProcessHandle process, Path home) {
        await("the database has ended")
                .atMost(ServiceProcess.PATIENCE)
                .until(() -> !process.isAlive()
                        && !Files.exists(LocalDatabase.data(home))
                        && !Files.exists(LocalDatabase.address(home)));
    }
}
