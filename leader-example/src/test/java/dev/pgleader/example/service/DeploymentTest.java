package dev.pgleader.example.service;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.ElectorOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.convert.DurationStyle;

/** What is in deploy/ fits together, and fits the service as it runs. */
class DeploymentTest {

    /** What Prometheus adds to each sample, here or in Kubernetes. */
    private static final Set<String> TARGET_LABELS = Set.of("job", "instance", "namespace");

    /** Where the service listens if nobody says otherwise: Spring Boot's default. */
    private static final int CUSTOMERS_PORT = 8080;

    private static RunningService service;
    private static DeployFile configuration;
    private static String exposition;

    @BeforeAll
    static void start() {
        service = new RunningService(ServiceDatabase.create("deployment"));
        configuration = DeployFile.yaml("../src/main/resources/application.yaml");
        exposition = service.metrics();
    }

    @AfterAll
    static void close() {
        if (service != null) {
            service.close();
        }
    }

    private static Duration duration(String text) {
        return DurationStyle.detectAndParse(text);
    }

    private static Duration phase() {
        return duration(service.property("spring.lifecycle.timeout-per-shutdown-phase"));
    }

    /** What an orderly end takes at most: the election's phase, the web server's, and the jobs' last runs. */
    private static Duration longestShutdown() {
        return phase().multipliedBy(2)
                .plus(duration(service.property("spring.task.scheduling.shutdown.await-termination-period")));
    }

    @Test
    void thePhaseOfTheShutdownLeavesTheElectionItsTime() {
        ElectorOptions options = service.elector().options();
        Duration closeBound = options.closeTimeout();
        assertThat(phase()).isGreaterThan(closeBound);
        assertThat(Path.of("src/main/resources/application.yaml"))
                .content()
                .contains("More than the " + closeBound.toSeconds() + " s that an election may take to end");
    }

    @Test
    void composeStartsReplicasThatReachTheDatabaseAndMayEndInOrder() {
        DeployFile services = DeployFile.yaml("compose.yaml").at("services");
        DeployFile orders = services.at("orders");
        int replicas = orders.at("deploy", "replicas").number();
        assertThat(replicas).isEqualTo(3);
        assertThat(orders.at("depends_on", "postgres", "condition").text()).isEqualTo("service_healthy");
        assertThat(services.at("postgres", "healthcheck").has("test")).isTrue();
        assertThat(duration(orders.at("stop_grace_period").text())).isGreaterThan(longestShutdown());

        DeployFile environment = orders.at("environment");
        DeployFile database = services.at("postgres", "environment");
        assertThat(environment.at("SPRING_DATASOURCE_URL").text())
                .isEqualTo("jdbc:postgresql://postgres:5432/"
                        + database.at("POSTGRES_DB").text());
        assertThat(environment.at("SPRING_DATASOURCE_USERNAME").text())
                .isEqualTo(database.at("POSTGRES_USER").text());
        assertThat(environment.at("SPRING_DATASOURCE_PASSWORD").text())
                .isEqualTo(database.at("POSTGRES_PASSWORD").text());
        assertThat(environment.map()).hasSize(3);

        // 127.0.0.1:9080-9082:8080
        String[] ports = orders.at("ports", 0).text().split("[:-]", -1);
        assertThat(Integer.parseInt(ports[2]) - Integer.parseInt(ports[1]) + 1).isEqualTo(replicas);
        assertThat(List.of(Integer.parseInt(ports[1]), Integer.parseInt(ports[2])))
                .as("not those of an instance outside of Docker")
                .noneMatch(port -> port == CUSTOMERS_PORT || managementPort().equals(port));
        assertThat(Integer.parseInt(ports[3])).isEqualTo(CUSTOMERS_PORT);

        Path context =
                DeployFile.DIRECTORY.resolve(orders.at("build", "context").text());
        assertThat(context.resolve(orders.at("build", "dockerfile").text())).exists();
        assertThat(context.resolve("leader-example")).isDirectory();
        for (DeployFile volume : services.at("postgres", "volumes").list()) {
            assertThat(DeployFile.yaml("compose.yaml")
                            .at("volumes")
                            .has(volume.text().split(":", -1)[0]))
                    .isTrue();
        }
    }

    @Test
    void prometheusOfComposeFindsTheReplicasMetrics() {
        DeployFile services = DeployFile.yaml("compose.yaml").at("services");
        String mount = services.at("prometheus", "volumes", 0).text();
        Path mounted = DeployFile.DIRECTORY.resolve(mount.split(":", -1)[0]);
        assertThat(mounted.resolve("prometheus.yml")).exists();

        DeployFile prometheus = DeployFile.yaml("prometheus/prometheus.yml");
        for (DeployFile rules : prometheus.at("rule_files").list()) {
            assertThat(mounted.resolve(rules.text())).exists();
        }
        DeployFile scrape = prometheus.at("scrape_configs", 0);
        assertThat(service.getManagement(scrape.at("metrics_path").text()).body())
                .contains("pgleader_leader{");
        DeployFile discovery = scrape.at("dns_sd_configs", 0);
        assertThat(discovery.at("names").list())
                .extracting(DeployFile::text)
                .allSatisfy(name -> assertThat(services.has(name)).isTrue());
        assertThat(discovery.at("port").value()).isEqualTo(managementPort());
    }

    private static Object managementPort() {
        return configuration.at("management", "server", "port").value();
    }

    @Test
    void theImageRunsTheServiceAsProcessOneAndNotAsRoot() throws Exception {
        List<String> lines = Files.readAllLines(DeployFile.DIRECTORY.resolve("Dockerfile"));
        String entryPoint = last(lines, "ENTRYPOINT");
        // The form without a shell.
        assertThat(entryPoint).matches("ENTRYPOINT \\[\"java\", .*]");
        String mainClass = entryPoint.replaceAll(".*\"([^\"]+)\"]", "$1");
        assertThat(Class.forName(mainClass)).isEqualTo(ServiceApplication.class);
        assertThat(last(lines, "USER")).matches("USER [1-9]\\d*:[1-9]\\d*");
        assertThat(last(lines, "EXPOSE")).isEqualTo("EXPOSE " + CUSTOMERS_PORT + " " + managementPort());
        assertThat(last(lines, "FROM")).matches("FROM \\S+:17\\.\\d\\S*-jre");
    }

    @Test
    void eachImageIsOneVersion() throws IOException {
        Stream<String> bases = Files.readAllLines(DeployFile.DIRECTORY.resolve("Dockerfile")).stream()
                .filter(line -> line.startsWith("FROM "))
                .map(line -> line.split(" ", -1)[1]);
        Stream<String> composed = DeployFile.yaml("compose.yaml").at("services").map().keySet().stream()
                .map(name -> DeployFile.yaml("compose.yaml")
                        .at("services", name, "image")
                        .text());
        String deployed = container().at("image").text();
        assertThat(Stream.of(bases, composed, Stream.of(deployed))
                        .flatMap(images -> images)
                        .toList())
                .hasSizeGreaterThan(5)
                .allMatch(image -> image.matches("[a-z/-]+:v?\\d+\\.\\d+\\S*"));
        assertThat(deployed)
                .isEqualTo(DeployFile.yaml("compose.yaml")
                        .at("services", "orders", "image")
                        .text());
    }

    @Test
    void theContainerWritesNowhereButToTmpAndGainsNoRights() {
        DeployFile orders = DeployFile.yaml("compose.yaml").at("services", "orders");
        assertThat(orders.at("read_only").value()).isEqualTo(true);
        assertThat(orders.at("tmpfs", 0).text()).isEqualTo("/tmp");
        assertThat(orders.at("cap_drop", 0).text()).isEqualTo("ALL");
        assertThat(orders.at("security_opt", 0).text()).isEqualTo("no-new-privileges:true");

        assertThat(container().at("securityContext", "readOnlyRootFilesystem").value())
                .isEqualTo(true);
        assertThat(container().at("securityContext", "allowPrivilegeEscalation").value())
                .isEqualTo(false);
        DeployFile mount = container().at("volumeMounts", 0);
        assertThat(mount.at("mountPath").text()).isEqualTo("/tmp");
        DeployFile pod = DeployFile.yaml("kubernetes/deployment.yaml").at("spec", "template", "spec");
        assertThat(pod.at("volumes", 0, "name").text())
                .isEqualTo(mount.at("name").text());
        assertThat(pod.at("securityContext", "runAsNonRoot").value()).isEqualTo(true);
    }

    private static DeployFile container() {
        return DeployFile.yaml("kubernetes/deployment.yaml").at("spec", "template", "spec", "containers", 0);
    }

    private static String last(List<String> lines, String instruction) {
        return lines.stream()
                .filter(line -> line.startsWith(instruction + " "))
                .reduce((earlier, later) -> later)
                .orElseThrow();
    }

    @Test
    void eachKubernetesSelectorFindsThePods() {
        DeployFile deployment = DeployFile.yaml("kubernetes/deployment.yaml");
        Map<?, ?> labels =
                deployment.at("spec", "template", "metadata", "labels").map();
        List<DeployFile> selectors = List.of(
                deployment.at("spec", "selector", "matchLabels"),
                deployment.at(
                        "spec", "template", "spec", "topologySpreadConstraints", 0, "labelSelector", "matchLabels"),
                DeployFile.yaml("kubernetes/pod-disruption-budget.yaml").at("spec", "selector", "matchLabels"),
                DeployFile.yaml("kubernetes/service.yaml").at("spec", "selector"),
                DeployFile.yaml("kubernetes/pod-monitor.yaml").at("spec", "selector", "matchLabels"));
        assertThat(selectors).allSatisfy(selector -> {
            assertThat(selector.map()).isNotEmpty();
            assertThat(labels.entrySet().containsAll(selector.map().entrySet())).isTrue();
        });
        assertThat(deployment.at("apiVersion").text()).isEqualTo("apps/v1");
        assertThat(deployment.at("kind").text()).isEqualTo("Deployment");
        assertThat(DeployFile.yaml("kubernetes/service.yaml").at("kind").text()).isEqualTo("Service");
    }

    @Test
    void thePodMonitorScrapesWhatTheAnnotationsName() {
        DeployFile monitor = DeployFile.yaml("kubernetes/pod-monitor.yaml");
        DeployFile pod = DeployFile.yaml("kubernetes/deployment.yaml").at("spec", "template", "metadata");
        DeployFile endpoint = monitor.at("spec", "podMetricsEndpoints", 0);
        assertThat(endpoint.at("path").text())
                .isEqualTo(pod.at("annotations", "prometheus.io/path").text());
        assertThat(container().at("ports").list()).anySatisfy(port -> {
            assertThat(port.at("name").text()).isEqualTo(endpoint.at("port").text());
            assertThat(port.at("containerPort").value()).isEqualTo(managementPort());
        });
        DeployFile prometheus = DeployFile.yaml("prometheus/prometheus.yml");
        assertThat(endpoint.at("interval").text())
                .isEqualTo(prometheus.at("global", "scrape_interval").text());
        // The same job as in compose.
        assertThat(pod.at("labels").map().get(monitor.at("spec", "jobLabel").text()))
                .isEqualTo(prometheus.at("scrape_configs", 0, "job_name").value());
    }

    @Test
    void theDisruptionBudgetLetsNodesBeDrainedOneInstanceAtATime() {
        DeployFile budget = DeployFile.yaml("kubernetes/pod-disruption-budget.yaml");
        assertThat(budget.at("apiVersion").text()).isEqualTo("policy/v1");
        assertThat(budget.at("kind").text()).isEqualTo("PodDisruptionBudget");
        assertThat(budget.at("spec", "maxUnavailable").number())
                .isPositive()
                .isLessThan(DeployFile.yaml("kubernetes/deployment.yaml")
                        .at("spec", "replicas")
                        .number());
    }

    @Test
    void kubernetesAsksForPagesThatTheServiceHas() {
        DeployFile deployment = DeployFile.yaml("kubernetes/deployment.yaml");
        DeployFile container = container();
        Map<String, Object> ports = container.at("ports").list().stream()
                .collect(Collectors.toMap(
                        port -> port.at("name").text(),
                        port -> port.at("containerPort").value()));
        assertThat(ports).isEqualTo(Map.of("http", CUSTOMERS_PORT, "management", managementPort()));

        Map<String, String> paths = Stream.of("startupProbe", "livenessProbe", "readinessProbe")
                .collect(Collectors.toMap(
                        probe -> probe,
                        probe -> container.at(probe, "httpGet", "path").text()));
        // Which ServiceTest shows not to depend on leadership.
        assertThat(paths)
                .isEqualTo(Map.of("startupProbe", "/livez", "livenessProbe", "/livez", "readinessProbe", "/readyz"));
        paths.forEach((probe, path) -> {
            assertThat(container.at(probe, "httpGet", "port").text()).isEqualTo("http");
            assertThat(service.get(path).statusCode()).as(path).isEqualTo(200);
        });

        DeployFile annotations = deployment.at("spec", "template", "metadata", "annotations");
        assertThat(annotations.at("prometheus.io/port").text())
                .isEqualTo(managementPort().toString());
        assertThat(service.getManagement(annotations.at("prometheus.io/path").text())
                        .body())
                .contains("pgleader_leader{");
        assertThat(DeployFile.yaml("kubernetes/service.yaml")
                        .at("spec", "ports", 0, "targetPort")
                        .text())
                .isIn(ports.keySet());
    }

    @Test
    void kubernetesWaitsForAnOrderlyEnd() {
        DeployFile pod = DeployFile.yaml("kubernetes/deployment.yaml").at("spec", "template", "spec");
        Duration preStop = Duration.ofSeconds(pod.at("containers", 0, "lifecycle", "preStop", "sleep", "seconds")
                .number());
        assertThat(Duration.ofSeconds(pod.at("terminationGracePeriodSeconds").number()))
                .isGreaterThan(preStop.plus(longestShutdown()));
    }

    @Test
    void kubernetesGivesTheSameSettingsAsCompose() {
        Set<String> names = DeployFile.yaml("kubernetes/deployment.yaml")
                .at("spec", "template", "spec", "containers", 0, "env")
                .list()
                .stream()
                .map(variable -> variable.at("name").text())
                .collect(Collectors.toSet());
        assertThat(names)
                .isEqualTo(DeployFile.yaml("compose.yaml")
                        .at("services", "orders", "environment")
                        .map()
                        .keySet());
    }

    @Test
    void alertsAskForMetersThatTheServiceHas() {
        List<DeployFile> rules = alerts();
        assertThat(rules)
                .extracting(rule -> rule.at("alert").text())
                .contains("PgLeaderNobodyLeads", "PgLeaderTwoLeaders", "PgLeaderFlapping", "PgLeaderUnconfirmed");
        for (DeployFile rule : rules) {
            assertThat(unknownNames(rule.at("expr").text()))
                    .as("%s", rule.at("alert").text())
                    .isEmpty();
            assertThat(rule.at("labels", "severity").text()).isIn("critical", "warning");
            assertThat(rule.at("annotations", "summary").text()).isNotBlank();
            assertThat(unknownLabels(rule.at("annotations").map().toString(), "\\$labels\\.(\\w+)", rule))
                    .isEmpty();
        }
    }

    @Test
    void theRunbookOfEachAlertIsAPageThatAPagerCanOpen() throws IOException {
        String pom = Files.readString(Path.of("../pom.xml"));
        Matcher repository = Pattern.compile("<repository.url>(https://[^<]+)<").matcher(pom);
        assertThat(repository.find()).isTrue();
        String pages = repository.group(1) + "/blob/main/";
        for (DeployFile rule : alerts()) {
            String address = rule.at("annotations", "runbook_url").text();
            assertThat(address).startsWith(pages);
            String[] place = address.substring(pages.length()).split("#", -1);
            assertThat(Files.readAllLines(Path.of("..", place[0])))
                    .filteredOn(line -> line.startsWith("#"))
                    .extracting(DeploymentTest::anchor)
                    .as(address)
                    .contains(place[1]);
        }
    }

    /** What a heading is called in a link, as GitHub has it. */
    private static String anchor(String heading) {
        return heading.replaceAll("^#+ ", "")
                .toLowerCase(Locale.ROOT)
                .replaceAll("[^a-z0-9 -]", "")
                .replace(' ', '-');
    }

    /** The labels that a text names and the rule's or the panel's expression doesn't leave. */
    private static Set<String> unknownLabels(String text, String pattern, DeployFile expressionOwner) {
        PrometheusExpression expression =
                new PrometheusExpression(expressionOwner.at("expr").text());
        Set<String> unknown = Pattern.compile(pattern)
                .matcher(text)
                .results()
                .map(found -> found.group(1))
                .collect(Collectors.toCollection(TreeSet::new));
        unknown.removeAll(
                expression.sums().isEmpty()
                        ? PrometheusExpression.labelsOf(exposition, expression.metrics())
                        : expression.sums().get(0));
        if (expression.sums().isEmpty()) {
            unknown.removeAll(TARGET_LABELS);
        }
        return unknown;
    }

    @Test
    void dashboardAndAlertsSumOverTheSameLabels() throws IOException {
        Set<String> election = Set.of("namespace", "job", "elector");
        List<DeployFile> owners = new ArrayList<>(alerts());
        DeployFile.json("grafana/pg-leader.json")
                .at("panels")
                .list()
                .forEach(panel -> owners.addAll(panel.at("targets").list()));
        assertThat(owners)
                .flatExtracting(
                        owner -> new PrometheusExpression(owner.at("expr").text()).sums())
                .hasSizeGreaterThan(9)
                .allSatisfy(labels -> assertThat(labels).containsAll(election));
    }

    private static List<DeployFile> alerts() {
        return DeployFile.yaml("prometheus/alerts.yml").at("groups").list().stream()
                .flatMap(group -> group.at("rules").list().stream())
                .toList();
    }

    private static Set<String> unknownNames(String expression) {
        PrometheusExpression parsed = new PrometheusExpression(expression);
        Set<String> metrics = parsed.metrics();
        assertThat(metrics).as(expression).isNotEmpty();
        Set<String> unknown = new TreeSet<>(metrics);
        unknown.removeAll(PrometheusExpression.metricsOf(exposition));
        Set<String> labels = new TreeSet<>(parsed.labels());
        labels.removeAll(PrometheusExpression.labelsOf(exposition, metrics));
        labels.removeAll(TARGET_LABELS);
        unknown.addAll(labels);
        return unknown;
    }

    @Test
    void aNameThatNobodyHasIsFound() {
        assertThat(unknownNames("sum by (job, elector) (pgleader_leader{elector=\"leader\"}) == 0 and up > 1"))
                .containsExactly("up");
        assertThat(unknownNames("max_over_time((pgleader_luck and pgleader_leader == 1)[5m:15s]) > 6"))
                .containsExactly("pgleader_luck");
        assertThat(unknownNames(
                        "sum by (elector, fault) (rate(pgleader_elections_total{reason!=\"x\"}[$__rate_interval]))"))
                .containsExactly("fault", "reason");
    }

    @Test
    void eachAlertHasATestThatItFiresAndOneThatItDoesnt() {
        Set<String> fires = new TreeSet<>();
        Set<String> silent = new TreeSet<>();
        for (DeployFile test :
                DeployFile.yaml("prometheus/alerts-test.yml").at("tests").list()) {
            for (DeployFile expectation : test.at("alert_rule_test").list()) {
                (expectation.has("exp_alerts") ? fires : silent)
                        .add(expectation.at("alertname").text());
            }
        }
        Set<String> names =
                alerts().stream().map(rule -> rule.at("alert").text()).collect(Collectors.toCollection(TreeSet::new));
        assertThat(fires).isEqualTo(names);
        assertThat(silent).isEqualTo(names);
    }

    @Test
    void theDashboardShowsMetersThatTheServiceHas() throws IOException {
        DeployFile dashboard = DeployFile.json("grafana/pg-leader.json");
        Set<String> variables = dashboard.at("templating", "list").list().stream()
                .map(variable -> "$" + variable.at("name").text())
                .collect(Collectors.toSet());
        Pattern variable = Pattern.compile("\\$(?!__)\\w+");
        List<DeployFile> panels = dashboard.at("panels").list();
        assertThat(panels).hasSizeGreaterThan(5);
        for (DeployFile panel : panels) {
            assertThat(panel.at("title").text()).isNotBlank();
            assertThat(panel.at("description").text()).isNotBlank();
            assertThat(panel.at("datasource", "uid").text()).isEqualTo("${datasource}");
            assertThat(panel.at("targets").list()).isNotEmpty();
            for (DeployFile target : panel.at("targets").list()) {
                String expression = target.at("expr").text();
                assertThat(unknownNames(expression)).as(expression).isEmpty();
                assertThat(variable.matcher(expression).results().map(found -> found.group()))
                        .isNotEmpty()
                        .allMatch(variables::contains);
                assertThat(unknownLabels(target.at("legendFormat").text(), "\\{\\{(\\w+)}}", target))
                        .as(expression)
                        .isEmpty();
            }
        }
        assertThat(panels).extracting(panel -> panel.at("id").number()).doesNotHaveDuplicates();
    }

    @Test
    void thePanelsDontOverlap() throws IOException {
        List<List<Integer>> taken = new ArrayList<>();
        for (DeployFile panel :
                DeployFile.json("grafana/pg-leader.json").at("panels").list()) {
            DeployFile place = panel.at("gridPos");
            int left = place.at("x").number();
            int top = place.at("y").number();
            for (int x = left; x < left + place.at("w").number(); x++) {
                for (int y = top; y < top + place.at("h").number(); y++) {
                    taken.add(List.of(x, y));
                }
            }
            assertThat(left + place.at("w").number()).isLessThanOrEqualTo(24);
        }
        assertThat(taken).isNotEmpty().doesNotHaveDuplicates();
    }
}
