package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockTableFullException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
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

    /** Who holds the keys that others took. */
    static final Holder OTHER = new Holder(4711, "pg-leader/elsewhere");

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
        String startedAt = "noon";
        int members = 1;
        int lastBackendPid = 100;
    }

    final Queue<Answer<Set<LockKey>>> tries = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Boolean>> queueings = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Set<LockKey>>> checks = new ConcurrentLinkedQueue<>();
    final Queue<Answer<Void>> releases = new ConcurrentLinkedQueue<>();
    /** Whether each of the next notifications was told; when there is none, it is. */
    final Queue<Answer<Boolean>> tellings = new ConcurrentLinkedQueue<>();

    final Queue<Answer<List<Notification>>> waits = new ConcurrentLinkedQueue<>();
    /** Who holds the keys, in place of {@link #OTHER} for those that others took. */
    final Queue<Answer<Map<LockKey, Holder>>> holders = new ConcurrentLinkedQueue<>();

    final Queue<Answer<Set<Integer>>> commanders = new ConcurrentLinkedQueue<>();
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
                new ServerRun(server.startedAt, "never", server.timeline),
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
        granted.removeAll(server.takenByOthers);
        if (held.size() + granted.size() > capacity) {
            granted.stream().limit(capacity - held.size()).toList().forEach(held::add);
            throw new LockTableFullException("scripted", new IllegalStateException("scripted"));
        }
        granted = answer(tries, Set.copyOf(granted));
        held.addAll(granted);
        Set<LockKey> refused = new HashSet<>(keys);
        refused.removeAll(granted);
        return new Attempt(granted, answer(holders, holdersOf(refused)));
    }

    private Map<LockKey, Holder> holdersOf(Collection<LockKey> keys) {
        Map<LockKey, Holder> found = new HashMap<>();
        for (LockKey key : keys) {
            if (held.contains(key)) {
                found.put(key, new Holder(facts.backendPid(), "pg-leader/" + ScriptedElection.INSTANCE));
            } else if (server.takenByOthers.contains(key)) {
                found.put(key, OTHER);
            }
        }
        return found;
    }

    @Override
    public boolean waitInQueue(LockKey key, Duration longest) throws LockSessionException, LockTableFullException {
        begin("queue " + key + " for " + longest.toMillis() + " ms");
        if (held.contains(key)) {
            throw new AssertionError("Waits for " + key + ", which the session holds already");
        }
        if (held.size() >= capacity) {
            throw new LockTableFullException("scripted", new IllegalStateException("scripted"));
        }
        boolean granted = answer(queueings, !server.takenByOthers.contains(key));
        if (granted) {
            held.add(key);
        }
        return granted;
    }

    @Override
    public Map<LockKey, Holder> findHolders(Collection<LockKey> keys) throws LockSessionException {
        begin("look " + describe(keys));
        return answer(holders, holdersOf(keys));
    }

    @Override
    public boolean join(LockKey group) {
        begin("join");
        return true;
    }

    @Override
    public void leave(LockKey group) {
        begin("leave");
    }

    @Override
    public int countMembers(LockKey group) {
        begin("count members");
        return server.members;
    }

    @Override
    public Set<LockKey> check() throws LockSessionException {
        begin("check");
        return answer(checks, Set.copyOf(held));
    }

    @Override
    public void release(Collection<LockKey> keys) throws LockSessionException {
        releaseStatements++;
        for (LockKey key : keys) {
            begin("release " + key);
            if (!held.remove(key)) {
                throw new AssertionError("Released " + key + ", which the session doesn't hold");
            }
        }
        answer(releases, null);
    }

    @Override
    public boolean tell(List<String> notifications) throws LockSessionException {
        for (String notification : notifications) {
            begin("tell \"" + notification + "\"");
        }
        return answer(tellings, true);
    }

    @Override
    public Set<Integer> findCommanders(Collection<Integer> backendPids) throws LockSessionException {
        begin("who commands of " + backendPids.stream().sorted().toList());
        return answer(commanders, Set.copyOf(backendPids));
    }

    @Override
    public List<Notification> awaitNotifications(long maxNanos) throws LockSessionException {
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
            failed = true;
            throw e;
        }
    }

    private static String describe(Collection<LockKey> keys) {
        return keys.size() > 3 ? keys.size() + " keys" : keys.toString();
    }
}
