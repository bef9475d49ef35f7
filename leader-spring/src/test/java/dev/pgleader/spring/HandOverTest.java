package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * A leader-only job under way when leadership is given up, with two JVMs. More rounds with {@code -Dpgleader.hand-overs=20}.
 */
class HandOverTest {

    private static final Duration PATIENCE = Duration.ofMinutes(3);
    private static final int ROUNDS = Integer.getInteger("pgleader.hand-overs", 1);

    private final String name = TestServer.uniqueName("job");

    /** One run of the job; the end is 0 as long as it goes on. */
    private record Run(int process, long begin, long end) {}

    /** How the leader is made to give leadership up. */
    enum End {
        SIGTERM,
        ACTUATOR,
        SQL
    }

    private SampleProcess start(String... more) {
        return new SampleProcess(Stream.concat(
                        Stream.of(
                                "--spring.datasource.url=" + TestServer.url(),
                                "--spring.datasource.username=" + TestServer.USER,
                                "--spring.datasource.hikari.minimum-idle=0",
                                "--spring.application.name=" + name,
                                "--spring.profiles.active=job",
                                "--pgleader.takeover-delay=none",
                                "--pgleader.retry-interval=200ms",
                                "--management.endpoint.leader.access=unrestricted",
                                "--management.endpoints.web.exposure.include=*"),
                        Stream.of(more))
                .toList());
    }

    private static List<Run> runs(SampleProcess process, int number) {
        List<Run> runs = new ArrayList<>();
        for (SampleProcess.Line line : process.lines()) {
            if (line.text().startsWith("begin ")) {
                runs.add(new Run(number, Long.parseLong(line.text().substring("begin ".length())), 0));
            } else if (line.text().startsWith("end ")) {
                Run last = runs.remove(runs.size() - 1);
                runs.add(
                        new Run(number, last.begin(), Long.parseLong(line.text().substring("end ".length()))));
            }
        }
        return runs;
    }

    /** Waits until a job has begun after the first {@code seen} lines and is under way. */
    private static void awaitUnderWay(SampleProcess process, int seen) {
        await("a job under way in " + process).atMost(PATIENCE).until(() -> {
            List<String> texts =
                    process.lines().stream().map(SampleProcess.Line::text).toList();
            List<String> later = texts.subList(seen, texts.size());
            return later.lastIndexOf("step 2") > Math.max(indexOfLast(later, "end "), indexOfLast(later, "step 5"));
        });
    }

    private static int indexOfLast(List<String> texts, String beginning) {
        for (int i = texts.size() - 1; i >= 0; i--) {
            if (texts.get(i).startsWith(beginning)) {
                return i;
            }
        }
        return -1;
    }

    private void giveUp(End end, SampleProcess leader) {
        switch (end) {
            case SIGTERM -> leader.terminate();
            case ACTUATOR ->
                assertThat(leader.post("/actuator/leader", "{\"action\":\"resign\"}")
                                .statusCode())
                        .isIn(200, 202);
            case SQL ->
                TestServer.query("SELECT pg_notify('pgleader', 'resign "
                        + LockKey.named(name).toString() + "')::text");
        }
    }

    @ParameterizedTest
    @EnumSource
    @DisplayName("Rule 9: a job of ten steps never runs in two processes at once, whatever ends the leadership of one")
    void theStepsOfTwoInstancesNeverInterleave(End end) {
        List<SampleProcess> started = new ArrayList<>(List.of(start(), start()));
        List<SampleProcess> pair = new ArrayList<>(started);
        List<Long> waits = new ArrayList<>();
        try {
            await().atMost(PATIENCE)
                    .until(() -> !runs(pair.get(0), 0).isEmpty()
                            || !runs(pair.get(1), 1).isEmpty());
            if (runs(pair.get(0), 0).isEmpty()) {
                pair.add(pair.remove(0));
            }
            assertThat(pair.get(1).port()).isPositive();
            for (int round = 0; round < ROUNDS; round++) {
                SampleProcess leader = pair.get(0);
                SampleProcess follower = pair.get(1);
                awaitUnderWay(leader, leader.lines().size());
                int seen = follower.lines().size();
                giveUp(end, leader);
                awaitUnderWay(follower, seen);
                waits.add(firstAfter(runs(follower, 1), runs(leader, 0)));
                if (end == End.SIGTERM) {
                    assertThat(leader.exitCode()).isEqualTo(143);
                    pair.remove(0);
                    SampleProcess next = start();
                    started.add(next);
                    pair.add(next);
                    assertThat(next.port()).isPositive();
                } else {
                    pair.add(pair.remove(0));
                }
            }
            requireDisjoint(started);
            System.out.println(end + ": from a job's end to the next begin elsewhere, in ms: " + waits);
        } finally {
            started.forEach(SampleProcess::close);
        }
    }

    /** The time in ms from the last end of {@code ended} to the first begin after it. */
    private static long firstAfter(List<Run> begun, List<Run> ended) {
        long end = ended.get(ended.size() - 1).end();
        assertThat(end).as("end of " + ended).isNotZero();
        return begun.stream()
                .mapToLong(Run::begin)
                .filter(begin -> begin >= end)
                .map(begin -> Duration.ofNanos(begin - end).toMillis())
                .findFirst()
                .orElseThrow(() -> new AssertionError("No job begins after " + ended + " in " + begun));
    }

    private static void requireDisjoint(List<SampleProcess> processes) {
        List<Run> all = new ArrayList<>();
        for (int i = 0; i < processes.size(); i++) {
            all.addAll(runs(processes.get(i), i));
        }
        all.sort(Comparator.comparingLong(Run::begin));
        for (int i = 1; i < all.size(); i++) {
            Run before = all.get(i - 1);
            assertThat(before.end()).as("end of " + before + " among " + all).isNotZero();
            assertThat(all.get(i).begin()).as("begin after " + before).isGreaterThanOrEqualTo(before.end());
        }
        assertThat(all.stream().map(Run::process).distinct().count()).isGreaterThan(1);
    }

    @Test
    @DisplayName("Rule 9: a job that is longer than the revoke timeout is left alone then, and the log names it")
    void aJobThatIsTooLongIsNamed() {
        String[] options = {"--test.step-millis=2000", "--pgleader.revoke-timeout=1s"};
        try (SampleProcess leader = start(options)) {
            leader.await("step 1");
            try (SampleProcess follower = start(options)) {
                assertThat(follower.port()).isPositive();
                awaitUnderWay(leader, leader.lines().size());
                long begin = System.nanoTime();
                assertThat(leader.post("/actuator/leader", "{\"action\":\"pause\"}")
                                .body())
                        .contains("\"outcome\":\"accepted\"", "\"role\":\"RESIGNING\"");
                SampleProcess.Line next = follower.await("step 1");
                SampleProcess.Line named = await().atMost(PATIENCE)
                        .until(
                                () -> leader.lines().stream()
                                        .filter(line -> line.text().contains("The lock is gone while"))
                                        .findFirst()
                                        .orElse(null),
                                line -> line != null);
                assertThat(named.text()).contains("dev.pgleader.spring.sample.Job.run");
                assertThat(Duration.ofNanos(next.arrivalNanos() - begin)).isLessThan(Duration.ofSeconds(15));
                assertThat(leader.get("/actuator/prometheus").body())
                        .containsPattern("pgleader_calls_cut_off_total\\{[^}]*Job.run\"[^}]*} 1.0");
            }
        }
    }
}
