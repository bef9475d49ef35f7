package dev.pgleader.docs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderStatus;
import dev.pgleader.RevocationReason;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.micrometer.LeaderMetrics;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The documentation shows what the code is. Each check is also shown to fail on a page that is wrong. */
class DocumentationTest {

    private static List<MarkdownPage> pages;

    @BeforeAll
    static void read() throws IOException {
        pages = MarkdownPage.all();
    }

    private static MarkdownPage page(String path) {
        return pages.stream()
                .filter(page -> page.path().equals(Path.of(path)))
                .findFirst()
                .orElseThrow();
    }

    private static List<MarkdownPage> wrong(String markdown) {
        return List.of(MarkdownPage.parse(Path.of("docs/wrong.md"), markdown));
    }

    @Test
    void linksLeadSomewhere() {
        assertThat(pages).extracting(MarkdownPage::path).contains(Path.of("README.md"), Path.of("docs/fencing.md"));
        assertThat(pages.stream().flatMap(page -> page.links().stream())).hasSizeGreaterThan(50);
        assertThat(DocumentationChecks.brokenLinks(pages))
                .as("links to files or headings that don't exist")
                .isEmpty();

        List<MarkdownPage> wrong =
                wrong("# Here\n\n[a](keys.md#nowhere) [b](nobody.md) [c](#there) [d](#here) [e](../README.md)");
        assertThat(DocumentationChecks.brokenLinks(wrong))
                .containsExactly("docs/wrong.md: keys.md#nowhere", "docs/wrong.md: nobody.md", "docs/wrong.md: #there");
    }

    @Test
    void everyPageIsReachedFromTheIndex() {
        Set<Path> linked = pages.stream()
                .flatMap(page -> page.links().stream()
                        .map(link -> page.path()
                                .resolveSibling(link.replaceAll("#.*", ""))
                                .normalize()))
                .collect(Collectors.toSet());
        assertThat(pages)
                .as("pages, each of which some other page has to link")
                .extracting(MarkdownPage::path)
                .filteredOn(path -> path.startsWith("docs") && !path.startsWith("docs/decisions"))
                .isSubsetOf(linked);
    }

    @Test
    void testsThatAreNamedExist() {
        assertThat(DocumentationChecks.missingTestClasses(pages))
                .as("test classes that don't exist")
                .isEmpty();

        assertThat(DocumentationChecks.missingTestClasses(wrong("`DocumentationTest`, `NobodyWroteThisTest`")))
                .containsExactly("docs/wrong.md: NobodyWroteThisTest");
    }

    @Test
    void javaThatIsShownIsCompiled() {
        assertThat(pages.stream().flatMap(page -> page.blocks("java").stream())).hasSizeGreaterThan(5);
        assertThat(DocumentationChecks.uncompiledJava(pages))
                .as("Java that is in no source file: put it into one of the *Snippets, and run it")
                .isEmpty();

        assertThat(DocumentationChecks.uncompiledJava(wrong("```java\nelector." + "becomeLeaderNow();\n```")))
                .hasSize(1);
    }

    @Test
    void goThatIsShownGivesTheSameNumber() {
        assertThat(page("docs/keys.md").blocks("go")).hasSize(1);
        assertThat(DocumentationChecks.wrongGo(pages)).isEmpty();

        assertThat(DocumentationChecks.wrongGo(wrong("```go\nhash.Write([]byte(\"a\")) // 42\n```")))
                .hasSize(1);
    }

    @Test
    void logLinesThatAreShownAreWritten() {
        assertThat(page("docs/operations.md").blocks("log")).hasSize(1);
        assertThat(DocumentationChecks.unknownLogLines(pages))
                .as("log lines that no code writes")
                .isEmpty();

        List<MarkdownPage> wrong =
                wrong("```log\nINFO  [<elector>] Closed\nWARN  [<elector>] Closed\nINFO  [<elector>] Shut\n```");
        assertThat(DocumentationChecks.unknownLogLines(wrong))
                .containsExactly("WARN  [<elector>] Closed", "INFO  [<elector>] Shut");
    }

    @Test
    void metersAreThoseOfLeaderMetrics() {
        SimpleMeterRegistry registry = new SimpleMeterRegistry();
        new LeaderMetrics(LeaderElector.builder()
                        .connectTo(ConnectionSource.of("jdbc:postgresql:nowhere"))
                        .key("documentation")
                        .build())
                .bindTo(registry);
        Set<String> meters = registry.getMeters().stream()
                .map(Meter::getId)
                .map(Meter.Id::getName)
                .collect(Collectors.toSet());

        MarkdownPage metrics = page("docs/metrics.md");
        assertThat(DocumentationChecks.unknownMeters(metrics, meters)).isEmpty();
        assertThat(meters).allMatch(meter -> metrics.prose().contains("| `" + meter + "` |"));

        MarkdownPage wrong = wrong(
                        "`pgleader.leader` `pgleader.luck` pgleader_checks_seconds_max pgleader_checks_hours")
                .get(0);
        assertThat(DocumentationChecks.unknownMeters(wrong, meters))
                .containsExactly("pgleader.luck", "pgleader_checks_hours");
    }

    @Test
    void everyReasonFaultRoleAndProblemIsExplained() {
        String operations = page("docs/operations.md").prose();
        String guarantees = page("docs/guarantees.md").prose();
        for (RevocationReason reason : RevocationReason.values()) {
            if (reason != RevocationReason.LISTENER_REMOVED) {
                assertThat(operations).contains("`" + reason + "`");
                assertThat(guarantees).contains("`" + reason + "`");
            }
        }
        for (Fault fault : Fault.values()) {
            assertThat(operations).contains("`" + fault + "`");
        }
        for (LeaderStatus.Problem.Kind kind : LeaderStatus.Problem.Kind.values()) {
            assertThat(operations).contains("| `" + kind + "` |");
        }
        String states = page("docs/architecture.md").blocks("mermaid").get(2).text();
        for (LeaderStatus.Role role : LeaderStatus.Role.values()) {
            assertThat(states).contains(role.name());
        }
    }

    @Test
    void timesForTypicalSettingsFollowFromTheFormulas() {
        List<ElectorOptions> settings = List.of(
                ReferenceSnippets.fastOptions(),
                ElectorOptions.defaults(),
                ElectorOptions.builder()
                        .leaseDuration(Duration.ofSeconds(60))
                        .healthCheckInterval(Duration.ofSeconds(10))
                        .healthCheckTimeout(Duration.ofSeconds(10))
                        .retryInterval(Duration.ofSeconds(5))
                        .build());
        String table = page("docs/guarantees.md").prose();
        assertThat(table)
                .contains(row("`leaseDuration`", settings, each -> seconds(each.leaseDuration())))
                .contains(row("`safetyMargin` (default)", settings, each -> seconds(each.safetyMargin())))
                .contains(row("`trustWindow`", settings, each -> seconds(each.trustWindow())))
                .contains(row(
                        "`healthCheckInterval`, `healthCheckTimeout`",
                        settings,
                        each -> seconds(each.healthCheckInterval()) + ", " + seconds(each.healthCheckTimeout())))
                .contains(row("`retryInterval`", settings, each -> seconds(each.retryInterval())))
                .contains(row("next leader when the process dies", settings, each -> seconds(longestRetry(each))))
                .contains(row(
                        "next leader when it falls silent",
                        settings,
                        each -> seconds(each.leaseDuration().plus(longestRetry(each)))))
                .contains(row(
                        "of that, nobody believes to lead",
                        settings,
                        each -> seconds(each.safetyMargin().plus(longestRetry(each)))))
                .contains(row(
                        "a pause that costs no leadership, somewhat less than",
                        settings,
                        each -> seconds(each.trustWindow().minus(each.healthCheckInterval()))))
                .contains(row(
                        "two leaders in the uncovered cases with one primary, at most",
                        settings,
                        each -> seconds(each.trustWindow())))
                .contains(row(
                        "statements per minute: leader, each follower",
                        settings,
                        each -> 60_000 / each.healthCheckInterval().toMillis() + ", "
                                + 60_000 / each.retryInterval().toMillis()));
    }

    private static String row(String title, List<ElectorOptions> settings, Function<ElectorOptions, String> cell) {
        return Stream.concat(Stream.of(title), settings.stream().map(cell))
                .collect(Collectors.joining(" | ", "| ", " |"));
    }

    private static Duration longestRetry(ElectorOptions options) {
        return Duration.ofMillis(
                Math.round(options.retryInterval().toMillis() * (1 + ElectorOptions.DEFAULT_RETRY_JITTER)));
    }

    private static String seconds(Duration duration) {
        return BigDecimal.valueOf(duration.toMillis(), 3).stripTrailingZeros().toPlainString();
    }

    @Test
    void closeIsBoundedAsOperationsSay() {
        Duration bound = ElectorOptions.defaults().closeTimeout();
        assertThat(page("docs/operations.md").prose()).contains("(defaults: " + bound.toSeconds() + " s)");
    }

    @Test
    void keysAndTheirCollisionsAreComputed() {
        String keys = page("docs/keys.md").prose();
        for (String name : List.of("a", "billing/nightly-run", "nightly-billing", "Überweisung", "夜間バッチ")) {
            String number = LockKey.named(name).toString().replace("bigint:", "");
            assertThat(keys).contains("| `" + name + "` | " + number + " |");
        }
        for (int names : new int[] {100, 10_000, 1_000_000}) {
            double probability = (double) names * (names - 1) / Math.pow(2, 65);
            assertThat(keys).contains(String.format(Locale.ROOT, "| %,d | %.1e |", names, probability));
        }
    }

    @Test
    void keysThatAreShownInJavaAreAsSaid() {
        List<LockKey> keys = ReferenceSnippets.keys();
        assertThat(keys.get(0)).isEqualTo(keys.get(1)).isNotEqualTo(keys.get(2));
        assertThat(page("docs/keys.md").prose()).contains("`" + keys.get(0) + "`", "`" + keys.get(2) + "`");
    }

    @Test
    void aFenceThatIsNotClosedIsFound() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> wrong("```sql\nSELECT 1;"))
                .withMessageContaining("docs/wrong.md");
    }
}
