package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.FieldSource;

/** What the Javadoc of {@link LeadershipListener} promises. */
@Timeout(300)
class ListenerDispatcherTest {

    private final ManualTicker ticker = ManualTicker.beforeOverflow();
    private final HandDrivenExecutor executor = new HandDrivenExecutor();
    private final List<String> told = new CopyOnWriteArrayList<>();
    private final ListenerDispatcher dispatcher = new ListenerDispatcher("test", executor, new Recorder());

    private final class Recorder implements ListenerDispatcher.Outcome {
        @Override
        public void started(long term) {
            told.add("started " + term);
        }

        @Override
        public void startFailed(long term, Throwable failure) {
            told.add("start failed " + term + " " + failure.getMessage());
        }

        @Override
        public void drained(long term) {
            told.add("drained " + term);
        }

        @Override
        public void revokeFailed(long term, Throwable failure) {
            told.add("revoke failed " + term + " " + failure.getMessage());
        }
    }

    /** Writes down what it hears, and then does what the test wants. */
    private class Listener implements LeadershipListener {
        private final String name;

        Listener(String name) {
            this.name = name;
        }

        @Override
        public void onElected(Leadership leadership) throws Exception {
            told.add(name + " elected " + leadership.term());
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
            told.add(name + " revoked " + leadership.term() + " " + reason);
        }
    }

    private final class Failing extends Listener {
        private final Throwable failure;

        Failing(String name, Throwable failure) {
            super(name);
            this.failure = failure;
        }

        @Override
        public void onElected(Leadership leadership) throws Exception {
            super.onElected(leadership);
            fail();
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
            super.onRevoked(leadership, reason);
            fail();
        }

        private void fail() throws Exception {
            if (failure instanceof Error error) {
                throw error;
            }
            throw (Exception) failure;
        }
    }

    private Leadership term(long number) {
        return new Leadership("test", number, Instant.EPOCH, TestLeases.of(ticker, 1_000));
    }

    private Leadership elect(long number) {
        Leadership leadership = term(number);
        dispatcher.elected(leadership);
        return leadership;
    }

    /** As the election thread does it: first the lease ends, then the listeners hear of it. */
    private void revoke(Leadership leadership, RevocationReason reason) {
        leadership.lease().revoke();
        dispatcher.revoked(leadership, reason);
    }

    @Test
    void listenersAreToldInOrderAndInReverseOrder() {
        dispatcher.add(new Listener("a"));
        dispatcher.add(new Listener("b"));
        Leadership first = elect(1);
        executor.runAll();
        revoke(first, RevocationReason.SESSION_LOST);
        executor.runAll();
        assertThat(told)
                .containsExactly(
                        "a elected 1",
                        "b elected 1",
                        "started 1",
                        "b revoked 1 SESSION_LOST",
                        "a revoked 1 SESSION_LOST",
                        "drained 1");
    }

    @Test
    void electedAndRevokedAlternateOverTerms() {
        dispatcher.add(new Listener("a"));
        for (long term = 1; term <= 3; term++) {
            Leadership leadership = elect(term);
            executor.runAll();
            revoke(leadership, RevocationReason.RESIGNED);
            executor.runAll();
        }
        assertThat(told)
                .filteredOn(entry -> entry.startsWith("a"))
                .containsExactly(
                        "a elected 1",
                        "a revoked 1 RESIGNED",
                        "a elected 2",
                        "a revoked 2 RESIGNED",
                        "a elected 3",
                        "a revoked 3 RESIGNED");
    }

    static final List<Throwable> FAILURES =
            List.of(new Exception("checked"), new IllegalStateException("unchecked"), new StackOverflowError("error"));

    @ParameterizedTest
    @FieldSource("FAILURES")
    void aListenerThatThrewIsRevokedOnceToo(Throwable failure) { // C28
        dispatcher.add(new Failing("a", failure));
        Leadership first = elect(1);
        executor.runAll();
        revoke(first, RevocationReason.CALLBACK_FAILED);
        executor.runAll();
        assertThat(told)
                .containsExactly(
                        "a elected 1",
                        "start failed 1 " + failure.getMessage(),
                        "a revoked 1 CALLBACK_FAILED",
                        "revoke failed 1 " + failure.getMessage(),
                        "drained 1");
    }

    @Test
    void afterAFailureTheOthersAreNotToldOfTheTermAtAll() {
        dispatcher.add(new Listener("a"));
        dispatcher.add(new Failing("b", new IllegalStateException("scripted")));
        dispatcher.add(new Listener("c"));
        Leadership first = elect(1);
        executor.runAll();
        revoke(first, RevocationReason.CALLBACK_FAILED);
        executor.runAll();
        assertThat(told)
                .containsExactly(
                        "a elected 1",
                        "b elected 1",
                        "start failed 1 scripted",
                        "b revoked 1 CALLBACK_FAILED",
                        "revoke failed 1 scripted",
                        "a revoked 1 CALLBACK_FAILED",
                        "drained 1");
    }

    @Test
    void aTermThatIsOverBeforeItWasToldIsNotTold() {
        dispatcher.add(new Listener("a"));
        Leadership first = elect(1);
        revoke(first, RevocationReason.SESSION_LOST);
        executor.runAll();
        assertThat(told).containsExactly("started 1", "drained 1");
    }

    @Test
    void aTermWhoseLeaseRanOutBeforeItWasToldIsNotTold() {
        dispatcher.add(new Listener("a"));
        elect(1);
        ticker.advanceNanos(1_000);
        executor.runAll();
        assertThat(told).doesNotContain("a elected 1");
    }

    @Test
    void aTermThatEndsWhileTheFirstListenerHearsOfItIsNotToldToTheSecond() {
        dispatcher.add(new Listener("a") {
            @Override
            public void onElected(Leadership leadership) throws Exception {
                super.onElected(leadership);
                revoke(leadership, RevocationReason.LEASE_EXPIRED);
            }
        });
        dispatcher.add(new Listener("b"));
        elect(1);
        executor.runAll();
        assertThat(told).containsExactly("a elected 1", "started 1", "a revoked 1 LEASE_EXPIRED", "drained 1");
    }

    @Test
    void aListenerAddedWhileLeadingIsToldSo() {
        dispatcher.add(new Listener("a"));
        Leadership first = elect(1);
        executor.runAll();
        dispatcher.add(new Listener("late"));
        executor.runAll();
        revoke(first, RevocationReason.RESIGNED);
        executor.runAll();
        assertThat(told)
                .containsExactly(
                        "a elected 1",
                        "started 1",
                        "late elected 1",
                        "late revoked 1 RESIGNED",
                        "a revoked 1 RESIGNED",
                        "drained 1");
    }

    @Test
    void aListenerAddedBetweenTheTermAndItsCallbacksIsToldOnce() {
        elect(1);
        dispatcher.add(new Listener("a"));
        executor.runAll();
        assertThat(told).containsExactly("started 1", "a elected 1");
    }

    @Test
    void aListenerAddedAfterTheTermIsToldNothing() {
        Leadership first = elect(1);
        revoke(first, RevocationReason.RESIGNED);
        dispatcher.add(new Listener("late"));
        executor.runAll();
        assertThat(told).containsExactly("started 1", "drained 1");
    }

    @Test
    void aLateListenerThatFailsEndsTheTermToo() {
        elect(1);
        executor.runAll();
        dispatcher.add(new Failing("late", new IllegalStateException("scripted")));
        executor.runAll();
        assertThat(told).containsExactly("started 1", "late elected 1", "start failed 1 scripted");
    }

    @Test
    void aListenerThatIsRemovedWhileLeadingIsRevokedAloneAndOnce() {
        Runnable removal = dispatcher.add(new Listener("a"));
        dispatcher.add(new Listener("b"));
        Leadership first = elect(1);
        executor.runAll();
        removal.run();
        removal.run();
        executor.runAll();
        assertThat(told).endsWith("started 1", "a revoked 1 LISTENER_REMOVED");
        revoke(first, RevocationReason.RESIGNED);
        elect(2);
        executor.runAll();
        assertThat(told)
                .endsWith(
                        "started 1",
                        "a revoked 1 LISTENER_REMOVED",
                        "b revoked 1 RESIGNED",
                        "drained 1",
                        "b elected 2",
                        "started 2");
    }

    @Test
    void theEndOfATermThatWasNotToldIsNotTheEndOfTheOneBefore() {
        Runnable removal = dispatcher.add(new Listener("a"));
        revoke(elect(1), RevocationReason.SESSION_LOST);
        Leadership second = elect(2);
        executor.runAll();
        revoke(second, RevocationReason.SESSION_LOST);
        executor.runAll();
        told.clear();
        revoke(elect(3), RevocationReason.SESSION_LOST);
        removal.run();
        executor.runAll();
        assertThat(told).containsExactly("started 3", "drained 3");
    }

    @Test
    void aListenerThatIsRemovedAndWasToldNothingHearsNothing() {
        Runnable removal = dispatcher.add(new Listener("a"));
        executor.runAll();
        removal.run();
        elect(1);
        executor.runAll();
        assertThat(told).containsExactly("started 1");
    }

    @Test
    void aListenerMayRemoveItselfInItsCallback() {
        Runnable[] removal = new Runnable[1];
        removal[0] = dispatcher.add(new Listener("a") {
            @Override
            public void onElected(Leadership leadership) throws Exception {
                super.onElected(leadership);
                removal[0].run();
            }
        });
        dispatcher.add(new Listener("b"));
        elect(1);
        executor.runAll();
        assertThat(told).containsExactly("a elected 1", "b elected 1", "started 1", "a revoked 1 LISTENER_REMOVED");
    }

    @Test
    void theSameListenerAddedTwiceIsTwoListeners() {
        Listener twice = new Listener("a");
        Runnable removal = dispatcher.add(twice);
        dispatcher.add(twice);
        removal.run();
        elect(1);
        executor.runAll();
        assertThat(told).containsExactly("a elected 1", "started 1");
    }

    @Test
    void anInterruptThatACallbackLeavesBehindIsNotForTheNext() {
        List<Boolean> interrupted = new ArrayList<>();
        dispatcher.add(new Listener("a") {
            @Override
            public void onElected(Leadership leadership) {
                Thread.currentThread().interrupt();
            }

            @Override
            public void onRevoked(Leadership leadership, RevocationReason reason) {
                interrupted.add(Thread.currentThread().isInterrupted());
            }
        });
        Leadership first = elect(1);
        executor.runAll();
        revoke(first, RevocationReason.RESIGNED);
        executor.runAll();
        assertThat(interrupted).containsExactly(false);
    }

    @Test
    void knowsACallOfItsOwnCallbacks() {
        List<Boolean> inCallback = new ArrayList<>();
        dispatcher.add(new Listener("a") {
            @Override
            public void onElected(Leadership leadership) {
                inCallback.add(dispatcher.isInCallback());
            }
        });
        elect(1);
        executor.runAll();
        inCallback.add(dispatcher.isInCallback());
        assertThat(inCallback).containsExactly(true, false);
    }

    @Test
    void callbacksRunOneAtATimeOnAnExecutorOfManyThreads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        try {
            AtomicInteger atATime = new AtomicInteger();
            AtomicInteger most = new AtomicInteger();
            CountDownLatch drained = new CountDownLatch(500);
            ListenerDispatcher parallel = new ListenerDispatcher("test", pool, new ListenerDispatcher.Outcome() {
                @Override
                public void started(long term) {}

                @Override
                public void startFailed(long term, Throwable failure) {}

                @Override
                public void drained(long term) {
                    drained.countDown();
                }

                @Override
                public void revokeFailed(long term, Throwable failure) {}
            });
            List<Long> terms = new ArrayList<>(); // Not thread-safe: positive if elected, negative if revoked.
            for (int i = 0; i < 3; i++) {
                parallel.add(new LeadershipListener() {
                    @Override
                    public void onElected(Leadership leadership) {
                        note(leadership.term());
                    }

                    @Override
                    public void onRevoked(Leadership leadership, RevocationReason reason) {
                        note(-leadership.term());
                    }

                    private void note(long term) {
                        most.accumulateAndGet(atATime.incrementAndGet(), Math::max);
                        terms.add(term);
                        atATime.decrementAndGet();
                    }
                });
            }
            List<Long> expected = new ArrayList<>();
            for (long number = 1; number <= 500; number++) {
                Leadership leadership = term(number);
                parallel.elected(leadership);
                parallel.revoked(leadership, RevocationReason.RESIGNED); // The lease is still good: all are told.
                expected.addAll(List.of(number, number, number, -number, -number, -number));
            }
            assertThat(drained.await(20, TimeUnit.SECONDS)).isTrue();
            assertThat(most).hasValue(1);
            assertThat(terms).containsExactlyElementsOf(expected);
        } finally {
            pool.shutdownNow();
        }
    }
}
