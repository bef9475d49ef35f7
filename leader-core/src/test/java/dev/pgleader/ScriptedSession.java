package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockTableFullException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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
        /** Somebody else, who leads where nothing else is said. */
        static final Holder ELSEWHERE = new Holder(4711, "pg-leader/elsewhere");

        /** The keys that somebody else holds, and who does. */
        private final Map<LockKey, Holder> others = new LinkedHashMap<>();

        /** The backends that may command the sessions. */
        final Set<Integer> commanders = new HashSet<>();

        String startedAt = "2026-01-01";
        String statisticsResetAt = "2026-01-01";
        Duration uptime = Duration.ofDays(10);
        int timeline = 1;
        int members = 1;
        int lastBackendPid = 100;

        void take(LockKey key) {
            take(key, ELSEWHERE);
        }

        void take(LockKey key, Holder holder) {
            others.put(key, holder);
        }

        /** The others hold nothing any more. */
        void freeAll() {
            others.clear();
        }
    }

    final Queue<Answer<Set<LockKey>>> tries = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Boolean>> queueings = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Set<LockKey>>> checks = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Void>> releases = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Boolean>> tellings = new ConcurrentLinkedQueue<>();
    final Queue<Answer<List<Notification>>> waits = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Void>> looks = new ConcurrentLinkedQueue<>();
    final Set<LockKey> held = new HashSet<>();
    /** The groups that it has joined. */
    final Set<LockKey> joined = new HashSet<>();
    /** How many locks the server has room for; a try that needs more gets what there is, and an error. */
    int capacity = Integer.MAX_VALUE;

    /** How many statements have released locks. */
    int releaseStatements;

    /** Whether awaitNotifications() waits; if not, it returns at once. */
    boolean waitsForReal;

    /** What each round trip does first, such as taking its time; it may throw what it likes. */
    Runnable onRoundTrip = () -> {};

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
                new ServerRun(server.startedAt, server.statisticsResetAt, server.timeline),
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
    public Attempt attempt(Collection<LockKey> keys) throws LockSessionException, LockTableFullException {
        begin("try " + describe(keys));
        if (keys.stream().anyMatch(held::contains)) {
            throw new AssertionError("Tried " + keys + ", of which the session holds " + held + " already");
        }
        Set<LockKey> granted = new HashSet<>(keys);
        granted.removeAll(server.others.keySet());
        if (held.size() + granted.size() > capacity) {
            granted.stream().limit(capacity - held.size()).toList().forEach(held::add);
            throw new LockTableFullException("scripted", new IllegalStateException("scripted"));
        }
        granted = answer(tries, Set.copyOf(granted));
        held.addAll(granted);
        return new Attempt(granted, holdersOf(keys));
    }

    private Map<LockKey, Holder> holdersOf(Collection<LockKey> keys) {
        Map<LockKey, Holder> holders = new HashMap<>(server.others);
        holders.keySet().retainAll(keys);
        return holders;
    }

    @Override
    public boolean waitInQueue(LockKey key, Duration longest) throws LockSessionException, LockTableFullException {
        String call = "queue " + key + " for " + longest.toMillis() + " ms";
        if (failed) {
            refuseIfEnded(call);
        }
        if (ended) {
            // Another thread may break the wait off just before it begins, or in this moment.
            throw new LockSessionException(LockSessionException.Fault.CONNECTION_LOST, "aborted");
        }
        record(call);
        if (held.contains(key)) {
            throw new AssertionError("Waits for " + key + ", which the session holds already");
        }
        boolean granted = answer(queueings, !server.others.containsKey(key));
        if (granted && held.size() == capacity) {
            throw new LockTableFullException("scripted", new IllegalStateException("scripted"));
        }
        if (granted) {
            held.add(key);
        }
        return granted;
    }

    @Override
    public Map<LockKey, Holder> findHolders(Collection<LockKey> keys) throws LockSessionException {
        begin("look " + describe(keys));
        answer(looks, null);
        Map<LockKey, Holder> holders = holdersOf(keys);
        held.stream()
                .filter(keys::contains)
                .forEach(key ->
                        holders.put(key, new Holder(facts.backendPid(), "pg-leader/" + ScriptedElection.INSTANCE)));
        return holders;
    }

    @Override
    public boolean join(LockKey group) throws LockSessionException {
        begin("join");
        if (!joined.add(group)) {
            throw new AssertionError("Joins " + group + " twice");
        }
        return true;
    }

    @Override
    public void leave(LockKey group) throws LockSessionException {
        begin("leave");
        if (!joined.remove(group)) {
            throw new AssertionError("Leaves " + group + ", which it never joined");
        }
    }

    @Override
    public int countMembers(LockKey group) throws LockSessionException {
        begin("count members");
        return joined.contains(group) ? server.members : server.members - 1;
    }

    @Override
    public Set<Integer> findCommanders(Collection<Integer> backendPids) throws LockSessionException {
        begin("find commanders among " + backendPids.size());
        Set<Integer> found = new HashSet<>(backendPids);
        found.retainAll(server.commanders);
        return found;
    }

    @Override
    public Set<LockKey> check() throws LockSessionException {
        begin("check");
        return answer(checks, Set.copyOf(held));
    }

    @Override
    public void release(Collection<LockKey> keys) throws LockSessionException {
        releaseStatements++;
        begin("release " + describe(keys));
        if (!held.containsAll(keys)) {
            throw new AssertionError("Releases " + keys + " but holds " + held);
        }
        answer(releases, null);
        held.removeAll(keys);
    }

    @Override
    public boolean tell(List<String> notifications) throws LockSessionException {
        begin("tell " + (notifications.size() > 3 ? notifications.size() + " notices" : notifications.toString()));
        return answer(tellings, true);
    }

    @Override
    public List<Notification> awaitNotifications(long maxNanos) throws LockSessionException {
        if (maxNanos < 0) {
            throw new AssertionError("Waits for " + maxNanos + " ns");
        }
        refuseIfEnded("awaitNotifications");
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
        joined.clear();
    }

    private void begin(String call) {
        refuseIfEnded(call);
        record(call);
    }

    private void record(String call) {
        journal.accept(call);
        onRoundTrip.run();
    }

    private void refuseIfEnded(String call) {
        if (ended || failed) {
            throw new AssertionError("Uses a session that has " + (ended ? "ended: " : "failed: ") + call);
        }
    }

    private <T extends @Nullable Object> T answer(Queue<Answer<T>> script, T good) throws LockSessionException {
        Answer<T> scripted = script.poll();
        try {
            return scripted == null ? good : scripted.give();
        } catch (LockSessionException e) {
            failed = true;
            throw e;
        }
    }

    private static String describe(Collection<LockKey> keys) {
        return keys.size() > 3 ? keys.size() + " keys" : keys.toString();
    }
}
