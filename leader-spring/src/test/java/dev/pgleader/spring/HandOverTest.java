package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockKey;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A leader-only job under way when leadership is given up, with two JVMs. More rounds with {@code -Dhandover.rounds=20}. */
class HandOverTest {

    private static final Duration PATIENCE = Duration.ofMinutes(3);
    /** Far less than a poll; generous, since the machine may be busy. */
    private static final Duration SOON = Duration.ofSeconds(15);

    private static final int ROUNDS = Integer.getInteger("handover.rounds", 1);

    private final String name = TestServer.uniqueName("job");

    /** One run of the job; the end is 0 as long as it goes on. */
    private record Run(int process, long begin, long end) {}

    /** How the leader is made to give leadership up. */
    enum End {
        SIGTERM,
        RESIGN,
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
                                "--pgleader.max-reconnect-delay=1m",
                                "--pgleader.cool-down=200ms",
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
            case RESIGN -> assertThat(leader.post("/resign", "").statusCode()).isEqualTo(200);
            case ACTUATOR ->
                assertThat(leader.post("/actuator/leader", "{\"action\":\"resign\"}")
                                .statusCode())
                        .isIn(200, 202);
            case SQL -> {
                try (Connection operator = DriverManager.getConnection(TestServer.url(), TestServer.USER, "");
                        Statement statement = operator.createStatement()) {
                    statement.execute("SELECT pg_notify('pgleader', 'resign " + LockKey.named(name) + "')");
                    // The leader looks who asks: that has to be there still.
                    statement.execute("SELECT pg_sleep(2)");
                } catch (SQLException e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource
    @DisplayName("Rule 9: a job of ten steps never runs in two processes at once, whatever ends the leadership of one")
    void theStepsOfTwoInstancesNeverInterleave(End end) {
        // Polls are far off, so that only what the leader tells brings a hand-over about. But requests in SQL are
        // looked at that often.
        String retry = "--pgleader.retry-interval=" + (end == End.SQL ? "2s" : "1m");
        List<SampleProcess> started = new ArrayList<>(List.of(start(retry), start(retry)));
        List<SampleProcess> pair = new ArrayList<>(started);
        List<Long> handOvers = new ArrayList<>();
        List<Long> begins = new ArrayList<>();
        try {
            started.forEach(process -> assertThat(process.port()).isPositive());
            await().atMost(PATIENCE)
                    .until(() -> !runs(pair.get(0), 0).isEmpty()
                            || !runs(pair.get(1), 1).isEmpty());
            if (runs(pair.get(0), 0).isEmpty()) {
                pair.add(pair.remove(0));
            }
            for (int round = 0; round < ROUNDS; round++) {
                SampleProcess leader = pair.get(0);
                SampleProcess follower = pair.get(1);
                awaitUnderWay(leader, leader.lines().size());
                int seen = follower.lines().size();
                giveUp(end, leader);
                awaitUnderWay(follower, seen);
                List<Run> ended = runs(leader, 0);
                long jobEnd = ended.get(ended.size() - 1).end();
                assertThat(jobEnd).as("end of the last of " + ended).isNotZero();
                handOvers.add(untilFirst("elected ", follower, jobEnd));
                begins.add(untilFirst("begin ", follower, jobEnd));
                pair.add(pair.remove(0));
                if (end == End.SIGTERM) {
                    assertThat(leader.exitCode()).isEqualTo(143);
                    pair.set(1, start(retry));
                    started.add(pair.get(1));
                    assertThat(pair.get(1).port()).isPositive();
                }
            }
            int jobs = requireDisjoint(started);
            System.out.println(
                    end + ": " + jobs + " jobs, none beside another. In ms, from a job's end until the next leader is"
                            + " elected: " + summary(handOvers) + ", and begins its job: " + summary(begins));
            assertThat(handOvers).allMatch(millis -> millis < SOON.toMillis());
        } finally {
            started.forEach(SampleProcess::close);
        }
    }

    private static String summary(List<Long> values) {
        List<Long> sorted = values.stream().sorted().toList();
        int last = sorted.size() - 1;
        return "p50 " + sorted.get(last / 2) + ", p90 " + sorted.get(last * 9 / 10) + ", max " + sorted.get(last)
                + " of " + values;
    }

    /** The time in ms from then to what the process first says after it. */
    private static long untilFirst(String what, SampleProcess process, long since) {
        return process.lines().stream()
                .filter(line -> line.text().startsWith(what))
                .mapToLong(line -> Long.parseLong(line.text().substring(what.length())) - since)
                .filter(elapsed -> elapsed >= 0)
                .map(elapsed -> Duration.ofNanos(elapsed).toMillis())
                .findFirst()
                .orElseThrow(() -> new AssertionError("No " + what + "after the job's end in " + process));
    }

    /** The number of jobs. */
    private static int requireDisjoint(List<SampleProcess> processes) {
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
        return all.size();
    }

    @Test
    @DisplayName("Rule 9: a job that is longer than the revoke timeout is left alone then, and the log names it")
    void aJobThatIsTooLongIsNamed() {
        String[] options = {"--test.step-millis=1000", "--pgleader.revoke-timeout=3s"};
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
                Duration until = Duration.ofNanos(next.arrivalNanos() - begin);
                System.out.println("From the request to the next job, with a revoke timeout of 3 s: " + until);
                assertThat(until)
                        .isBetween(Duration.ofSeconds(3), Duration.ofSeconds(3).plus(SOON));
                assertThat(leader.get("/actuator/prometheus").body())
                        .containsPattern("pgleader_calls_cut_off_total\\{[^}]*Job.run\"[^}]*} 1.0");
            }
        }
    }
}
