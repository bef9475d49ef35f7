package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LeaseTest {

    private static final long WALL_MILLIS = 1_800_000_000_000L;

    private final ManualTicker ticker = new ManualTicker(0);

    /** A lease that the wall clock doesn't end. */
    private static Lease lease(Ticker ticker, long windowNanos) {
        return new Lease(ticker, start(ticker), windowNanos);
    }

    /** A check that begins now, by a wall clock so far ahead that only the monotonic one counts. */
    private static Ticker.Moment start(Ticker ticker) {
        return new Ticker.Moment(ticker.nanos(), ticker.wallMillis() + 1_000);
    }

    /** A check that begins then. */
    private static Ticker.Moment start(long nanos) {
        return new Ticker.Moment(nanos, WALL_MILLIS + 1_000);
    }

    /** A deadline is kept at a resolution of two nanoseconds, so an odd one may come a nanosecond early, never late. */
    @ParameterizedTest
    @ValueSource(
            longs = {0, 1, -1, 1_000, -1_001, Long.MAX_VALUE, Long.MAX_VALUE - 1, Long.MIN_VALUE, Long.MIN_VALUE + 50})
    void isValidUntilItsDeadlineWhereverTheClockStands(long deadline) {
        ManualTicker clock = new ManualTicker(deadline - 100);
        Lease lease = lease(clock, 100);
        assertThat(lease.remainingNanos()).isBetween(99L, 100L);
        clock.advanceNanos(98);
        assertThat(lease.isValid()).isTrue();
        assertThat(lease.remainingNanos()).isBetween(1L, 2L);
        clock.advanceNanos(2);
        assertThat(lease.isValid()).isFalse();
        assertThat(lease.remainingNanos()).isZero();
    }

    @Test
    void isRenewedAcrossTheOverflowOfTheClock() {
        ManualTicker clock = new ManualTicker(Long.MAX_VALUE - 10);
        Lease lease = lease(clock, 10);
        clock.advanceNanos(5);
        assertThat(lease.renew(start(clock))).isTrue();
        clock.advanceNanos(8);
        assertThat(clock.nanos()).isNegative();
        assertThat(lease.isValid()).isTrue();
        clock.advanceNanos(2);
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void lastsLongerWhenItIsRenewedInTime() {
        Lease lease = lease(ticker, 100);
        ticker.advanceNanos(98);
        assertThat(lease.renew(start(ticker))).isTrue();
        ticker.advanceNanos(98);
        assertThat(lease.remainingNanos()).isEqualTo(2);
    }

    @Test
    void isNotRenewedOnceItHasRunOutEvenIfNobodyLooked() {
        Lease lease = lease(ticker, 100);
        ticker.advanceNanos(100);
        assertThat(lease.renew(start(ticker))).isFalse();
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void isNotRenewedOnceItWasRevoked() {
        Lease lease = lease(ticker, 100);
        lease.revoke();
        assertThat(lease.isValid()).isFalse();
        assertThat(lease.renew(start(ticker))).isFalse();
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void staysEndedEvenIfTheClockSteppedBack() {
        Lease lease = lease(ticker, 100);
        ticker.advanceNanos(100);
        assertThat(lease.isValid()).isFalse();
        ticker.advanceNanos(-50);
        assertThat(lease.isValid()).isFalse();
        assertThat(lease.renew(start(ticker))).isFalse();
    }

    @Test
    void aLeaseThatNeverWasIsNeverValid() {
        assertThat(Lease.NONE.isValid()).isFalse();
        assertThat(Lease.NONE.renew(Ticker.SYSTEM.now())).isFalse();
    }

    /**
     * R12: CLOCK_MONOTONIC stands still while the machine is suspended, and the server's clock doesn't; so a lease ends by the
     * wall clock, too.
     */
    @Nested
    class OnAMachineThatIsSuspended {

        private final Duration window = Duration.ofSeconds(13);

        @Test
        void endsByTheWallClockThoughTheMonotonicOneStoodStill() {
            Lease lease = new Lease(ticker, ticker.now(), window.toNanos());
            ticker.advance(Duration.ofSeconds(1));
            ticker.suspend(Duration.ofSeconds(11));
            assertThat(lease.isValid()).isTrue();
            assertThat(lease.remainingNanos()).isEqualTo(Duration.ofSeconds(1).toNanos());
            ticker.suspend(Duration.ofSeconds(1));
            assertThat(lease.isValid()).isFalse();
            assertThat(lease.renew(ticker.now())).isFalse();
        }

        @Test
        void aRenewalCountsFromTheStartOfItsCheckByBothClocks() {
            Lease lease = new Lease(ticker, ticker.now(), window.toNanos());
            Ticker.Moment checkStarted = ticker.now();
            ticker.suspend(Duration.ofSeconds(5)); // While the check is under way.
            assertThat(lease.renew(checkStarted)).isTrue();
            assertThat(lease.remainingNanos()).isEqualTo(Duration.ofSeconds(8).toNanos());
        }

        @Test
        void isRenewedAcrossManySuspendsThatEachAreShorterThanItsWindow() {
            Lease lease = new Lease(ticker, ticker.now(), window.toNanos());
            for (int i = 0; i < 10; i++) {
                ticker.suspend(Duration.ofSeconds(12));
                assertThat(lease.renew(ticker.now())).isTrue();
            }
            assertThat(lease.remainingNanos()).isEqualTo(window.toNanos());
        }

        /** It costs a term at the most, and never lengthens one. */
        @Test
        void aStepOfTheWallClockNeverMakesItLastLonger() {
            Lease lease = new Lease(ticker, ticker.now(), window.toNanos());
            ticker.stepWallClock(Duration.ofHours(-1));
            assertThat(lease.remainingNanos()).isEqualTo(window.toNanos());
            ticker.advance(window);
            assertThat(lease.isValid()).isFalse();
            Lease forward = new Lease(ticker, ticker.now(), window.toNanos());
            ticker.stepWallClock(Duration.ofHours(1));
            assertThat(forward.isValid()).isFalse();
            ticker.stepWallClock(Duration.ofHours(-1));
            assertThat(forward.isValid()).as("once it has ended").isFalse();
        }

        @Test
        void noReadingOfTheWallClockIsTooStrange() {
            for (long millis : new long[] {0, Long.MAX_VALUE, Long.MIN_VALUE, -1}) {
                Ticker strange = new Ticker() {
                    @Override
                    public long nanos() {
                        return ticker.nanos();
                    }

                    @Override
                    public long wallMillis() {
                        return millis;
                    }
                };
                Lease lease = new Lease(strange, strange.now(), window.toNanos());
                assertThat(lease.remainingNanos()).as("at %d", millis).isBetween(0L, window.toNanos());
            }
        }
    }

    /** Runs an action once, while the lease reads the clock, which it does after it has looked at the deadline. */
    private static final class InterruptedTicker implements Ticker {
        private long reading;
        private Runnable beforeReading = () -> {};
        private Runnable afterReading = () -> {};

        @Override
        public long nanos() {
            Runnable before = beforeReading;
            beforeReading = () -> {};
            before.run();
            long now = reading;
            Runnable after = afterReading;
            afterReading = () -> {};
            after.run();
            return now;
        }

        @Override
        public long wallMillis() {
            return WALL_MILLIS;
        }
    }

    @Test
    void aRenewalFailsIfSomebodySawTheEndMeanwhile() {
        InterruptedTicker clock = new InterruptedTicker();
        Lease lease = lease(clock, 100);
        List<Boolean> seen = new ArrayList<>();
        clock.reading = 99;
        clock.afterReading = () -> {
            clock.reading = 100;
            seen.add(lease.isValid());
        };
        assertThat(lease.renew(start(900))).isFalse();
        assertThat(seen).containsExactly(false);
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void aRenewalFailsIfTheLeaseWasRevokedMeanwhile() {
        InterruptedTicker clock = new InterruptedTicker();
        Lease lease = lease(clock, 100);
        clock.afterReading = lease::revoke;
        assertThat(lease.renew(start(900))).isFalse();
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void aReaderThatIsOvertakenByARenewalDoesNotUndoIt() {
        InterruptedTicker clock = new InterruptedTicker();
        Lease lease = lease(clock, 100);
        List<Boolean> renewed = new ArrayList<>();
        clock.reading = 99;
        clock.beforeReading = () -> {
            renewed.add(lease.renew(start(900)));
            clock.reading = 500;
        };
        assertThat(lease.isValid())
                .as("by a reader that saw the old deadline and the late clock")
                .isTrue();
        assertThat(renewed).containsExactly(true);
        assertThat(lease.remainingNanos()).isEqualTo(500);
    }

    /**
     * One thread renews and two read while the clock passes the deadline. It fails if a reader doesn't mark the lease as
     * ended, or if a renewal sets the deadline without comparing.
     */
    @Test
    @Timeout(300)
    void nobodySeesItValidAfterSomebodySawItEnded() throws Exception {
        Race race = new Race();
        ExecutorService threads = Executors.newFixedThreadPool(3);
        try {
            List<Future<?>> running = List.of(
                    threads.submit(() -> race.inRounds(race::read)),
                    threads.submit(() -> race.inRounds(race::read)),
                    threads.submit(() -> race.inRounds(race::renew)));
            for (Future<?> each : running) {
                each.get();
            }
        } finally {
            threads.shutdownNow();
        }
        assertThat(race.violations).hasValue(0);
        assertThat(race.renewals.get())
                .as("renewals that won the race, of " + Race.ROUNDS)
                .isBetween(1, Race.ROUNDS - 1);
    }

    private static final class Race {
        private static final int ROUNDS = Integer.getInteger("race.rounds", 2_000);

        private final ManualTicker clock = new ManualTicker(0);
        /** Lets other threads go first where a lease is most vulnerable: between the clock and what follows from it. */
        private final Ticker yielding = new Ticker() {
            @Override
            @SuppressWarnings("ThreadPriorityCheck") // A test that is kept from yielding notices less; it doesn't fail.
            public long nanos() {
                long now = clock.nanos();
                Thread.yield();
                return now;
            }

            @Override
            public long wallMillis() {
                return WALL_MILLIS;
            }
        };

        private final AtomicInteger renewals = new AtomicInteger();
        private final AtomicInteger violations = new AtomicInteger();
        private final CyclicBarrier start = new CyclicBarrier(3, this::begin);
        private volatile Lease lease = Lease.NONE;
        private volatile boolean seenEnded;
        private volatile long beganAt;
        private int renewRound;

        private void begin() {
            lease = new Lease(yielding, start(clock.nanos()), 2);
            seenEnded = false;
            beganAt = clock.nanos();
        }

        void read() {
            clock.advanceNanos(1);
            for (int i = 0; i < 10; i++) {
                boolean seenEndedBefore = seenEnded;
                if (!lease.isValid()) {
                    seenEnded = true;
                } else if (seenEndedBefore) {
                    violations.incrementAndGet();
                }
            }
        }

        /** In each third round after a reader's look at the earliest, and in each third too late: so no scheduling is dull. */
        @SuppressWarnings("ThreadPriorityCheck")
        void renew() {
            while (clock.nanos() - beganAt < renewRound % 3) {
                Thread.yield();
            }
            renewRound++;
            boolean seenEndedBefore = seenEnded;
            if (lease.renew(start(clock.nanos() + 1_000))) {
                renewals.incrementAndGet();
                if (seenEndedBefore) {
                    violations.incrementAndGet();
                }
            }
        }

        void inRounds(Runnable round) {
            try {
                for (int i = 0; i < ROUNDS; i++) {
                    start.await();
                    round.run();
                }
            } catch (InterruptedException | BrokenBarrierException e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
