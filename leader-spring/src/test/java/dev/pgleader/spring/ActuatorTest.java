package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.LeaderElector;
import dev.pgleader.spring.sample.SampleApplication;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.web.server.context.WebServerApplicationContext;
import org.springframework.context.ConfigurableApplicationContext;

/** Two instances of a web application that compete in a database of their own. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class ActuatorTest {

    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration OUTAGE = Duration.ofMillis(Long.getLong("outage.millis", 3_000));

    private final HttpClient client = HttpClient.newHttpClient();
    private final String database = TestServer.uniqueName("actuator");
    private final List<Duration> answerTimes = new ArrayList<>();
    private ConfigurableApplicationContext leader;
    private ConfigurableApplicationContext follower;

    @BeforeAll
    void start() throws Exception {
        TestServer.createDatabase(database);
        leader = run();
        await().atMost(PATIENCE).until(() -> elector(leader).isLeader());
        follower = run(
                "management.endpoint.leader.access=unrestricted",
                "management.endpoint.health.group.readiness.include=readinessState,leader");
        await().atMost(PATIENCE)
                .until(() -> elector(follower).status().knownLeader().isPresent());
        // The first answers take as long as classes take to load.
        for (String path : List.of("health", "health/leader", "health/liveness", "health/readiness")) {
            get(leader, path);
            get(follower, path);
        }
    }

    @AfterAll
    void stop() {
        follower.close();
        leader.close();
    }

    private ConfigurableApplicationContext run(String... more) {
        List<String> arguments = Stream.concat(
                        Arrays.stream(TestServer.properties(
                                "pgleader.datasource.url=" + TestServer.url(database),
                                "spring.application.name=orders",
                                "server.port=0",
                                "spring.jmx.enabled=false",
                                "management.endpoints.web.exposure.include=*",
                                "management.endpoint.health.show-details=always",
                                "management.endpoint.health.probes.enabled=true",
                                "pgleader.max-reconnect-delay=500ms",
                                "pgleader.lease-duration=3s",
                                "pgleader.health-check-interval=500ms",
                                "pgleader.health-check-timeout=1s",
                                "pgleader.health.threshold=1s")),
                        Arrays.stream(more))
                .map(property -> "--" + property)
                .toList();
        return new SpringApplication(SampleApplication.class).run(arguments.toArray(String[]::new));
    }

    private static LeaderElector elector(ConfigurableApplicationContext application) {
        return application.getBean(LeaderElector.class);
    }

    private HttpResponse<String> get(ConfigurableApplicationContext application, String path) throws Exception {
        return client.send(request(application, path).build(), HttpResponse.BodyHandlers.ofString());
    }

    private HttpResponse<String> post(ConfigurableApplicationContext application, String body) throws Exception {
        HttpRequest post = request(application, "leader")
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        return client.send(post, HttpResponse.BodyHandlers.ofString());
    }

    private static HttpRequest.Builder request(ConfigurableApplicationContext application, String path) {
        int port = ((WebServerApplicationContext) application).getWebServer().getPort();
        return HttpRequest.newBuilder(URI.create("http://localhost:" + port + "/actuator/" + path));
    }

    @Test
    @DisplayName("C40: to lead and to follow are both UP, and the role is among the details")
    void leadingAndFollowingAreUp() throws Exception {
        for (String path : List.of("health", "health/liveness", "health/readiness")) {
            assertThat(get(leader, path).statusCode()).as(path).isEqualTo(200);
            assertThat(get(follower, path).statusCode()).as(path).isEqualTo(200);
        }
        assertThat(get(leader, "health/leader").body())
                .contains("\"status\":\"UP\"", "\"role\":\"LEADER\"", "\"since\":", "\"lastCheck\":");
        assertThat(get(follower, "health/leader").body())
                .contains(
                        "\"status\":\"UP\"",
                        "\"role\":\"FOLLOWER\"",
                        "\"leader\":\"" + elector(leader).instanceId() + "\"");
        assertThat(get(leader, "health/liveness").body()).doesNotContain("role");
    }

    @Test
    void theEndpointTellsWhatTheElectorKnows() throws Exception {
        assertThat(get(leader, "leader").body())
                .contains(
                        "\"orders\":{",
                        "\"role\":\"LEADER\"",
                        "\"terms\":",
                        "\"lockKey\":\"" + elector(leader).key() + "\"",
                        "\"backendPid\":",
                        "\"database\":\"" + database);
        assertThat(get(follower, "leader").body())
                .contains(
                        "\"role\":\"FOLLOWER\"",
                        "\"instanceId\":\"" + elector(leader).instanceId() + "\"");
        assertThat(get(leader, "info").body()).contains("\"leader\":{\"orders\":{\"role\":\"LEADER\"");
    }

    @Test
    void metricsAreThereForEachElection() throws Exception {
        assertThat(get(leader, "prometheus").body())
                .contains("pgleader_leader{elector=\"orders\"} 1.0", "pgleader_elections_total{elector=\"orders\"}");
        assertThat(get(follower, "prometheus").body()).contains("pgleader_leader{elector=\"orders\"} 0.0");
    }

    @Test
    void writeOperationsAreOffUnlessAllowedAndThenResignPauseAndResume() throws Exception {
        assertThat(post(leader, "{\"action\":\"resign\"}").statusCode()).isEqualTo(405);

        HttpResponse<String> paused = post(follower, "{\"action\":\"pause\"}");
        assertThat(paused.statusCode()).isIn(200, 202);
        if (paused.statusCode() == 200) {
            assertThat(paused.body()).contains("\"outcome\":\"done\"", "\"paused\":true");
        }
        await().atMost(PATIENCE).until(() -> elector(follower).status().paused());
        assertThat(get(follower, "health/leader").body()).contains("\"paused\":true", "\"status\":\"UP\"");
        assertThat(post(follower, "{\"action\":\"resume\",\"election\":\"orders\"}")
                        .statusCode())
                .isIn(200, 202);
        await().atMost(PATIENCE).until(() -> !elector(follower).status().paused());
        HttpResponse<String> unknownElection = post(follower, "{\"action\":\"resign\",\"election\":\"billing\"}");
        assertThat(unknownElection.statusCode()).isEqualTo(400);
        assertThat(unknownElection.body()).contains("election must be one of orders, but is billing");
        HttpResponse<String> unknownAction = post(follower, "{\"action\":\"abdicate\"}");
        assertThat(unknownAction.statusCode()).isEqualTo(400);
        assertThat(unknownAction.body()).contains("action must be one of resign, pause, resume, but is abdicate");
    }

    @Test
    @DisplayName("X06: health answers within a second though the backend of the session hangs")
    void healthAnswersThoughTheBackendHangs() throws Exception {
        answerTimes.clear();
        String backend =
                String.valueOf(elector(leader).status().session().orElseThrow().backendPid());
        signal("-STOP", backend);
        try {
            await().atMost(PATIENCE).until(() -> {
                requireQuickHealth();
                return !elector(leader).isLeader();
            });
        } finally {
            signal("-CONT", backend);
        }
        requireOneLeaderAgain();
    }

    @Test
    @DisplayName("C40: without database health stays quick, liveness stays UP, and afterwards somebody leads again")
    void anOutageShowsInTheIndicatorAlone() throws Exception {
        answerTimes.clear();
        TestServer.shut(database);
        try {
            await().atMost(PATIENCE).until(() -> {
                requireQuickHealth();
                return get(leader, "health/leader").statusCode() == 503;
            });
            assertThat(get(leader, "health/leader").body())
                    .contains(
                            "\"status\":\"DOWN\"",
                            "\"problem\":\"SESSION\"",
                            "\"fault\":\"",
                            "\"message\":",
                            "\"lastRevocation\":");
            assertThat(get(leader, "health").statusCode()).isEqualTo(503);
            long begin = System.nanoTime();
            await().atMost(OUTAGE.plus(PATIENCE)).until(() -> {
                requireQuickHealth();
                return System.nanoTime() - begin > OUTAGE.toNanos();
            });
            // The follower has it in its readiness, because it was asked to.
            assertThat(get(follower, "health/readiness").statusCode()).isEqualTo(503);
        } finally {
            TestServer.open(database);
        }
        requireOneLeaderAgain();
        await().atMost(PATIENCE).until(() -> get(leader, "health").statusCode() == 200);
    }

    private void requireQuickHealth() throws Exception {
        long begin = System.nanoTime();
        int indicator = get(leader, "health/leader").statusCode();
        answerTimes.add(Duration.ofNanos(System.nanoTime() - begin));
        assertThat(indicator).isIn(200, 503);
        assertThat(get(leader, "health/liveness").statusCode()).isEqualTo(200);
        assertThat(get(leader, "health/readiness").statusCode()).isEqualTo(200);
        assertThat(get(follower, "health/liveness").statusCode()).isEqualTo(200);
        // Health that asked the database would be slow each time; a machine that pauses is now and then.
        List<Duration> sorted = answerTimes.stream().sorted().toList();
        assertThat(sorted.get((sorted.size() - 1) / 2)).isLessThan(Duration.ofSeconds(10));
    }

    /** The other tests want this one to be it. */
    private void requireOneLeaderAgain() throws Exception {
        await().atMost(PATIENCE)
                .until(() -> elector(leader).isLeader() || elector(follower).isLeader());
        elector(follower).pause().join();
        await().atMost(PATIENCE).until(() -> elector(leader).isLeader());
        elector(follower).resume();
        await().atMost(PATIENCE)
                .until(() -> elector(follower).status().knownLeader().isPresent());
    }

    private static void signal(String signal, String pid) throws Exception {
        assertThat(new ProcessBuilder("kill", signal, pid).start().waitFor(10, TimeUnit.SECONDS))
                .isTrue();
    }
}
