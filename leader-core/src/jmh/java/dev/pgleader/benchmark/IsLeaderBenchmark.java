package dev.pgleader.benchmark;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderInfo;
import dev.pgleader.TakeoverDelay;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** What it costs to ask an elector that takes part in an election on a real server. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(3)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@State(Scope.Benchmark)
public class IsLeaderBenchmark {

    private static final Duration PATIENCE = Duration.ofSeconds(20);

    /** Which of two electors is asked. */
    public enum Asked {
        LEADER,
        FOLLOWER
    }

    @Param
    public Asked asked;

    private PostgresServer server;
    private LeaderElector leader;
    private LeaderElector follower;
    private LeaderElector elector;

    @Setup
    public void elect() throws InterruptedException {
        server = PostgresServer.launch();
        leader = elector("leader");
        leader.start();
        leader.awaitLeadership(PATIENCE).orElseThrow();
        follower = elector("follower");
        follower.start();
        Awaitility.await()
                .atMost(PATIENCE)
                .until(
                        () -> follower.status().knownLeader().map(LeaderInfo::instanceId),
                        Optional.of("leader")::equals);
        elector = asked == Asked.LEADER ? leader : follower;
    }

    private LeaderElector elector(String id) {
        return LeaderElector.builder()
                .connectTo(ConnectionSource.of(
                        server.url(PostgresServer.DEFAULT_DATABASE), server.superuser(), server.superuserPassword()))
                .key("benchmark")
                .instanceId(id)
                .options(ElectorOptions.builder()
                        .takeoverDelay(TakeoverDelay.NONE)
                        .build())
                .build();
    }

    @Benchmark
    public boolean isLeader() {
        return elector.isLeader();
    }

    @TearDown
    public void end() {
        if (elector.isLeader() != (asked == Asked.LEADER)) {
            throw new IllegalStateException("The roles changed meanwhile: " + leader.status() + follower.status());
        }
        follower.close();
        leader.close();
        server.close();
    }
}
