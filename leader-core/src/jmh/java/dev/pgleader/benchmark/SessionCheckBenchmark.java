package dev.pgleader.benchmark;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockTableFullException;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
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

/** One round trip that proves a session and all of its locks. */
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(3)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 2)
@State(Scope.Benchmark)
public class SessionCheckBenchmark {

    @Param({"1", "100", "2000"})
    public int keys;

    private PostgresServer server;
    private LockSession session;
    private Set<LockKey> held;

    @Setup
    public void lock() throws LockSessionException, LockTableFullException {
        server = PostgresServer.builder()
                .setting("max_locks_per_transaction", "128")
                .launch();
        session = LockSession.open(
                ConnectionSource.of(
                        server.url(PostgresServer.DEFAULT_DATABASE), server.superuser(), server.superuserPassword()),
                new LockSession.Settings("benchmark", Duration.ofMinutes(10), Duration.ofSeconds(10), true));
        held = LongStream.range(0, keys).mapToObj(LockKey::of).collect(Collectors.toSet());
        if (!session.attempt(held).granted().equals(held)) {
            throw new IllegalStateException("Not all of " + keys + " keys were granted");
        }
    }

    @Benchmark
    public Set<LockKey> check() throws LockSessionException {
        return session.check();
    }

    @TearDown
    public void end() throws LockSessionException {
        if (!session.check().equals(held)) {
            throw new IllegalStateException("Locks were lost meanwhile");
        }
        session.close();
        server.close();
    }
}
