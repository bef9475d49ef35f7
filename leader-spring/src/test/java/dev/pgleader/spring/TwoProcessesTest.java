package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class TwoProcessesTest {

    private static final Duration RETRY = Duration.ofSeconds(1);
    private static final Duration REVOCATION = Duration.ofMillis(500);

    private static List<String> arguments(String name, String... more) {
        return Stream.concat(
                        Stream.of(
                                "--spring.datasource.url=" + TestServer.url(),
                                "--spring.datasource.username=" + TestServer.USER,
                                "--spring.datasource.hikari.minimum-idle=0",
                                "--spring.application.name=" + name,
                                // The server is younger than a lease; nobody can have led on it before.
                                "--pgleader.takeover-delay=none",
                                "--management.endpoints.web.exposure.include=*",
                                "--management.endpoint.health.show-details=always"),
                        Arrays.stream(more))
                .toList();
    }

    @Test
    @DisplayName(
            "C36: after SIGTERM another process leads at once, though the old one is stuck in its shutdown for a minute")
    void anotherProcessLeadsWhileTheOldOneIsStuckInItsShutdown() throws Exception {
        List<String> arguments = arguments(TestServer.uniqueName("orders"), "--spring.profiles.active=worker,stuck");
        try (SampleProcess first = new SampleProcess(arguments)) {
            try (SampleProcess second = new SampleProcess(arguments)) {
                await().atMost(Duration.ofMinutes(3))
                        .until(() -> List.of(first, second).stream()
                                .anyMatch(process -> process.lines().stream()
                                        .anyMatch(line -> line.text().equals("elected"))));
                boolean firstLeads =
                        first.lines().stream().anyMatch(line -> line.text().equals("elected"));
                SampleProcess leader = firstLeads ? first : second;
                SampleProcess follower = firstLeads ? second : first;
                leader.await("worked");
                record(leader, follower);
                leader.request("/slow");
                leader.await("requested");

                long begin = System.nanoTime();
                leader.terminate();
                SampleProcess.Line elected = follower.await("elected");
                Duration handover = Duration.ofNanos(elected.arrivalNanos() - begin);

                assertThat(handover).isLessThan(RETRY.plus(REVOCATION).plusSeconds(25));
                SampleProcess.Line revoked = leader.await("revoked");
                assertThat(revoked.text()).isEqualTo("revoked CLOSED, lock held 1");
                assertThat(revoked.arrivalNanos()).isLessThan(elected.arrivalNanos());
                follower.await("worked");
                assertThat(leader.isAlive()).isTrue();
                int last = leader.lines().indexOf(revoked);
                assertThat(leader.lines().subList(last, leader.lines().size()))
                        .noneMatch(line -> line.text().equals("worked"));
                System.out.println("Handed over within " + handover.toMillis() + " ms of SIGTERM");
            }
        }
    }

    /** Keeps what the endpoints answer, for the documentation. */
    private static void record(SampleProcess leader, SampleProcess follower) throws IOException {
        String ofLeader = leader.get("/actuator/health/leader").body();
        String ofFollower = follower.get("/actuator/health/leader").body();
        assertThat(ofLeader).contains("\"status\":\"UP\"", "\"role\":\"LEADER\"");
        await().atMost(Duration.ofSeconds(30))
                .untilAsserted(
                        () -> assertThat(follower.get("/actuator/health/leader").body())
                                .contains("\"status\":\"UP\"", "\"role\":\"FOLLOWER\"", "\"leader\":"));
        assertThat(leader.get("/actuator/health").statusCode()).isEqualTo(200);
        assertThat(follower.get("/actuator/health").statusCode()).isEqualTo(200);
        assertThat(ofFollower).contains("FOLLOWER");
        Path directory = Files.createDirectories(Path.of("target", "endpoints"));
        for (String path : List.of("health", "leader", "info", "prometheus")) {
            Files.writeString(
                    directory.resolve(path + "-of-leader"),
                    leader.get("/actuator/" + path).body());
            Files.writeString(
                    directory.resolve(path + "-of-follower"),
                    follower.get("/actuator/" + path).body());
        }
    }

    @Test
    @DisplayName(
            "X04: leading keeps no JVM alive, and with spring.main.keep-alive the JVM stays, virtual threads or not")
    void leadingKeepsNoProcessAlive() {
        String[] common = {
            "--spring.main.web-application-type=none",
            "--spring.threads.virtual.enabled=true",
            "--spring.profiles.active=worker"
        };
        List<String> plain = arguments(TestServer.uniqueName("x04"), "--spring.main.web-application-type=none");
        try (SampleProcess ends = SampleProcess.withoutOptionalLibraries(plain);
                SampleProcess stays = new SampleProcess(Stream.concat(
                                arguments(TestServer.uniqueName("x04"), "--spring.main.keep-alive=true").stream(),
                                Arrays.stream(common))
                        .toList())) {
            assertThat(ends.exitCode()).as(ends::toString).isZero();
            assertThat(ends.lines()).anyMatch(line -> line.text().contains("Starting as"));
            stays.await("worked");
            assertThat(stays.isAlive()).isTrue();
            stays.terminate();
            // 128 + SIGTERM
            assertThat(stays.exitCode()).isEqualTo(143);
            assertThat(stays.lines()).anyMatch(line -> line.text().startsWith("revoked CLOSED"));
        }
    }
}
