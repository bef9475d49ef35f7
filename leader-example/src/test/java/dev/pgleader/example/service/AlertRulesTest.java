package dev.pgleader.example.service;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
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
        boolean installed = Stream.of(System.getenv("PATH").split(":"))
                .anyMatch(directory -> Files.isExecutable(Path.of(directory, "promtool")));
        if (!installed) {
            System.err.println(
                    "!!!! SKIPPED: the tests of the alert rules, for lack of promtool (apt-get install prometheus)");
        }
        assumeTrue(installed, "promtool is not installed");
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
    void theTestsNoticeEachChangeOfARule(@TempDir Path directory) throws Exception {
        String rules = Files.readString(RULES.resolve("alerts.yml"));
        List<String[]> changes = List.of(
                new String[] {"(pgleader_leader) == 0", "(pgleader_leader) == 1"},
                new String[] {"(pgleader_leader) > 1", "(pgleader_leader) > 2"},
                new String[] {"for: 1m", "for: 0m"},
                new String[] {"for: 5m", "for: 0m"},
                new String[] {"for: 10m", "for: 0m"},
                new String[] {"[1h])) > 5", "[1h])) > 50"},
                new String[] {" and pgleader_leader == 1", ""},
                new String[] {"[5m:15s]) > 6", "[5m:15s]) > 1"},
                new String[] {"pgleader_checks_seconds_max > 1", "pgleader_checks_seconds_max > 0.5"},
                new String[] {"[10m])) > 20", "[10m])) > 0"},
                new String[] {"[15m]) > 0", "[15m]) >= 0"},
                new String[] {"by (namespace, job, elector) (pgleader", "by (elector) (pgleader"});
        String tests = Files.readString(RULES.resolve("alerts-test.yml"));
        List<String> arguments = new ArrayList<>(List.of("test", "rules"));
        for (int index = 0; index < changes.size(); index++) {
            String[] change = changes.get(index);
            assertThat(rules).contains(change[0]);
            String changed = "changed-" + index + ".yml";
            Files.writeString(directory.resolve(changed), rules.replace(change[0], change[1]));
            String test = "test-" + index + ".yml";
            Files.writeString(directory.resolve(test), tests.replace("- alerts.yml", "- " + changed));
            arguments.add(test);
        }
        // One process for all of them: it takes long to start.
        String[] results =
                promtool(directory, arguments.toArray(String[]::new)).output().split("Unit Testing: ");
        assertThat(results).hasSize(changes.size() + 1);
        for (int index = 0; index < changes.size(); index++) {
            assertThat(results[index + 1])
                    .as("%s instead of %s", changes.get(index)[1], changes.get(index)[0])
                    .contains("test-" + index + ".yml", "FAILED", "alertname")
                    .doesNotContain("SUCCESS");
        }
    }
}
