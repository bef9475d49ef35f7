package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKey;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** R20: how long an orderly end takes at the most, with the default options; Kubernetes kills after 30 s. */
@Timeout(300)
class CloseInTimeTest {

    /** {@link ElectorOptions#closeTimeout()} is 24 s. */
    private static final Duration BOUND = Duration.ofSeconds(30);

    private static final ElectorOptions DEFAULTS =
            ElectorOptions.builder().takeoverDelay(TakeoverDelay.NONE).build();

    private final PostgresServer server = PostgresServer.shared();
    private final List<AutoCloseable> opened = new ArrayList<>();
    private final CountDownLatch hang = new CountDownLatch(1);

    @AfterEach
    void close() throws Exception {
        hang.countDown();
        for (AutoCloseable each : opened) {
            each.close();
        }
    }

    private LeaderElector start(String name, LockKey key, int port, ElectorOptions options, boolean hangs) {
        LeaderElector elector = LeaderElector.builder()
                .connectTo(direct(server, port))
                .key(key)
                .name(name)
                .options(options)
                .listener(new LeadershipListener() {
                    @Override
                    public void onElected(Leadership leadership) {}

                    @Override
                    public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
                        if (hangs) {
                            hang.await();
                        }
                    }
                })
                .build();
        opened.add(elector);
        elector.start();
        return elector;
    }

    private LeaderElector leader(String name, int port, boolean hangs) throws InterruptedException {
        return leader(name, freshKey(), port, hangs);
    }

    private LeaderElector leader(String name, LockKey key, int port, boolean hangs) throws InterruptedException {
        LeaderElector elector = start(name, key, port, DEFAULTS, hangs);
        assertThat(elector.awaitLeadership(PATIENCE)).isPresent();
        return elector;
    }

    private TcpProxy network() {
        TcpProxy network = new TcpProxy(server.port());
        opened.add(network);
        return network;
    }

    /**
     * All of it at the same time, since each takes as long as it may; among it a pod that is ended: SIGTERM, and a shutdown hook
     * that closes the elector.
     */
    @Test
    void theEndComesInTimeWhateverHangs() throws Exception {
        JavaProcess process = JavaProcess.start(
                HangingProcess.class,
                server.url(PostgresServer.DEFAULT_DATABASE),
                server.superuser(),
                server.superuserPassword(),
                Long.toString(freshKeyBits()));
        opened.add(process);
        process.awaitLine("^leads", PATIENCE);

        List<LeaderElector> closing = new ArrayList<>();

        closing.add(leader("callbacks hang", server.port(), true));

        TcpProxy silentAtLogin = network();
        silentAtLogin.all().flow(TcpProxy.Flow.HOLD);
        LeaderElector loggingIn = start("login hangs", freshKey(), silentAtLogin.port(), DEFAULTS, false);
        await().atMost(PATIENCE).until(() -> silentAtLogin.acceptedConnections() > 0);
        closing.add(loggingIn);

        TcpProxy silent = network();
        closing.add(leader("check hangs", silent.port(), false));
        TcpProxy silentToo = network();
        closing.add(leader("check and callbacks hang", silentToo.port(), true));

        LeaderElector holder = leader("holder", server.port(), false);
        LeaderElector queued = start(
                "waits in the queue",
                holder.key(),
                server.port(),
                DEFAULTS.toBuilder().acquisitionMode(AcquisitionMode.QUEUE).build(),
                false);
        await().atMost(PATIENCE).until(() -> queued.status().knownLeader().isPresent());
        closing.add(queued);

        silent.all().flow(TcpProxy.Flow.HOLD);
        silentToo.all().flow(TcpProxy.Flow.HOLD);
        long start = System.nanoTime();
        process.stop();
        CompletableFuture<Duration> endOfProcess = CompletableFuture.supplyAsync(
                () -> {
                    process.exitCode(PATIENCE);
                    return Duration.ofNanos(System.nanoTime() - start);
                },
                task -> new Thread(task, "end of the process").start());
        List<CompletableFuture<Duration>> ends = closing.stream()
                .map(elector -> CompletableFuture.supplyAsync(
                        () -> {
                            elector.close();
                            return Duration.ofNanos(System.nanoTime() - start);
                        },
                        task -> new Thread(task, "closing " + elector.name()).start()))
                .toList();
        for (int i = 0; i < closing.size(); i++) {
            Duration took = ends.get(i).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            System.out.println("close() while " + closing.get(i).name() + ": " + took.toMillis() + " ms");
            assertThat(took).as(closing.get(i).name()).isLessThan(BOUND);
            assertThat(closing.get(i).isLeader()).isFalse();
        }
        Duration took = endOfProcess.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        System.out.println("SIGTERM to the end of the process while onRevoked hangs: " + took.toMillis() + " ms");
        assertThat(took).isLessThan(BOUND);
    }

    /** The later call has less time, and so have the callbacks. */
    @Test
    void closingWithABudgetShortensAStopThatGoesOn() throws Exception {
        long bits = freshKeyBits();
        LeaderElector elector = leader("stopping", LockKey.of(bits), server.port(), true);
        CompletableFuture<Void> stopping = CompletableFuture.runAsync(elector::stop, task -> new Thread(task).start());
        await().atMost(PATIENCE).until(() -> elector.status().role() == LeaderStatus.Role.RESIGNING);
        long asked = System.nanoTime();
        elector.close(Duration.ofSeconds(2));
        assertThat(Duration.ofNanos(System.nanoTime() - asked)).isLessThan(Duration.ofSeconds(12));
        try (LockTable locks = new LockTable(server, PostgresServer.DEFAULT_DATABASE)) {
            locks.awaitFree(bits, Duration.ofSeconds(5));
        }
        stopping.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    static final class HangingProcess {

        private HangingProcess() {}

        public static void main(String[] args) throws Exception {
            LeaderElector elector = LeaderElector.builder()
                    .connectTo(ConnectionSource.of(args[0], args[1], args[2]))
                    .key(LockKey.of(Long.parseLong(args[3])))
                    .options(DEFAULTS)
                    .listener(new LeadershipListener() {
                        @Override
                        public void onElected(Leadership leadership) {
                            System.out.println("leads");
                        }

                        @Override
                        public void onRevoked(Leadership leadership, RevocationReason reason)
                                throws InterruptedException {
                            new CountDownLatch(1).await();
                        }
                    })
                    .build();
            Runtime.getRuntime().addShutdownHook(new Thread(elector::close));
            JavaProcess.exitWithParent();
            elector.start();
            new CountDownLatch(1).await();
        }
    }
}
