package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.LeaderStatus.Role;
import dev.pgleader.lock.LockKey;
import dev.pgleader.micrometer.LeaderMetrics;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What listeners may rely on while sessions die and electors close around them. */
@Timeout(300)
class CallbackContractTest {

    private static final PostgresServer SERVER = PostgresServer.shared();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    private static final int ROUNDS = Integer.getInteger("callback.rounds", 20);

    private final long bits = freshKeyBits();
    private final LockKey key = LockKey.of(bits);

    /** Does what the test says in onElected. */
    private abstract static class Starting implements LeadershipListener {
        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {}
    }

    @Test
    void workThatCanNotStartStepsDownAndLetsAnotherLead() throws Exception { // C28
        for (Throwable failure : List.of(new Exception("no work"), new AssertionError("worse"))) {
            AtomicInteger starts = new AtomicInteger();
            try (TestCandidate failing = TestCandidate.start(
                    "failing",
                    direct(SERVER),
                    key,
                    builder -> builder.listener(new Starting() {
                        @Override
                        public void onElected(Leadership leadership) throws Exception {
                            starts.incrementAndGet();
                            if (failure instanceof Exception e) {
                                throw e;
                            }
                            throw (Error) failure;
                        }
                    }))) {
                assertThat(failing.awaitRevoked(1).reason()).isEqualTo(RevocationReason.CALLBACK_FAILED);
                assertThat(failing.elector().isLeader()).isFalse();
                try (TestCandidate healthy = TestCandidate.start("healthy", direct(SERVER), key)) {
                    healthy.awaitElected(1);
                    assertThat(LOCKS.holders(bits)).containsExactly(healthy.backendPid());
                }
                failing.assertCallbacksInOrder();
                assertThat(starts.get())
                        .as("terms, with a growing cool-down in between")
                        .isLessThan(12);
            }
        }
    }

    @Test
    void eachElectionIsRevokedOnceWhenLossAndCloseCoincide() throws Exception { // C29
        try (Connection operator = SERVER.connect()) {
            for (int round = 0; round < ROUNDS; round++) {
                TestCandidate candidate = TestCandidate.startLeader("round-" + round, direct(SERVER), key);
                String terminate = "SELECT pg_terminate_backend(" + candidate.backendPid() + ")";
                long offsetNanos = ThreadLocalRandom.current().nextLong(3_000_000);
                CountDownLatch go = new CountDownLatch(1);
                CompletableFuture<Void> closing = CompletableFuture.runAsync(() -> {
                    try {
                        go.await();
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                    long begin = System.nanoTime();
                    while (System.nanoTime() - begin < offsetNanos) {
                        Thread.onSpinWait();
                    }
                    candidate.elector().close();
                });
                go.countDown();
                Sql.execute(operator, terminate);
                closing.get(20, TimeUnit.SECONDS);
                candidate.assertCallbacksInOrder();
                assertThat(candidate.events().size())
                        .as("all revoked when close() returns")
                        .isEven()
                        .isPositive();
                LOCKS.awaitFree(bits, PATIENCE);
            }
        }
    }

    @Test
    void everybodySeesTheStateThatACallbackAnnounces() { // C31
        SimpleMeterRegistry registry = new SimpleMeterRegistry();
        List<String> seen = new CopyOnWriteArrayList<>();
        CompletableFuture<LeaderElector> built = new CompletableFuture<>();
        LeadershipListener looking = new LeadershipListener() {
            private void look(String callback) throws Exception {
                LeaderElector elector = built.get(10, TimeUnit.SECONDS);
                for (boolean elsewhere : new boolean[] {false, true}) {
                    String sight = CompletableFuture.supplyAsync(
                                    () -> elector.isLeader() + " "
                                            + elector.status().isLeader() + " "
                                            + registry.get("pgleader.leader")
                                                    .gauge()
                                                    .value(),
                                    elsewhere ? command -> new Thread(command).start() : Runnable::run)
                            .get(10, TimeUnit.SECONDS);
                    seen.add(callback + " " + sight);
                }
            }

            @Override
            public void onElected(Leadership leadership) throws Exception {
                look("elected");
            }

            @Override
            public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
                look("revoked");
            }
        };
        try (TestCandidate candidate =
                TestCandidate.start("candidate", direct(SERVER), key, builder -> builder.listener(looking))) {
            new LeaderMetrics(candidate.elector()).bindTo(registry);
            built.complete(candidate.elector());
            await().atMost(PATIENCE).until(() -> seen.size() == 2);
            var unused = candidate.elector().resign();
            await().atMost(PATIENCE).until(() -> seen.size() >= 4);
        }
        assertThat(seen.subList(0, 4))
                .containsExactly(
                        "elected true true 1.0",
                        "elected true true 1.0",
                        "revoked false false 0.0",
                        "revoked false false 0.0");
    }

    @Test
    void aSlowStartDoesNotDelayChecks() throws Exception { // C32 (a)
        CountDownLatch mayReturn = new CountDownLatch(1);
        try (TestCandidate candidate = TestCandidate.start("slow", direct(SERVER), key, waitingFor(mayReturn))) {
            long leadsSince = awaitLeader(candidate);
            await().atMost(PATIENCE)
                    .until(() -> System.nanoTime() - leadsSince
                            > FAST.leaseDuration().toNanos());
            assertThat(candidate.elector().isLeader()).isTrue();
            await("another check")
                    .atMost(PATIENCE)
                    .until(() -> candidate
                                    .elector()
                                    .status()
                                    .sinceLastCheck()
                                    .orElseThrow()
                                    .compareTo(FAST.healthCheckInterval().plus(FAST.healthCheckTimeout()))
                            < 0);
            mayReturn.countDown();
        }
    }

    @Test
    void aLossDuringASlowStartIsToldAfterIt() throws Exception { // C32 (b)
        CountDownLatch mayReturn = new CountDownLatch(1);
        try (TestCandidate candidate = TestCandidate.start("slow", direct(SERVER), key, waitingFor(mayReturn))) {
            awaitLeader(candidate);
            SERVER.terminateBackend(candidate.backendPid());
            await().atMost(PATIENCE).until(() -> !candidate.elector().isLeader());
            await().atMost(PATIENCE).until(() -> candidate.elector().status().role() == Role.REVOKING);
            assertThat(candidate.events()).noneMatch(event -> !event.isElected());
            mayReturn.countDown();
            candidate.awaitRevoked(1);
            candidate.awaitElected(2);
            candidate.assertCallbacksInOrder();
        }
    }

    @Test
    void closeIsBoundedAndFreesTheLockAlsoIfCallbacksHang() throws Exception { // C32 (c), (d)
        ElectorOptions impatient =
                FAST.toBuilder().revokeTimeout(Duration.ofMillis(300)).build();
        for (boolean hangsInElected : new boolean[] {true, false}) {
            CountDownLatch never = new CountDownLatch(1);
            LeadershipListener hanging = new LeadershipListener() {
                @Override
                public void onElected(Leadership leadership) throws Exception {
                    if (hangsInElected) {
                        never.await();
                    }
                }

                @Override
                public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
                    never.await();
                }
            };
            TestCandidate candidate = TestCandidate.start(
                    "hanging",
                    direct(SERVER),
                    key,
                    builder -> builder.options(impatient).listener(hanging));
            awaitLeader(candidate);
            long begin = System.nanoTime();
            candidate.close();
            assertThat(Duration.ofNanos(System.nanoTime() - begin))
                    .isLessThan(impatient
                            .revokeTimeout()
                            .plus(impatient.healthCheckTimeout().multipliedBy(4))
                            .plus(PATIENCE));
            assertThat(LOCKS.holders(bits)).isEmpty();
            never.countDown();
        }
    }

    private static Consumer<LeaderElector.Builder> waitingFor(CountDownLatch mayReturn) {
        return builder -> builder.listener(new Starting() {
            @Override
            public void onElected(Leadership leadership) throws Exception {
                mayReturn.await();
            }
        });
    }

    private static long awaitLeader(TestCandidate candidate) throws InterruptedException {
        assertThat(candidate.elector().awaitLeadership(PATIENCE)).isPresent();
        return System.nanoTime();
    }
}
