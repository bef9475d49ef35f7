package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LeaseTest {

    private final ManualTicker ticker = new ManualTicker(0);

    /** A deadline is kept at a resolution of two nanoseconds, so an odd one may come a nanosecond early, never late. */
    @ParameterizedTest
    @ValueSource(
            longs = {0, 1, -1, 1_000, -1_001, Long.MAX_VALUE, Long.MAX_VALUE - 1, Long.MIN_VALUE, Long.MIN_VALUE + 50})
    void isValidUntilItsDeadlineWhereverTheClockStands(long deadline) {
        ManualTicker clock = new ManualTicker(deadline - 100);
        Lease lease = new Lease(clock, deadline);
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
        Lease lease = new Lease(clock, Long.MAX_VALUE);
        assertThat(lease.renew(Long.MAX_VALUE + 100)).isTrue();
        clock.advanceNanos(60);
        assertThat(clock.nanos()).isNegative();
        assertThat(lease.isValid()).isTrue();
        clock.advanceNanos(60);
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void lastsLongerWhenItIsRenewedInTime() {
        Lease lease = new Lease(ticker, 100);
        ticker.advanceNanos(99);
        assertThat(lease.renew(200)).isTrue();
        ticker.advanceNanos(99);
        assertThat(lease.remainingNanos()).isEqualTo(2);
    }

    @Test
    void isNotRenewedOnceItHasRunOutEvenIfNobodyLooked() {
        Lease lease = new Lease(ticker, 100);
        ticker.advanceNanos(100);
        assertThat(lease.renew(1_000)).isFalse();
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void isNotRenewedOnceItWasRevoked() {
        Lease lease = new Lease(ticker, 100);
        lease.revoke();
        assertThat(lease.isValid()).isFalse();
        assertThat(lease.renew(1_000)).isFalse();
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void staysEndedEvenIfTheClockSteppedBack() {
        Lease lease = new Lease(ticker, 100);
        ticker.advanceNanos(100);
        assertThat(lease.isValid()).isFalse();
        ticker.advanceNanos(-50);
        assertThat(lease.isValid()).isFalse();
        assertThat(lease.renew(1_000)).isFalse();
    }

    @Test
    void aLeaseThatNeverWasIsNeverValid() {
        Lease lease = Lease.ended(new ManualTicker(-1_000));
        assertThat(lease.isValid()).isFalse();
        assertThat(lease.renew(1_000)).isFalse();
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
    }

    @Test
    void aRenewalFailsIfSomebodySawTheEndMeanwhile() {
        InterruptedTicker clock = new InterruptedTicker();
        Lease lease = new Lease(clock, 100);
        List<Boolean> seen = new ArrayList<>();
        clock.reading = 99;
        clock.afterReading = () -> {
            clock.reading = 100;
            seen.add(lease.isValid());
        };
        assertThat(lease.renew(1_000)).isFalse();
        assertThat(seen).containsExactly(false);
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void aRenewalFailsIfTheLeaseWasRevokedMeanwhile() {
        InterruptedTicker clock = new InterruptedTicker();
        Lease lease = new Lease(clock, 100);
        clock.afterReading = lease::revoke;
        assertThat(lease.renew(1_000)).isFalse();
        assertThat(lease.isValid()).isFalse();
    }

    @Test
    void aReaderThatIsOvertakenByARenewalDoesNotUndoIt() {
        InterruptedTicker clock = new InterruptedTicker();
        Lease lease = new Lease(clock, 100);
        List<Boolean> renewed = new ArrayList<>();
        clock.reading = 99;
        clock.beforeReading = () -> {
            renewed.add(lease.renew(1_000));
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
        private final AtomicInteger renewals = new AtomicInteger();
        private final AtomicInteger violations = new AtomicInteger();
        private final CyclicBarrier start = new CyclicBarrier(3, this::begin);
        private volatile Lease lease = Lease.ended(clock);
        private volatile boolean seenEnded;

        private void begin() {
            lease = new Lease(this::nanos, clock.nanos() + 2);
            seenEnded = false;
        }

        /** Lets other threads go first where a lease is most vulnerable: between the clock and what follows from it. */
        @SuppressWarnings("ThreadPriorityCheck") // A test that is kept from yielding notices less; it doesn't fail.
        private long nanos() {
            long now = clock.nanos();
            Thread.yield();
            return now;
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

        void renew() {
            boolean seenEndedBefore = seenEnded;
            if (lease.renew(clock.nanos() + 1_000)) {
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
