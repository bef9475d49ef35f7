package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * What a lock session sees of one incarnation of a PostgreSQL server, from start to shutdown or crash. There is one advisory
 * lock, of {@link Simulation#KEY}.
 */
final class SimulatedServer extends SimulatedHost {

    /** A statement; throws what the server answers with as an error. */
    @FunctionalInterface
    interface Statement<T> {
        T execute(Backend backend) throws LockSessionException;
    }

    /** A statement on its way from and back to a client. */
    static final class Call<T> {
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

    final int timeline;
    private final Simulation simulation;
    /** When it started or recovered from the crash of a backend. */
    long startedAt;

    private final boolean standby;
    private final List<Backend> backends = new ArrayList<>();
    private @Nullable Backend holder;
    private int lastPid;

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
        this.startedAt = startedAt;
        this.standby = standby;
    }

    @Nullable
    Backend holder() {
        return holder;
    }

    List<Backend> backends() {
        return List.copyOf(backends);
    }

    void slowDown(long nanos, long slowest) {
        slowUntil = world.now() + nanos;
        slowestNanos = slowest;
    }

    void heal() {
        thaw();
        slowUntil = refusesUntil = world.now();
        readOnly = false;
    }

    boolean isHealthy() {
        return !isFrozen() && slowUntil <= world.now();
    }

    /** Ends all sessions and with them all locks; only a fast shutdown, or the kernel of a live machine, tells the clients. */
    void endAllSessions(boolean tellClients) {
        backends().forEach(backend -> backend.end("server", tellClients));
    }

    /** A process of the server, which serves one connection. */
    final class Backend {
        final int pid = ++lastPid;
        final SimulatedSession session;
        private final SimulatedConnection connection;
        private final Deque<Call<?>> requests = new ArrayDeque<>();
        private final List<String> notifications = new ArrayList<>();
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

        void receive(Call<?> call) {
            if (!ended) {
                requests.add(call);
                executeNext();
            }
        }

        void receiveEndOfConnection() {
            if (simulation.rules.sessionsEnd()) {
                clientGone = true;
                executeNext();
            }
        }

        private void executeNext() {
            if (executing || ended) {
                return;
            }
            Call<?> call = requests.poll();
            if (call != null) {
                executing = true;
                boolean held = holder == this;
                call.execute(this);
                call.granted = !held && holder == this;
                if (call.granted && call.abandoned) {
                    simulation.statistics.count("ambiguous grant");
                }
                long latency = slowUntil > world.now()
                        ? simulation.between(0, slowestNanos)
                        : simulation.between(50_000, 300_000);
                world.at(world.now() + latency, SimulatedServer.this, () -> finish(call));
            } else if (clientGone) {
                end("client", false);
            }
        }

        /** The statement's transaction commits, and only now does the timer of {@code idle_session_timeout} restart. */
        private void finish(Call<?> call) {
            if (ended) {
                return;
            }
            executing = false;
            for (String notification : notifications) {
                for (Backend each : backends) {
                    if (each.listening) {
                        each.connection.toClient.send(() -> each.session.receiveNotification(notification));
                    }
                }
            }
            notifications.clear();
            if (idleTimeout != Long.MAX_VALUE) {
                idleUntil = after(idleTimeout);
                startIdleTimer();
            }
            connection.toClient.send(() -> session.receiveAnswer(call));
            executeNext();
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
            } else if (simulation.rules.sessionsEnd()) {
                simulation.statistics.count(holder == this ? "lease expired" : "idle session ended");
                end("idle_session_timeout", true);
            }
        }

        void end(String cause, boolean tellClient) {
            if (ended) {
                return;
            }
            ended = true;
            backends.remove(this);
            if (holder == this) {
                simulation.trace.add(SimulatedServer.this, "frees the lock of " + this + " (" + cause + ")");
                holder = null;
            }
            if (tellClient) {
                connection.toClient.send(() -> session.receiveEndOfConnection());
            }
        }

        // ---- statements

        LockSession.Facts prepare(Duration lease) throws LockSessionException {
            refuseUntrustworthy();
            if (world.now() < refusesUntil) {
                throw new LockSessionException(Fault.UNREACHABLE, "too many clients");
            }
            idleTimeout = (long) (lease.toNanos() * simulation.rules.leaseFactor());
            listening = true;
            long uptimeNanos = (long) ((world.now() - startedAt) * clock.rate());
            Duration uptime = Duration.ofMillis(TimeUnit.NANOSECONDS.toMillis(uptimeNanos));
            return new LockSession.Facts(
                    pid, "simulated", name, "18", new LockSession.ServerRun("", "", timeline), uptime, true);
        }

        Set<LockKey> tryLock() {
            if (holder == this) {
                throw simulation.violation(
                        Simulation.Invariant.NO_DEFECT, this + " tries a lock that it holds, which would stack", null);
            } else if (holder != null) {
                return Set.of();
            }
            holder = this;
            simulation.trace.add(SimulatedServer.this, "grants the lock to " + this);
            return Set.of(Simulation.KEY);
        }

        Set<LockKey> check() throws LockSessionException {
            refuseUntrustworthy();
            return holder == this ? Set.of(Simulation.KEY) : Set.of();
        }

        void unlock(String notification) throws LockSessionException {
            notifications.add(notification);
            if (holder != this) {
                throw new LockSessionException(Fault.LOCK_LOST, "The lock was lost before it was released");
            }
            holder = null;
            simulation.trace.add(SimulatedServer.this, "unlocks for " + this);
        }

        void unlockAll() {
            if (holder == this) {
                holder = null;
            }
        }

        void announce(List<String> payloads) {
            notifications.addAll(payloads);
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
