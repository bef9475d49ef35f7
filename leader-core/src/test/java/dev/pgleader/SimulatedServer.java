package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSession.Attempt;
import dev.pgleader.lock.LockSession.Holder;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** What lock sessions see of one incarnation of a PostgreSQL server, from start to shutdown or crash. */
final class SimulatedServer extends SimulatedHost {

    /** A statement; throws what the server answers with as an error. */
    @FunctionalInterface
    interface Statement<T> {
        T execute(Backend backend) throws LockSessionException;
    }

    /** A statement on its way from and back to a client. */
    static class Call<T> {
        final String name;
        private final Statement<T> statement;
        boolean abandoned;
        boolean answered;
        boolean granted;

        @Nullable
        T answer;

        @Nullable
        LockSessionException error;

        Call(String name, Statement<T> statement) {
            this.name = name;
            this.statement = statement;
        }

        private void execute(Backend backend) {
            try {
                answer = statement.execute(backend);
            } catch (LockSessionException e) {
                error = e;
            }
        }
    }

    /** A statement that waits for a lock in the server's queue. */
    static final class QueueCall extends Call<Boolean> {
        private final LockKey key;
        private final long longestNanos;

        QueueCall(LockKey key, long longestNanos) {
            super("queue", backend -> backend.takeIfFree(key));
            this.key = key;
            this.longestNanos = longestNanos;
        }
    }

    private record Waiter(Backend backend, QueueCall call) {}

    final int timeline;
    final SimulatedNotices notices;
    private final Simulation simulation;
    private final boolean standby;
    private final List<Backend> backends = new ArrayList<>();
    private final Map<LockKey, Backend> holders = new LinkedHashMap<>();
    private final Map<LockKey, Deque<Waiter>> queues = new HashMap<>();
    private int lastPid;

    // What it says of itself, by its wall clock.
    private final long startedAtMillis;
    private long statisticsResetAtMillis;

    /** When it really forgot its locks last. */
    private long forgotLocksAt;

    /** Whether a client that connects while the server is down is told so. */
    boolean saysThatItIsDown = true;

    boolean readOnly;
    long refusesUntil;
    private long slowUntil;
    private long slowestNanos;

    SimulatedServer(Simulation simulation, String name, Clock clock, int timeline, long startedAt, boolean standby) {
        super(simulation.world, name, clock);
        this.simulation = simulation;
        this.timeline = timeline;
        this.standby = standby;
        this.notices = new SimulatedNotices(simulation, this);
        long age = (long) ((world.now() - startedAt) * clock.rate());
        this.startedAtMillis = readWallClock() - TimeUnit.NANOSECONDS.toMillis(age);
        this.statisticsResetAtMillis = startedAtMillis;
        this.forgotLocksAt = startedAt;
    }

    @Nullable
    Backend holder(LockKey key) {
        return holders.get(key);
    }

    Collection<Backend> holders() {
        return holders.values();
    }

    Set<LockKey> heldBy(@Nullable Backend backend) {
        Set<LockKey> held = new LinkedHashSet<>();
        holders.forEach((key, holder) -> {
            if (holder == backend) {
                held.add(key);
            }
        });
        return held;
    }

    List<Backend> backends() {
        return List.copyOf(backends);
    }

    int newPid() {
        return ++lastPid;
    }

    /** One backend crashed: the postmaster ended all others and has started anew, with new statistics. */
    void restartBackends() {
        endAllSessions(true);
        forgotLocksAt = world.now();
        resetStatistics();
    }

    void resetStatistics() {
        long now = readWallClock();
        statisticsResetAtMillis = now == statisticsResetAtMillis ? now + 1 : now;
    }

    /** For how long it has had its locks. */
    long ageNanos() {
        return world.now() - forgotLocksAt;
    }

    void slowDown(long nanos, long slowest) {
        slowUntil = world.now() + nanos;
        slowestNanos = slowest;
    }

    void heal() {
        thaw();
        notices.heal();
        slowUntil = refusesUntil = world.now();
        readOnly = false;
    }

    boolean isHealthy() {
        return !isFrozen() && slowUntil <= world.now();
    }

    /** Ends all sessions and with them all locks; only a fast shutdown, or the kernel of a live machine, tells the clients. */
    void endAllSessions(boolean tellClients) {
        queues.clear();
        backends().forEach(backend -> backend.end("server", tellClients));
    }

    /** The lock goes to whoever has waited longest. */
    private void free(LockKey key) {
        holders.remove(key);
        Deque<Waiter> queue = queues.getOrDefault(key, new ArrayDeque<>());
        Waiter next = queue.poll();
        if (next != null) {
            next.backend.take(key);
            next.backend.finishWaiting(next.call, true);
        }
    }

    /** A process of the server, which serves one connection. */
    final class Backend {
        final int pid = newPid();
        final SimulatedSession session;
        final SimulatedConnection connection;
        private final Deque<Call<?>> requests = new ArrayDeque<>();
        private final List<String> notifications = new ArrayList<>();
        private final Set<LockKey> groups = new LinkedHashSet<>();
        private boolean ended;
        private boolean executing;
        private boolean clientGone;
        private boolean listening;
        private long idleTimeout = Long.MAX_VALUE;
        private long idleUntil;
        private boolean idleTimerRuns;

        Backend(SimulatedSession session, SimulatedConnection connection) {
            this.session = session;
            this.connection = connection;
            backends.add(this);
        }

        boolean isListening() {
            return listening && !ended;
        }

        boolean holdsAny() {
            return holders.containsValue(this);
        }

        void receive(Call<?> call) {
            if (!ended) {
                requests.add(call);
                executeNext();
            }
        }

        void receiveEndOfConnection() {
            if (!simulation.rules.has(Simulation.Flaw.ETERNAL_SESSIONS)) {
                clientGone = true;
                executeNext();
                if (!ended) {
                    // As client_connection_check_interval has it.
                    world.at(after(simulation.lease / 3), SimulatedServer.this, () -> end("client", false));
                }
            }
        }

        private void executeNext() {
            if (executing || ended) {
                return;
            }
            Call<?> call = requests.poll();
            if (call != null) {
                executing = true;
                int held = heldBy(this).size();
                call.execute(this);
                call.granted = heldBy(this).size() > held;
                if (call instanceof QueueCall queued && !call.granted && call.error == null) {
                    startWaiting(queued);
                } else {
                    finishLater(call);
                }
            } else if (clientGone) {
                end("client", false);
            }
        }

        private void finishLater(Call<?> call) {
            if (call.granted && call.abandoned) {
                simulation.statistics.count("ambiguous grant");
            }
            long latency =
                    slowUntil > world.now() ? simulation.between(0, slowestNanos) : simulation.between(50_000, 300_000);
            if (call.name.equals(SimulatedSession.TELL) && Boolean.FALSE.equals(call.answer)) {
                latency += notices.refusalNanos();
            }
            world.at(world.now() + latency, SimulatedServer.this, () -> finish(call));
        }

        /** The statement's transaction commits, and only now does the timer of {@code idle_session_timeout} restart. */
        private void finish(Call<?> call) {
            if (ended) {
                return;
            }
            executing = false;
            notifications.forEach(payload -> notices.send(pid, payload));
            notifications.clear();
            if (idleTimeout != Long.MAX_VALUE) {
                idleUntil = after(idleTimeout);
                startIdleTimer();
            }
            connection.toClient.send(() -> session.receiveAnswer(call));
            executeNext();
        }

        private void startWaiting(QueueCall call) {
            Waiter waiter = new Waiter(this, call);
            queues.computeIfAbsent(call.key, key -> new ArrayDeque<>()).add(waiter);
            world.at(after(call.longestNanos), SimulatedServer.this, () -> {
                if (queues.getOrDefault(call.key, new ArrayDeque<>()).remove(waiter)) {
                    finishWaiting(call, false);
                }
            });
        }

        private void finishWaiting(QueueCall call, boolean granted) {
            call.answer = granted;
            call.granted = granted;
            if (granted) {
                simulation.statistics.count("grant in the queue");
            }
            finishLater(call);
        }

        private void startIdleTimer() {
            if (!idleTimerRuns) {
                idleTimerRuns = true;
                world.at(idleUntil + simulation.between(0, 2_000_000), SimulatedServer.this, this::idleTimerRings);
            }
        }

        private void idleTimerRings() {
            idleTimerRuns = false;
            if (ended || executing) {
                return;
            } else if (idleUntil > world.now()) {
                startIdleTimer();
            } else if (!simulation.rules.has(Simulation.Flaw.ETERNAL_SESSIONS)) {
                simulation.statistics.count(holdsAny() ? "lease expired" : "idle session ended");
                end("idle_session_timeout", true);
            }
        }

        void end(String cause, boolean tellClient) {
            if (ended) {
                return;
            }
            ended = true;
            backends.remove(this);
            queues.values().forEach(queue -> queue.removeIf(waiter -> waiter.backend == this));
            freeAll(cause);
            if (tellClient) {
                connection.toClient.send(() -> session.receiveEndOfConnection());
            }
        }

        private void freeAll(String cause) {
            for (LockKey key : heldBy(this)) {
                simulation.trace.add(SimulatedServer.this, "frees " + key + " of " + this + " (" + cause + ")");
                free(key);
            }
        }

        private void take(LockKey key) {
            holders.put(key, this);
            simulation.trace.add(SimulatedServer.this, "grants " + key + " to " + this);
        }

        // ---- statements

        LockSession.Facts prepare(Duration lease) throws LockSessionException {
            refuseUntrustworthy();
            if (world.now() < refusesUntil) {
                throw new LockSessionException(Fault.UNREACHABLE, "too many clients");
            }
            idleTimeout = (long) (lease.toNanos() * simulation.rules.leaseFactor());
            listening = true;
            boolean showsReset = !simulation.rules.has(Simulation.Flaw.START_TIME_ONLY);
            boolean showsRun = !simulation.rules.has(Simulation.Flaw.UPTIME_ONLY);
            long since = showsReset ? Math.max(startedAtMillis, statisticsResetAtMillis) : startedAtMillis;
            LockSession.ServerRun run = new LockSession.ServerRun(
                    showsRun ? name + startedAtMillis : "",
                    showsRun && showsReset ? "" + statisticsResetAtMillis : "",
                    showsRun && !simulation.oneIn(4) ? timeline : 0);
            Duration uptime = Duration.ofMillis(readWallClock() - since);
            return new LockSession.Facts(pid, "simulated", name, "18", run, uptime, true);
        }

        boolean takeIfFree(LockKey key) {
            Backend holder = holders.get(key);
            if (holder == this) {
                throw simulation.violation(
                        Simulation.Invariant.NO_DEFECT, this + " tries a lock that it holds, which would stack", null);
            } else if (holder == null) {
                take(key);
            }
            return holder == null;
        }

        Attempt attempt(Collection<LockKey> keys) {
            Set<LockKey> granted = new LinkedHashSet<>();
            Set<LockKey> others = new LinkedHashSet<>();
            keys.forEach(key -> (takeIfFree(key) ? granted : others).add(key));
            return new Attempt(granted, findHolders(others));
        }

        Map<LockKey, Holder> findHolders(Collection<LockKey> keys) {
            Map<LockKey, Holder> found = new LinkedHashMap<>();
            for (LockKey key : keys) {
                Backend holder = holders.get(key);
                if (holder != null) {
                    found.put(key, new Holder(holder.pid, "pg-leader/" + holder.session.node));
                }
            }
            return found;
        }

        Set<LockKey> check() throws LockSessionException {
            refuseUntrustworthy();
            return heldBy(this);
        }

        boolean release(Collection<LockKey> keys) throws LockSessionException {
            boolean all = true;
            for (LockKey key : keys) {
                boolean held = holders.get(key) == this;
                all &= held;
                if (held) {
                    simulation.trace.add(SimulatedServer.this, "unlocks " + key + " for " + this);
                    free(key);
                }
            }
            if (!all) {
                throw new LockSessionException(Fault.LOCK_LOST, "A lock was lost before it was released");
            }
            return true;
        }

        void unlockAll() {
            freeAll("unlocked");
        }

        boolean tell(List<String> payloads) {
            if (notices.isRefused()) {
                simulation.statistics.count("notice refused");
                return false;
            }
            payloads.forEach(simulation::told);
            notifications.addAll(payloads);
            return true;
        }

        /** All lock sessions are of one role, and nobody else is. */
        Set<Integer> findCommanders(Collection<Integer> pids) {
            Set<Integer> ours = backends.stream()
                    .filter(Backend::isListening)
                    .map(backend -> backend.pid)
                    .collect(Collectors.toCollection(TreeSet::new));
            ours.retainAll(pids);
            return simulation.rules.has(Simulation.Flaw.ANYBODY_COMMANDS) ? new TreeSet<>(pids) : ours;
        }

        boolean join(LockKey group) {
            return groups.add(group);
        }

        boolean leave(LockKey group) {
            return groups.remove(group);
        }

        int countMembers(LockKey group) {
            return (int) backends.stream()
                    .filter(backend -> backend.groups.contains(group))
                    .count();
        }

        private void refuseUntrustworthy() throws LockSessionException {
            if (standby) {
                throw new LockSessionException(Fault.STANDBY, "standby");
            }
            if (readOnly) {
                throw new LockSessionException(Fault.READ_ONLY, "read-only");
            }
        }

        @Override
        public String toString() {
            return session.node + "/" + pid;
        }
    }
}
