package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Two threads that contend for one key, each by one session after the other, and when each was sure to hold it. */
final class Contention {

    private static final Duration TIME = Duration.ofMillis(1_500);

    /** A time during which a session was sure to hold the lock. */
    private record Hold(long fromNanos, long untilNanos) {}

    private final ConnectionSource source;
    private final LockKey key;
    private final Settings settings;
    private final List<Hold> holds = new ArrayList<>();
    private final Map<Fault, Integer> faults = new EnumMap<>(Fault.class);

    private Contention(ConnectionSource source, LockKey key, Settings settings) {
        this.source = source;
        this.key = key;
        this.settings = settings;
    }

    static Contention of(ConnectionSource source, LockKey key, Settings settings) throws Exception {
        Contention contention = new Contention(source, key, settings);
        ExecutorService executor = Executors.newFixedThreadPool(2);
        try {
            long end = System.nanoTime() + TIME.toNanos();
            List<Future<?>> contenders = new ArrayList<>();
            for (int contender = 0; contender < 2; contender++) {
                contenders.add(executor.submit(() -> {
                    do {
                        contention.contend();
                    } while (System.nanoTime() - end < 0);
                }));
            }
            for (Future<?> contender : contenders) {
                contender.get(60, TimeUnit.SECONDS);
            }
        } finally {
            executor.shutdownNow();
        }
        return contention;
    }

    private void contend() {
        LockSession session = null;
        try {
            session = LockSession.open(source, settings);
            for (int round = 0; round < 20; round++) {
                if (!session.attempt(List.of(key)).granted().isEmpty()
                        && session.check().contains(key)) {
                    hold(session);
                    session.release(List.of(key));
                }
            }
        } catch (LockTableFullException e) {
            throw new AssertionError(e);
        } catch (LockSessionException e) {
            synchronized (this) {
                faults.merge(e.fault(), 1, Integer::sum);
            }
        } finally {
            if (session != null) {
                session.abort();
            }
        }
    }

    private void hold(LockSession session) throws LockSessionException {
        long from = System.nanoTime();
        long until = from;
        try {
            for (int checks = 0; checks < 10; checks++) {
                long checkStart = System.nanoTime();
                if (session.check().contains(key)) {
                    until = checkStart;
                }
            }
        } finally {
            synchronized (this) {
                holds.add(new Hold(from, until));
            }
        }
    }

    void assertNeverBoth() {
        List<Hold> inOrder =
                holds.stream().sorted(Comparator.comparingLong(Hold::fromNanos)).toList();
        for (int i = 1; i < inOrder.size(); i++) {
            assertThat(inOrder.get(i).fromNanos() - inOrder.get(i - 1).untilNanos())
                    .isPositive();
        }
    }

    int holds() {
        return holds.size();
    }

    /** How many sessions ended with this fault. */
    int faults(Fault fault) {
        return faults.getOrDefault(fault, 0);
    }
}
