package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;

import dev.pgleader.ServerCost.Cost;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What a leader and nine followers cost the server while nothing happens, and what an election costs it. */
@Tag("benchmark")
class ServerCostBenchmark {

    private static final Duration TIME = Duration.ofSeconds(Integer.getInteger("benchmark.seconds", 60));
    private static final int FOLLOWERS = 9;
    private static final MarkdownTable TABLE = new MarkdownTable(
            "mode",
            "role",
            "statements/s of each",
            "goal",
            "backend CPU of each, ms/s",
            "WAL bytes of all",
            "WAL bytes of the server",
            "rows written");
    private static final MarkdownTable HAND_OVERS =
            new MarkdownTable("mode", "statements of all", "WAL bytes of the server");

    private static PostgresServer server;

    @BeforeAll
    static void start() throws Exception {
        server = ServerCost.launchServer(100, 0);
    }

    @AfterAll
    static void report() {
        TABLE.print();
        System.out.println("From resign() until all " + (FOLLOWERS + 1) + " know the next leader:");
        HAND_OVERS.print();
        server.close();
    }

    @ParameterizedTest
    @EnumSource
    void oneLeaderAndNineFollowers(AcquisitionMode mode) throws Exception {
        ElectorOptions options = ElectorOptions.builder()
                .acquisitionMode(mode)
                .takeoverDelay(TakeoverDelay.NONE)
                .build();
        String suffix = mode.toString().toLowerCase(Locale.ROOT);
        String leaders = "leader_" + suffix;
        String followers = "followers_" + suffix;
        List<TestCandidate> candidates = new ArrayList<>();
        try (ServerCost cost = ServerCost.of(server, leaders, followers)) {
            TestCandidate leader = start(leaders, 0, options);
            candidates.add(leader);
            leader.awaitElected(1);
            for (int follower = 1; follower <= FOLLOWERS; follower++) {
                candidates.add(start(followers, follower, options));
            }
            awaitKnownLeader(candidates, "0");

            // The server's statistics lag behind by some seconds.
            cost.during(options.healthCheckInterval().multipliedBy(3));

            long rows = cost.rowsWritten();
            long wal = cost.walBytesOfServer();
            Map<String, Cost> costs = cost.during(TIME);
            wal = cost.walBytesOfServer() - wal;
            rows = cost.rowsWritten() - rows;
            row(mode, "leader", 1, costs.get(leaders), options.healthCheckInterval(), wal, rows);
            row(mode, "follower", FOLLOWERS, costs.get(followers), options.retryInterval(), wal, rows);
            cost.printStatements();

            long walBefore = cost.walBytesOfServer();
            Map<String, Cost> handOver = cost.during(() -> {
                leader.elector().resign().orTimeout(10, TimeUnit.SECONDS).join();
                Awaitility.await()
                        .atMost(PATIENCE)
                        .until(() -> candidates.stream()
                                .filter(candidate -> candidate != leader)
                                .anyMatch(candidate -> candidate.elector().isLeader()));
                awaitKnownLeader(candidates, leaderOf(candidates));
            });
            HAND_OVERS.row(
                    mode,
                    handOver.values().stream().mapToLong(Cost::statements).sum(),
                    cost.walBytesOfServer() - walBefore);
        } finally {
            candidates.forEach(TestCandidate::close);
        }
    }

    private static void row(
            AcquisitionMode mode, String role, int count, Cost cost, Duration interval, long wal, long rows) {
        TABLE.row(
                mode,
                role,
                "%.2f".formatted(cost.statementsPerSecond() / count),
                "<= %.2f".formatted(1e3 / interval.toMillis()),
                "%.2f".formatted(cost.cpuMillisPerSecond() / count),
                cost.walBytes(),
                wal,
                rows);
    }

    private static TestCandidate start(String role, int id, ElectorOptions options) {
        return TestCandidate.start(
                Integer.toString(id),
                ServerCost.as(role, server),
                LockKey.named("benchmark"),
                builder -> builder.options(options));
    }

    private static String leaderOf(List<TestCandidate> candidates) {
        return candidates.stream()
                .map(TestCandidate::elector)
                .filter(LeaderElector::isLeader)
                .map(LeaderElector::instanceId)
                .findAny()
                .orElseThrow();
    }

    private static void awaitKnownLeader(List<TestCandidate> candidates, String id) {
        Awaitility.await()
                .atMost(PATIENCE)
                .until(() -> candidates.stream()
                        .allMatch(candidate -> candidate
                                .elector()
                                .status()
                                .knownLeader()
                                .filter(leader -> leader.instanceId().equals(id))
                                .isPresent()));
    }
}
