package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A session whose server behaves well until the test says otherwise: a scripted answer is used once, in order, in place of
 * the good one. Each call is told to the journal when it begins. Refuses what a session's user must not do.
 */
final class ScriptedSession implements LockSession {

    /** What the server does for one call, or how it fails. */
    interface Answer<T> {
        T give() throws LockSessionException;
    }

    /** The server behind the sessions of one test. */
    static final class Server {
        /** The keys that somebody else holds. */
        final Set<LockKey> takenByOthers = new HashSet<>();

        Duration uptime = Duration.ofDays(10);
        int timeline = 1;
        int members = 1;
        int lastBackendPid = 100;
    }

    final Queue<Answer<Set<LockKey>>> tries = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Boolean>> queueings = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Set<LockKey>>> checks = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Void>> releases = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Void>> announcements = new ConcurrentLinkedQueue<>();
    final Queue<Answer<List<String>>> waits = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Optional<Holder>>> holders = new ConcurrentLinkedQueue<>();
    final Set<LockKey> held = new HashSet<>();
    /** How many locks the server has room for; a try that needs more gets what there is, and an error. */
    int capacity = Integer.MAX_VALUE;

    /** How many statements have released locks. */
    int releaseStatements;

    /** Whether await() waits; if not, it returns at once. */
    boolean waitsForReal;

    private final Semaphore wakeUps = new Semaphore(0);
    private final Server server;
    private final Facts facts;
    private final Consumer<String> journal;
    /** Thrown by abort(), after it has ended the session. */
    @Nullable
    RuntimeException abortFailure;

    private volatile boolean failed;
    private volatile boolean ended;

    ScriptedSession(Server server, Consumer<String> journal) {
        this.server = server;
        this.journal = journal;
        this.facts = new Facts(
                ++server.lastBackendPid,
                "test",
                "test:5432",
                "18.0",
                new ServerRun("", "", server.timeline),
                server.uptime,
                true);
    }

    static <T> Answer<T> fault(LockSessionException.Fault fault) {
        return () -> {
            throw new LockSessionException(fault, "scripted " + fault);
        };
    }

    @Override
    public Facts facts() {
        return facts;
    }

    @Override
    public Set<LockKey> tryLock(Collection<LockKey> keys) throws LockSessionException {
        begin("try " + describe(keys));
        if (keys.stream().anyMatch(held::contains)) {
            throw new AssertionError("Tried " + keys + ", of which the session holds " + held + " already");
        }
        Set<LockKey> granted = new HashSet<>(keys);
        granted.removeAll(server.takenByOthers);
        if (held.size() + granted.size() > capacity) {
            granted.stream().limit(capacity - held.size()).toList().forEach(held::add);
            throw new LockSessionException(LockSessionException.Fault.LOCK_TABLE_FULL, "scripted");
        }
        granted = answer(tries, Set.copyOf(granted));
        held.addAll(granted);
        return granted;
    }

    @Override
    public boolean lockWithin(LockKey key, Duration longest) throws LockSessionException {
        begin("queue " + key + " for " + longest.toMillis() + " ms");
        if (held.contains(key)) {
            throw new AssertionError("Waits for " + key + ", which the session holds already");
        }
        boolean granted = answer(queueings, !server.takenByOthers.contains(key));
        if (granted) {
            held.add(key);
        }
        return granted;
    }

    @Override
    public Set<LockKey> findFree(Collection<LockKey> keys) throws LockSessionException {
        begin("look " + describe(keys));
        Set<LockKey> free = new HashSet<>(keys);
        free.removeAll(server.takenByOthers);
        free.removeAll(held);
        return free;
    }

    @Override
    public boolean join(LockKey group) {
        begin("join");
        return true;
    }

    @Override
    public int countMembers(LockKey group) {
        begin("count members");
        return server.members;
    }

    @Override
    public void giveBack(Collection<LockKey> keys) {
        begin("give back " + describe(keys));
        if (!held.containsAll(keys)) {
            throw new AssertionError("Gives back " + keys + " but holds " + held);
        }
        held.removeAll(keys);
    }

    @Override
    public Set<LockKey> check() throws LockSessionException {
        begin("check");
        return answer(checks, Set.copyOf(held));
    }

    @Override
    public void release(Map<LockKey, String> notifications) throws LockSessionException {
        releaseStatements++;
        for (Map.Entry<LockKey, String> each : notifications.entrySet()) {
            begin("release " + each.getKey() + " with \"" + each.getValue() + "\"");
            if (!held.remove(each.getKey())) {
                throw new AssertionError("Released " + each.getKey() + ", which the session doesn't hold");
            }
        }
        answer(releases, null);
    }

    @Override
    public void announce(List<String> notifications) throws LockSessionException {
        for (String notification : notifications) {
            begin("announce \"" + notification + "\"");
        }
        answer(announcements, null);
    }

    @Override
    public Optional<Holder> findHolder(LockKey key) throws LockSessionException {
        begin("find " + key);
        return answer(holders, Optional.empty());
    }

    @Override
    public List<String> await(long maxNanos) throws LockSessionException {
        if (maxNanos < 0) {
            throw new AssertionError("Waits for " + maxNanos + " ns");
        }
        refuseIfEnded("await");
        if (waitsForReal && waits.isEmpty()) {
            try {
                if (wakeUps.tryAcquire(maxNanos, TimeUnit.NANOSECONDS)) {
                    wakeUps.drainPermits();
                }
            } catch (InterruptedException e) {
                throw new LockSessionException(LockSessionException.Fault.CONNECTION_LOST, "interrupted", e);
            }
        }
        return answer(waits, List.of());
    }

    @Override
    public void wake() {
        wakeUps.release();
    }

    @Override
    public void close() {
        begin("close");
        end();
    }

    @Override
    public void abort() {
        journal.accept("abort");
        end();
        if (abortFailure != null) {
            throw abortFailure;
        }
    }

    boolean isEnded() {
        return ended;
    }

    private void end() {
        ended = true;
        held.clear();
    }

    private void begin(String call) {
        refuseIfEnded(call);
        journal.accept(call);
    }

    private void refuseIfEnded(String call) {
        if (ended || failed) {
            throw new AssertionError("Uses a session that has " + (ended ? "ended: " : "failed: ") + call);
        }
    }

    private <T> T answer(Queue<Answer<T>> script, T good) throws LockSessionException {
        Answer<T> scripted = script.poll();
        try {
            return scripted == null ? good : scripted.give();
        } catch (LockSessionException e) {
            failed = e.fault() != LockSessionException.Fault.LOCK_TABLE_FULL;
            throw e;
        }
    }

    private static String describe(Collection<LockKey> keys) {
        return keys.size() > 3 ? keys.size() + " keys" : keys.toString();
    }
}
