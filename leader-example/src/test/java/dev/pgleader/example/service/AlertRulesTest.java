package dev.pgleader.example.service;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Prometheus' own tool reads the rules and runs their tests. It comes with the Debian package prometheus. */
class AlertRulesTest {

    private static final Path RULES = DeployFile.DIRECTORY.resolve("prometheus");

    private record Result(int exitCode, String output) {}

    @BeforeAll
    static void needsPromtool() {
        boolean installed = Stream.of(System.getenv("PATH").split(":", -1))
                .anyMatch(directory -> Files.isExecutable(Path.of(directory, "promtool")));
        assumeTrue(installed, "no promtool (apt-get install prometheus)");
    }

    private static Result promtool(Path directory, String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("promtool"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command)
                .directory(directory.toFile())
                .redirectErrorStream(true)
                .start();
        process.getOutputStream().close();
        String output = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor(1, TimeUnit.MINUTES)).isTrue();
        return new Result(process.exitValue(), output);
    }

    private static void assertSucceeds(String... arguments) throws IOException, InterruptedException {
        Result result = promtool(RULES, arguments);
        assertThat(result.exitCode()).as(result.output()).isZero();
        assertThat(result.output()).contains("SUCCESS");
    }

    @Test
    void theConfigurationAndTheRulesAreValid() throws Exception {
        assertSucceeds("check", "config", "prometheus.yml");
        assertSucceeds("check", "rules", "alerts.yml");
    }

    @Test
    void eachAlertFiresWhenItShouldAndNotBefore() throws Exception {
        assertSucceeds("test", "rules", "alerts-test.yml");
    }

    @Test
    void theTestsNoticeThresholdsThatAreOff(@TempDir Path directory) throws Exception {
        assertTestsNotice(
                directory,
                Map.of(
                        "(pgleader_leader) == 0", "(pgleader_leader) == 1",
                        "(pgleader_leader) > 1", "(pgleader_leader) > 2",
                        "absent(pgleader_leader)", "absent(pgleader_elections_total)",
                        "[1h])) > 5", "[1h])) > 50",
                        "[5m:15s]) > 6", "[5m:15s]) > 1",
                        "pgleader_checks_seconds_max > 1", "pgleader_checks_seconds_max > 0.5",
                        "[10m])) > 20", "[10m])) > 0",
                        "[15m]) > 0", "[15m]) >= 0"),
                "NobodyLeads",
                "TwoLeaders",
                "NotSeen",
                "Flapping",
                "Unconfirmed",
                "ChecksSlow",
                "CannotTakePart",
                "WorkFails");
    }

    @Test
    void theTestsNoticeAlertsThatAreHasty(@TempDir Path directory) throws Exception {
        assertTestsNotice(
                directory,
                Map.of("for: 1m", "for: 0m", "for: 5m", "for: 0m", "for: 10m", "for: 0m"),
                "NobodyLeads",
                "TwoLeaders",
                "NotSeen",
                "ChecksSlow",
                "CannotTakePart");
    }

    @Test
    void theTestsNoticeThatServicesAndRolesAreMixedUp(@TempDir Path directory) throws Exception {
        assertTestsNotice(
                directory,
                Map.of(
                        "by (namespace, job, elector) (pgleader",
                        "by (elector) (pgleader",
                        " and pgleader_leader == 1",
                        ""),
                "TwoLeaders",
                "Unconfirmed");
    }

    private static void assertTestsNotice(Path directory, Map<String, String> changes, String... alerts)
            throws IOException, InterruptedException {
        String rules = Files.readString(RULES.resolve("alerts.yml"));
        for (Map.Entry<String, String> change : changes.entrySet()) {
            assertThat(rules).contains(change.getKey());
            rules = rules.replace(change.getKey(), change.getValue());
        }
        Files.writeString(directory.resolve("alerts.yml"), rules);
        Files.copy(RULES.resolve("alerts-test.yml"), directory.resolve("alerts-test.yml"));
        Result result = promtool(directory, "test", "rules", "alerts-test.yml");
        assertThat(result.exitCode()).isNotZero();
        assertThat(alerts).allSatisfy(alert -> assertThat(result.output()).contains("alertname: PgLeader" + alert));
    }
}
