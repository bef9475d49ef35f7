package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.slf4j.event.Level;

/** What runs because an instance leads is a part of its term (rule 9 of the design): with two instances on a real server. */
@Timeout(180)
class CallsInFlightTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final Duration SHORT = Duration.ofMillis(500);
    private static final Executor THREADS = task -> {
        Thread thread = new Thread(task, "test-job");
        thread.setDaemon(true);
        thread.start();
    };

    private final String key = "calls-" + UUID.randomUUID();

    private static LeaderElector.Builder elector(String key, Duration revokeTimeout) {
        return LeaderElector.builder()
                .connectTo(ConnectionSource.of(
                        SERVER.url(PostgresServer.DEFAULT_DATABASE), SERVER.superuser(), SERVER.superuserPassword()))
                .key(key)
                .options(ElectorOptions.builder()
                        .retryInterval(Duration.ofMillis(100))
                        .revokeTimeout(revokeTimeout)
                        .takeoverDelay(TakeoverDelay.NONE)
                        .build());
    }

    private LeaderElector started(Duration revokeTimeout) {
        LeaderElector elector = elector(key, revokeTimeout).build();
        elector.start();
        return elector;
    }

    private LeaderElector leading(Duration revokeTimeout) {
        LeaderElector elector = started(revokeTimeout);
        awaitLeader(elector);
        return elector;
    }

    private static void awaitLeader(LeaderElector elector) {
        await().atMost(PATIENCE).until(elector::isLeader);
    }

    /** The ways to give leadership up in order. */
    enum End {
        RESIGN,
        PAUSE,
        REQUEST,
        STOP,
        CLOSE
    }

    private static void end(End how, LeaderElector leader, LeaderElector other) {
        var unused = switch (how) {
            case RESIGN -> leader.resign();
            case PAUSE -> leader.pause();
            case REQUEST -> other.requestResignation();
            case STOP -> CompletableFuture.runAsync(leader::stop, THREADS);
            case CLOSE -> CompletableFuture.runAsync(leader::close, THREADS);
        };
    }

    @ParameterizedTest
    @EnumSource
    @DisplayName("Rule 9: at an orderly end the lock is held until the call has ended, and no call begins")
    void theLockIsHeldUntilTheCallHasEnded(End end) throws Exception {
        try (LeaderElector leader = leading(LONG);
                LeaderElector other = started(LONG)) {
            await().atMost(PATIENCE).until(() -> other.status().session().isPresent());
            LeaderCall call = leader.beginCall("Job.run", true).orElseThrow();
            end(end, leader, other);
            assertThatThrownBy(() -> new CountDownLatch(1).await(60, TimeUnit.SECONDS))
                    .as("interrupt")
                    .isInstanceOf(InterruptedException.class);
            assertThat(leader.isLeader()).isFalse();
            assertThat(leader.beginCall("Job.run", false)).isEmpty();
            assertThat(leader.runIfLeader(leadership -> {})).isFalse();
            // More than the other needs for a try.
            for (int i = 0; i < 3; i++) {
                assertThat(other.currentLeader().get(30, TimeUnit.SECONDS).map(LeaderInfo::instanceId))
                        .contains(leader.instanceId());
            }
            assertThat(other.isLeader()).isFalse();

            call.close();

            awaitLeader(other);
            assertThat(Thread.interrupted()).as("interrupted again").isFalse();
        }
    }

    @Test
    @DisplayName("Rule 9: a call that is longer than the revoke timeout is named in the log and told to observers")
    void whatStillRunsAtTheRevokeTimeoutIsNamed() {
        List<String> cutOff = new CopyOnWriteArrayList<>();
        try (LogCapture log = LogCapture.of("dev.pgleader", Level.WARN);
                LeaderElector leader = leading(SHORT);
                LeaderElector other = started(SHORT)) {
            leader.addObserver(new ElectionObserver() {
                @Override
                public void callsCutOff(List<String> calls) {
                    cutOff.addAll(calls);
                }
            });
            LeaderCall call = leader.beginCall("Billing.nightly", false).orElseThrow();
            var unused = leader.resign();

            awaitLeader(other);
            await().atMost(PATIENCE).untilAsserted(() -> assertThat(cutOff).containsExactly("Billing.nightly"));
            assertThat(log.messages(Level.WARN))
                    .anyMatch(message -> message.contains("Billing.nightly") && message.contains("The lock is gone"));
            assertThat(leader.status().role()).isEqualTo(LeaderStatus.Role.REVOKING);
            call.close();
            await().atMost(PATIENCE).until(() -> leader.status().role() == LeaderStatus.Role.FOLLOWER);
            assertThat(Thread.currentThread().isInterrupted()).isFalse();
        }
    }

    @Test
    @DisplayName(
            "Rule 9: when leadership is lost, calls are interrupted if they want it, named, and waited for before the next try")
    void callsOfATermThatWasLostAreToldNamedAndWaitedFor() throws Exception {
        try (LogCapture log = LogCapture.of("dev.pgleader", Level.WARN);
                LeaderElector leader = leading(SHORT)) {
            CountDownLatch running = new CountDownLatch(2);
            CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
            CountDownLatch endOther = new CountDownLatch(1);
            THREADS.execute(() -> {
                try (LeaderCall call = leader.beginCall("Told.run", true).orElseThrow()) {
                    running.countDown();
                    assertThat(call.leadership().isValid()).isTrue();
                    new CountDownLatch(1).await();
                } catch (InterruptedException e) {
                    interrupted.complete(Thread.currentThread().isInterrupted());
                }
            });
            THREADS.execute(() -> {
                try (LeaderCall call = leader.beginCall("Untold.run", false).orElseThrow()) {
                    running.countDown();
                    assertThat(call.name()).isEqualTo("Untold.run");
                    endOther.await();
                } catch (InterruptedException e) {
                    interrupted.completeExceptionally(e);
                }
            });
            running.await();

            SERVER.terminateBackend(leader.status().session().orElseThrow().backendPid());

            assertThat(interrupted.get(60, TimeUnit.SECONDS)).isFalse();
            await().atMost(PATIENCE)
                    .until(() -> log.messages(Level.WARN).stream().anyMatch(message -> message.contains("Untold.run")));
            await().atMost(PATIENCE)
                    .until(() -> leader.status()
                            .problem()
                            .filter(problem -> problem.kind() == LeaderStatus.Problem.Kind.CALLBACKS_OVERDUE)
                            .isPresent());
            assertThat(leader.status().terms()).isEqualTo(1);
            endOther.countDown();
            awaitLeader(leader);
            assertThat(leader.status().terms()).isEqualTo(2);
        }
    }

    @Test
    void aCallThatHasDetachedItselfGoesOnElsewhereAndIsNotInterrupted() {
        try (LeaderElector leader = leading(LONG);
                LeaderElector other = started(LONG)) {
            LeaderCall call = leader.beginCall("Async.run", true).orElseThrow();
            assertThat(leader.isInCallback()).isTrue();
            call.detach();
            assertThat(leader.isInCallback()).isFalse();
            CompletableFuture<Void> resigned = leader.resign();
            await().atMost(PATIENCE).until(() -> leader.status().role() == LeaderStatus.Role.RESIGNING);
            assertThat(resigned).isNotDone();
            assertThat(Thread.currentThread().isInterrupted()).isFalse();
            CompletableFuture.runAsync(call::close).join();
            awaitLeader(other);
        }
    }

    @Test
    void whatACallDoesToItsOwnElectorEnds() throws Exception {
        try (LeaderElector leader = leading(SHORT);
                LeaderElector other = started(SHORT)) {
            // The future of a resignation waits for this call, at most for the revoke timeout.
            assertThat(leader.runIfLeader(leadership -> leader.resign().join())).isTrue();
            awaitLeader(other);
            other.pause().get(60, TimeUnit.SECONDS);
            awaitLeader(leader);
        }
        for (Consumer<LeaderElector> end :
                List.<Consumer<LeaderElector>>of(LeaderElector::stop, LeaderElector::close)) {
            try (LeaderElector leader = leading(LONG)) {
                AtomicBoolean lockHeld = new AtomicBoolean();
                CompletableFuture<Boolean> done = CompletableFuture.supplyAsync(
                        () -> leader.runIfLeader(outer -> {
                            assertThat(leader.runIfLeader(inner -> {})).isTrue();
                            end.accept(leader);
                            LeaderStatus.Role role = leader.status().role();
                            lockHeld.set(role == LeaderStatus.Role.RESIGNING || role == LeaderStatus.Role.REVOKING);
                        }),
                        THREADS);
                assertThat(done.get(30, TimeUnit.SECONDS)).isTrue();
                assertThat(lockHeld).isTrue();
            }
        }
    }

    @Test
    void aCallInACallbackOfTheSameElectorHoldsNothingUp() {
        AtomicReference<LeaderElector> self = new AtomicReference<>();
        List<String> told = new CopyOnWriteArrayList<>();
        LeaderElector leader = elector(key, LONG)
                .listener(new LeadershipListener() {
                    @Override
                    public void onElected(Leadership leadership) {
                        self.get()
                                .runIfLeader(term ->
                                        told.add("called as " + self.get().isLeader()));
                    }

                    @Override
                    public void onRevoked(Leadership leadership, RevocationReason reason) {
                        told.add("called " + self.get().runIfLeader(term -> {}));
                    }
                })
                .build();
        self.set(leader);
        try (leader) {
            leader.start();
            await().atMost(PATIENCE).until(() -> told.size() == 1);
        }
        assertThat(told).containsExactly("called as true", "called false");
    }

    @Test
    @DisplayName("Rule 9: calls of two instances never overlap, however often leadership changes hands")
    void callsOfTwoInstancesNeverOverlap() throws Exception {
        AtomicInteger overlaps = new AtomicInteger();
        AtomicInteger calls = new AtomicInteger();
        AtomicReference<LeaderElector> owner = new AtomicReference<>();
        AtomicBoolean over = new AtomicBoolean();
        try (LeaderElector first = leading(LONG);
                LeaderElector second = started(LONG)) {
            List<CompletableFuture<Void>> workers = Stream.of(first, first, second, second)
                    .map(elector -> CompletableFuture.runAsync(
                            () -> {
                                while (!over.get()) {
                                    Optional<LeaderCall> begun = elector.beginCall("Job", false);
                                    if (begun.isEmpty()) {
                                        Thread.onSpinWait();
                                        continue;
                                    }
                                    try (LeaderCall call = begun.get()) {
                                        assertThat(call.leadership().term()).isPositive();
                                        owner.set(elector);
                                        for (int i = 0; i < 200; i++) {
                                            if (owner.get() != elector) {
                                                overlaps.incrementAndGet();
                                            }
                                            Thread.onSpinWait();
                                        }
                                        calls.incrementAndGet();
                                    }
                                }
                            },
                            THREADS))
                    .toList();
            for (int round = 0; round < 10; round++) {
                LeaderElector leader = round % 2 == 0 ? first : second;
                awaitLeader(leader);
                leader.resign().get(60, TimeUnit.SECONDS);
            }
            over.set(true);
            CompletableFuture.allOf(workers.toArray(CompletableFuture<?>[]::new))
                    .get(60, TimeUnit.SECONDS);
        }
        assertThat(calls.get()).isPositive();
        assertThat(overlaps).hasValue(0);
    }

    @Test
    @DisplayName(
            "R36: System.exit in a call ends the JVM before the revoke timeout, though a shutdown hook waits for the call")
    void aCallThatExitsDoesNotHoldTheJvm() {
        long begin;
        try (JavaProcess process = JavaProcess.start(
                Exiting.class,
                SERVER.url(PostgresServer.DEFAULT_DATABASE),
                SERVER.superuser(),
                SERVER.superuserPassword(),
                key)) {
            begin = process.awaitLine("exits", PATIENCE).arrivalNanos();
            assertThat(process.exitCode(PATIENCE)).isEqualTo(7);
        }
        assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(ElectorOptions.DEFAULT_REVOKE_TIMEOUT);
    }

    /** Leads, and calls {@link System#exit} in a call, with a shutdown hook that closes the elector. */
    static final class Exiting {

        public static void main(String[] args) throws Exception {
            LeaderElector elector = LeaderElector.builder()
                    .connectTo(ConnectionSource.of(args[0], args[1], args[2]))
                    .key(args[3])
                    .options(ElectorOptions.builder()
                            .takeoverDelay(TakeoverDelay.NONE)
                            .build())
                    .build();
            Runtime.getRuntime().addShutdownHook(new Thread(elector::close));
            elector.start();
            System.out.println(elector.awaitLeadership(Duration.ofMinutes(1)).isPresent() ? "exits" : "never led");
            elector.runIfLeader(leadership -> System.exit(7));
        }
    }
}
