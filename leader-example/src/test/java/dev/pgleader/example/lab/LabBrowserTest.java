package dev.pgleader.example.lab;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.pgleader.AcquisitionMode;
import dev.pgleader.example.lab.node.LabSettings;
import dev.pgleader.example.lab.supervisor.NodeState;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The page, as a person sees it: in Chromium, where that is installed, and always with {@code -Dlab.browser.required=true}. */
class LabBrowserTest {

    private static RunningLab lab;
    private static Browser browser;

    @BeforeAll
    static void start() {
        assumeTrue(
                Browser.isInstalled() || Boolean.getBoolean("lab.browser.required"),
                "no browser (apt-get install chromium chromium-driver)");
        lab = RunningLab.shared();
        browser = new Browser();
        browser.size(1280, 900);
        browser.open(lab.address());
    }

    @AfterAll
    static void end() {
        if (browser != null) {
            browser.close();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1280, 390})
    void showsAFailoverAndAMailThatIsTooLate(int width) throws IOException {
        browser.size(width, width == 1280 ? 900 : 844);
        browser.colours(width == 1280 ? "light" : "dark");
        String first = lab.recover();
        RunningLab.until("the page shows the leader").until(() -> stateOf(first).startsWith("leader, term "));
        long failovers = failovers();

        browser.press("kill −9: " + first);
        RunningLab.until("the lane of the dead and that of the new leader show it")
                .until(() -> stateOf(first).equals("dead") && leaders().size() == 1);
        RunningLab.until("the gap is measured and drawn").until(() -> failovers() > failovers);
        awaitShown(
                "the headline",
                () -> browser.text("#leadership"),
                () -> leaders().get(0) + " leads");
        awaitShown("the headline", () -> browser.text("#leadership"), () -> "last gap");
        awaitShown(
                "the server's lane",
                LabBrowserTest::lanes,
                () -> "pg_locks: " + leaders().get(0));
        awaitShown("the lane of the dead", LabBrowserTest::lanes, () -> first + ": dead");
        browser.screenshot("lab-killed-" + width);

        browser.press("Restart: " + first);
        String second = lab.awaitLeader();
        int late = browser.all("#mails tr.late").size();
        RunningLab.until("the page shows the leader")
                .until(() -> stateOf(second).startsWith("leader, term "));
        browser.press("Pause mid-job: " + second);
        RunningLab.until("it's paused and another leads")
                .until(() -> stateOf(second).equals("paused") && leaders().size() == 1);
        RunningLab.outlastTolerance();
        browser.press("Continue: " + second);
        RunningLab.until("its mail is red")
                .until(() -> browser.all("#mails tr.late").size() > late);
        awaitShown("the newest red mail", () -> browser.text("#mails tr.late"), () -> second);
        awaitShown("the newest red mail", () -> browser.text("#mails tr.late"), () -> "sent too late");
        RunningLab.until("its entry was rolled back")
                .until(() -> !browser.all("#entries tr.rolled-back").isEmpty());
        lab.awaitLeader();
        RunningLab.until("all is well again").until(() -> leaders().size() == 1);

        assertThat(width()).as("nothing is wider than the page").isLessThanOrEqualTo(width);
        browser.screenshot("lab-" + width);
        assertThat(browser.complaints()).isEmpty();
    }

    @Test
    void countsInRedWhileNobodyLeads() throws IOException {
        String before = lab.recover();
        RunningLab.until("the page shows the leader")
                .until(() -> stateOf(before).startsWith("leader, term "));
        browser.run("document.querySelector('#span').value = '30'");
        browser.press("kill −9: " + before);
        RunningLab.until("another one leads")
                .until(() -> lab.snapshot().leaders().size() == 1
                        && !lab.snapshot().leaders().contains(before));
        browser.press("Restart: " + before);
        RunningLab.until("it's back").until(() -> lab.node(before).state() == NodeState.FOLLOWER);
        String leader = lab.awaitLeader();
        RunningLab.until("the page shows the leader")
                .until(() ->
                        stateOf(leader).startsWith("leader, term ") && leaders().size() == 1);
        browser.press("Suspend: " + leader);
        awaitShown("the headline", () -> browser.text("#headline"), () -> "Nobody leads: ");
        awaitShown("the card", () -> stateOf(leader), () -> "suspended");
        awaitShown("its lane", LabBrowserTest::lanes, () -> leader + ": suspended");
        // As far as that lasts: on a busy machine another one may lead in the last of them.
        for (int width : List.of(1280, 390)) {
            for (String colours : List.of("light", "dark")) {
                browser.size(width, width == 1280 ? 900 : 844);
                browser.colours(colours);
                String headline = browser.text("#headline");
                browser.screenshot("lab-" + width + "-" + colours + (headline.startsWith("Nobody") ? "" : "-led"));
            }
        }
        awaitShown("the headline", () -> browser.text("#headline"), () -> " leads, term ");
        awaitShown("the story", () -> browser.text("#story"), () -> "You suspended the machine of " + leader);
        awaitShown("the story", () -> browser.text("#story"), () -> "Nobody had led for ");
        assertThat(browser.run("return getComputedStyle(document.querySelector('#headline')).color"))
                .as("red is for nobody")
                .isEqualTo(browser.run("return getComputedStyle(document.body).color"));
        browser.press("Wake up: " + leader);
        RunningLab.until("it follows").until(() -> stateOf(leader).equals("follower"));
    }

    @Test
    void showsThatForgedNoticesChangeNothing() throws IOException {
        String leader = lab.recover();
        browser.pressButton("Forge notices");
        awaitShown("the story", () -> browser.text("#story"), () -> "A stranger sent 200 forged notices. ");
        awaitShown("the headline", () -> browser.text("#headline"), () -> leader + " leads");
        browser.screenshot("lab-forged-notices");
    }

    @Test
    void showsThatADeploymentDoublesNoJob() throws IOException {
        lab.recover();
        browser.pressButton("Rolling deployment");
        awaitShown("the story", () -> browser.text("#story"), () -> "The deployment is done: ");
        awaitShown("the job of several steps", () -> browser.text("#runs"), () -> "step 5 of 5 done");
        assertThat(browser.text("#run-count")).endsWith("0 steps of a doubled one");
        browser.screenshot("lab-deployment");
        lab.awaitLeader();
    }

    @Test
    void eachButtonTellsWhatItDoes() {
        lab.recover();
        RunningLab.until("each has a tooltip")
                .untilAsserted(() -> assertThat(browser.all("button"))
                        .hasSizeGreaterThan(25)
                        .allSatisfy(button -> assertThat(button.getAttribute("title"))
                                .as(button.getText())
                                .isNotBlank()));
        assertThat(browser.all("#help dt"))
                .hasSameSizeAs(browser.all("#help dd"))
                .hasSizeGreaterThan(10);
    }

    @ParameterizedTest
    @CsvSource({
        "5000, 200, 600",
        "999, 200, 600",
        "1000, 50, 100",
        "1001, 51, 101",
        "60000, 60000, 10000",
        "60001, 200, 600",
        "5000, 49, 600",
        "5000, 5000, 600",
        "5000, 5001, 600",
        "5000, 200, 99",
        "5000, 200, 10001"
    })
    void theFieldsRefuseWhatTheServerRefuses(int lease, int retry, int job) {
        boolean accepted = (Boolean) browser.run(
                "const form = document.querySelector('#settings');"
                        + "['leaseMillis', 'retryMillis', 'jobMillis'].forEach((name, i) => {"
                        + "  form.elements[name].value = arguments[i];"
                        + "  form.elements[name].dispatchEvent(new Event('input'));"
                        + "});"
                        + "return form.checkValidity();",
                lease,
                retry,
                job);
        assertThat(accepted).isEqualTo(isAcceptedByTheServer(lease, retry, job));
    }

    private static boolean isAcceptedByTheServer(int lease, int retry, int job) {
        try {
            new LabSettings(
                    Duration.ofMillis(lease), Duration.ofMillis(retry), Duration.ofMillis(job), AcquisitionMode.POLL);
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    @Test
    void isDrivenByKeyboardAndShowsWhereTheFocusIs() {
        lab.recover();
        RunningLab.until("the page has heard that all is well")
                .until(() ->
                        !browser.all("button[aria-label='Cut network: node-1']").isEmpty());
        browser.run("document.querySelector('button[aria-label=\"Cut network: node-1\"]').focus()");
        RunningLab.until("it has the focus").until(() -> browser.all(":focus").size() == 1);
        browser.all(":focus").get(0).sendKeys(" ");
        RunningLab.until("it's cut off").until(() -> lab.node("node-1").cutOff());
        RunningLab.until("the button heals now")
                .until(() -> "Heal network: node-1"
                        .equals(browser.all(":focus").get(0).getAttribute("aria-label")));
        RunningLab.until("the focus is drawn")
                .until(() ->
                        "solid".equals(browser.run("return getComputedStyle(document.activeElement).outlineStyle")));
        browser.all(":focus").get(0).sendKeys(" ");
        RunningLab.until("it's healed").until(() -> !lab.node("node-1").cutOff());
        RunningLab.until("it's well")
                .until(() -> lab.node("node-1").state() == NodeState.FOLLOWER
                        || lab.node("node-1").state() == NodeState.LEADER);
    }

    @Test
    void contactsNobodyElse() {
        Object addresses = browser.run(
                "return performance.getEntriesByType('resource').map(entry => entry.name)"
                        + ".concat([...document.querySelectorAll('[href], [src]')].map(element => element.href ?? element.src))");
        assertThat((List<?>) addresses)
                .hasSizeGreaterThan(8)
                .allSatisfy(address -> assertThat((String) address).startsWith(lab.address() + "/"));
    }

    private static String stateOf(String node) {
        return browser.text("[data-node='" + node + "'] .state");
    }

    private static List<String> leaders() {
        return browser.all("[data-state='LEADER']").stream()
                .map(card -> card.getAttribute("data-node"))
                .toList();
    }

    private static long failovers() {
        String count = browser.text("#failover-count");
        return count.startsWith("No ") ? 0 : Long.parseLong(count.substring(0, count.indexOf(' ')));
    }

    private static @Nullable String lanes() {
        return browser.all("#timeline").get(0).getAttribute("aria-label");
    }

    /**
     * Waits until the page shows a text. Each part of it is fed by another source at another moment: what the node said, a look
     * at {@code pg_locks}, the next drawing. So whoever has waited for one of them still has to wait for the next.
     */
    private static void awaitShown(String where, Supplier<@Nullable String> shown, Supplier<String> expected) {
        RunningLab.until(where + " shows it")
                .untilAsserted(() -> assertThat(shown.get()).contains(expected.get()));
    }

    private static long width() {
        return (Long) browser.run("return document.documentElement.scrollWidth");
    }
}
