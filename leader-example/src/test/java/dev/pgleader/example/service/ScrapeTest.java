package dev.pgleader.example.service;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.json.JsonParserFactory;

/**
 * A Prometheus with compose's configuration scrapes the service: what alerts and dashboard ask for is what it shows. It comes with
 * the Debian package prometheus.
 */
class ScrapeTest {

    /** Given by Kubernetes only. */
    private static final String NAMESPACE = "namespace";

    @TempDir
    static Path directory;

    private static RunningService service;
    private static Process prometheus;
    private static String address;

    @BeforeAll
    static void scrape() throws Exception {
        boolean installed = Stream.of(System.getenv("PATH").split(":", -1))
                .anyMatch(path -> Files.isExecutable(Path.of(path, "prometheus")));
        assumeTrue(installed, "no prometheus (apt-get install prometheus)");
        service = new RunningService(ServiceDatabase.create("scrape"));
        await("it leads").atMost(ServiceProcess.PATIENCE).until(service.elector()::isLeader);

        Path source = DeployFile.DIRECTORY.resolve("prometheus");
        String configuration = Files.readString(source.resolve("prometheus.yml"));
        int discovery = configuration.indexOf("    dns_sd_configs:");
        assertThat(discovery).isPositive();
        Files.writeString(
                directory.resolve("prometheus.yml"),
                configuration.substring(0, discovery).replace("interval: 15s", "interval: 1s")
                        + "    static_configs:\n      - targets: [\"localhost:"
                        + service.property("local.management.port") + "\"]\n");
        Files.copy(source.resolve("alerts.yml"), directory.resolve("alerts.yml"));

        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        address = "http://localhost:" + port;
        prometheus = new ProcessBuilder(
                        "prometheus",
                        "--config.file=prometheus.yml",
                        "--storage.tsdb.path=data",
                        "--web.listen-address=localhost:" + port)
                .directory(directory.toFile())
                .redirectErrorStream(true)
                .redirectOutput(directory.resolve("log").toFile())
                .start();
        Runtime.getRuntime().addShutdownHook(new Thread(prometheus::destroyForcibly));
        await("a scrape")
                .atMost(ServiceProcess.PATIENCE)
                .ignoreExceptions()
                .until(() -> !query("pgleader_leader == 1").isEmpty());
    }

    @AfterAll
    static void end() throws Exception {
        if (prometheus != null) {
            prometheus.destroy();
            prometheus.waitFor();
        }
        if (service != null) {
            service.close();
        }
    }

    @Test
    void alertsAndDashboardAskForMetricsAndLabelsThatAScrapeShows() throws Exception {
        List<String> expressions = expressions();
        assertThat(expressions).hasSizeGreaterThan(15);
        for (String expression : expressions) {
            query(expression); // or Prometheus refuses it
            PrometheusExpression names = new PrometheusExpression(expression);
            Set<String> labels = new TreeSet<>(names.labels());
            labels.remove(NAMESPACE);
            for (String metric : names.metrics()) {
                List<DeployFile> series = get("/api/v1/series?match[]=" + metric);
                assertThat(series).as(metric).isNotEmpty();
                series.forEach(
                        one -> assertThat(one.map().containsKey("elector")).isTrue());
                labels.removeIf(label -> series.stream().allMatch(one -> one.has(label)));
            }
            assertThat(labels).as(expression).isEmpty();
        }
    }

    @Test
    void theTileOfLeadersShowsOne() throws Exception {
        List<DeployFile> results = query(expressions().stream()
                .filter(expression -> expression.startsWith("sum by (namespace, job, elector) (pgleader_leader{"))
                .findFirst()
                .orElseThrow());
        assertThat(results).hasSize(1);
        assertThat(results.get(0).at("metric").map()).isEqualTo(Map.of("job", "orders", "elector", "orders"));
        assertThat(results.get(0).at("value", 1).text()).isEqualTo("1");
    }

    /** With everything that Grafana fills in. */
    private static List<String> expressions() throws IOException {
        List<String> expressions = new ArrayList<>();
        for (DeployFile group :
                DeployFile.yaml("prometheus/alerts.yml").at("groups").list()) {
            group.at("rules")
                    .list()
                    .forEach(rule -> expressions.add(rule.at("expr").text()));
        }
        for (DeployFile panel :
                DeployFile.json("grafana/pg-leader.json").at("panels").list()) {
            panel.at("targets")
                    .list()
                    .forEach(target -> expressions.add(target.at("expr")
                            .text()
                            .replace("$__rate_interval", "1m")
                            .replaceAll("\\$\\w+", ".*")));
        }
        return expressions;
    }

    private static List<DeployFile> query(String expression) throws IOException, InterruptedException {
        return get("/api/v1/query?query=" + URLEncoder.encode(expression, UTF_8));
    }

    private static List<DeployFile> get(String path) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address + path.replace("[]", "%5B%5D")))
                .build();
        String body = HttpClient.newHttpClient()
                .send(request, BodyHandlers.ofString(UTF_8))
                .body();
        DeployFile answer =
                new DeployFile(path, JsonParserFactory.getJsonParser().parseMap(body));
        assertThat(answer.at("status").text()).as("%s", answer).isEqualTo("success");
        DeployFile data = answer.at("data");
        return (data.value() instanceof List<?> ? data : data.at("result")).list();
    }
}
