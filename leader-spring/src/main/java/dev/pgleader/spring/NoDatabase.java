package dev.pgleader.spring;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Takes the place of the database in tests and with {@link LeaderMode#ALWAYS_LEADER}: it grants a lock exactly if it was told to, to this
 * process alone. Thread-safe.
 */
public final class NoDatabase implements LockSession.Opener {

    private static final Duration LONGER_THAN_ANY_LEASE = Duration.ofDays(400);

    private final boolean grantsAll;
    private final Set<LockKey> granted = ConcurrentHashMap.newKeySet();
    private volatile @Nullable Session current;

    private NoDatabase(boolean grantsAll) {
        this.grantsAll = grantsAll;
    }

    /** Grants what it's told to. */
    public static NoDatabase grantingWhatItIsTold() {
        return new NoDatabase(false);
    }

    /** Grants everything: this process always leads. */
    public static NoDatabase grantingAll() {
        return new NoDatabase(true);
    }

    /** From now on the lock is granted. */
    public void grant(LockKey key) {
        granted.add(key);
    }

    /** From now on the lock isn't granted; who holds it keeps it. */
    public void withdraw(LockKey key) {
        granted.remove(key);
    }

    /** Withdraws all grants, and has the session end for this reason. */
    public void fail(Fault fault) {
        granted.clear();
        Session failing = current;
        if (failing != null) {
            failing.fail(fault);
        }
    }

    private boolean grants(LockKey key) {
        return grantsAll || granted.contains(key);
    }

    @Override
    public LockSession open(LockSession.Settings settings) {
        Session opened = new Session(settings.instanceId());
        current = opened;
        return opened;
    }

    @Override
    public String toString() {
        return grantsAll ? "no database: this instance always leads" : "no database, but the grants of the test";
    }

    private final class Session implements LockSession {

        private final String instanceId;
        private final Set<LockKey> held = new HashSet<>();
        private final Semaphore wakeUps = new Semaphore(0);
        private volatile @Nullable Fault failure;

        Session(String instanceId) {
            this.instanceId = instanceId;
        }

        void fail(Fault fault) {
            failure = fault;
            wake();
        }

        private void requireAlive() throws LockSessionException {
            Fault fault = failure;
            if (fault != null) {
                throw new LockSessionException(fault, "The session was told to fail");
            }
        }

        @Override
        public Facts facts() {
            return new Facts(1, "none", "none", "none", new ServerRun("", "", 0), LONGER_THAN_ANY_LEASE, true);
        }

        @Override
        public Attempt attempt(Collection<LockKey> keys) throws LockSessionException {
            requireAlive();
            Set<LockKey> won = keys.stream().filter(NoDatabase.this::grants).collect(Collectors.toSet());
            held.addAll(won);
            return new Attempt(won, Map.of());
        }

        @Override
        public boolean waitInQueue(LockKey key, Duration longest) throws LockSessionException {
            if (attempt(Set.of(key)).granted().isEmpty()) {
                awaitNotifications(longest.toNanos());
            }
            return held.contains(key) || !attempt(Set.of(key)).granted().isEmpty();
        }

        @Override
        public Map<LockKey, Holder> findHolders(Collection<LockKey> keys) throws LockSessionException {
            requireAlive();
            Holder self = new Holder(1, "pg-leader/" + instanceId);
            return keys.stream().filter(held::contains).collect(Collectors.toMap(key -> key, key -> self));
        }

        @Override
        public boolean join(LockKey group) {
            return true;
        }

        @Override
        public void leave(LockKey group) {}

        @Override
        public int countMembers(LockKey group) {
            return 1;
        }

        @Override
        public Set<LockKey> check() throws LockSessionException {
            requireAlive();
            return Set.copyOf(held);
        }

        @Override
        public void release(Collection<LockKey> keys) throws LockSessionException {
            requireAlive();
            held.removeAll(keys);
        }

        @Override
        public boolean tell(List<String> notifications) throws LockSessionException {
            requireAlive();
            return true;
        }

        @Override
        public Set<Integer> findCommanders(Collection<Integer> backendPids) {
            return Set.of();
        }

        @Override
        public List<Notification> awaitNotifications(long maxNanos) throws LockSessionException {
            requireAlive();
            try {
                if (wakeUps.tryAcquire(maxNanos, TimeUnit.NANOSECONDS)) {
                    wakeUps.drainPermits();
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            requireAlive();
            return List.of();
        }

        @Override
        public void wake() {
            wakeUps.release();
        }

        @Override
        public void close() {
            held.clear();
        }

        @Override
        public void abort() {
            fail(Fault.CONNECTION_LOST);
        }
    }
}
