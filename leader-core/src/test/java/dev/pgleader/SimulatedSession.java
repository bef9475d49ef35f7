package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** The client's end of a session: what {@link ElectionLoop} is given in place of a driver's connection. */
final class SimulatedSession implements LockSession {

    static final String TELL = "tell";

    final SimulatedNode node;
    final SimulatedServer server;
    final SimulatedConnection connection;
    private final List<Notification> notifications = new ArrayList<>();
    /** Who was seen to hold a lock last. */
    private boolean lost;

    private boolean aborted;
    private SimulatedServer.@Nullable Backend backend;
    private @Nullable Facts facts;

    private SimulatedSession(SimulatedNode node, SimulatedServer server) {
        this.node = node;
        this.server = server;
        this.connection = new SimulatedConnection(node, server);
    }

    static SimulatedSession open(SimulatedNode node, SimulatedServer server) throws LockSessionException {
        SimulatedSession session = new SimulatedSession(node, server);
        node.session = session;
        try {
            session.connect();
            Duration lease = node.simulation.options.leaseDuration();
            session.facts = session.call("prepare", backend -> backend.prepare(lease));
            node.simulation.trace.add(node, "opened " + session);
            return session;
        } catch (LockSessionException e) {
            session.abort();
            throw e;
        }
    }

    private void connect() throws LockSessionException {
        if (server.down) {
            long timeout = node.simulation.options.healthCheckTimeout().toNanos();
            node.world.block(node, node.after(server.saysThatItIsDown ? 500_000 : timeout), () -> false);
            throw new LockSessionException(Fault.UNREACHABLE, "down");
        }
        connection.toServer.send(() -> backend = server.new Backend(this, connection));
        call("connect", accepted -> true);
    }

    /** One round trip, which the client gives up on after the network timeout, whatever becomes of the statement. */
    private <T> T call(String name, SimulatedServer.Statement<T> statement) throws LockSessionException {
        return call(new SimulatedServer.Call<>(name, statement), 0);
    }

    private <T> T call(SimulatedServer.Call<T> call, long longerNanos) throws LockSessionException {
        if (!lost && !aborted) {
            connection.toServer.send(() -> {
                if (backend != null) {
                    backend.receive(call);
                }
            });
            long timeout = node.simulation.options.healthCheckTimeout().toNanos();
            node.world.block(node, node.after(timeout + longerNanos), () -> call.answered || lost || aborted);
            node.freezeIfArmed();
        }
        T answer = call.answer;
        LockSessionException error = call.error;
        if (!call.answered) {
            call.abandoned = true;
            if (call.granted) {
                node.simulation.statistics.count("ambiguous grant");
            }
            boolean ended = lost || aborted;
            error = new LockSessionException(ended ? Fault.CONNECTION_LOST : Fault.TIMEOUT, "simulated");
        }
        if (error != null || answer == null) {
            LockSessionException thrown = error == null ? new LockSessionException(Fault.STATEMENT_FAILED, "") : error;
            node.simulation.trace.add(
                    node, call.name + " failed, " + thrown.fault().name() + ", on " + this);
            throw thrown;
        }
        return answer;
    }

    // ---- what arrives

    void receiveAnswer(SimulatedServer.Call<?> call) {
        if (aborted) {
            sendEndOfConnection();
        }
        call.answered = true;
    }

    void receiveNotification(Notification notification) {
        if (aborted) {
            sendEndOfConnection();
        } else {
            notifications.add(notification);
            node.wake();
        }
    }

    void receiveEndOfConnection() {
        lost = true;
        node.wake();
    }

    void sendEndOfConnection() {
        connection.toServer.send(() -> {
            if (backend != null) {
                backend.receiveEndOfConnection();
            }
        });
    }

    // ---- LockSession

    @Override
    public Facts facts() {
        if (facts == null) {
            throw new IllegalStateException("not open");
        }
        return facts;
    }

    @Override
    public Attempt attempt(Collection<LockKey> keys) throws LockSessionException {
        keys.forEach(node::beforeTry);
        Attempt attempt = call("try", backend -> backend.attempt(keys));
        return new Attempt(attempt.granted(), attempt.holders());
    }

    @Override
    public boolean waitInQueue(LockKey key, Duration longest) throws LockSessionException {
        node.beforeTry(key);
        return call(new SimulatedServer.QueueCall(key, longest.toNanos()), longest.toNanos());
    }

    @Override
    public Map<LockKey, Holder> findHolders(Collection<LockKey> keys) throws LockSessionException {
        List<LockKey> asked = List.copyOf(keys);
        return call("holders", backend -> backend.findHolders(asked));
    }

    @Override
    public Set<LockKey> check() throws LockSessionException {
        return call("check", SimulatedServer.Backend::check);
    }

    @Override
    public void release(Collection<LockKey> keys) throws LockSessionException {
        keys.forEach(node::beforeRelease);
        call("release", backend -> backend.release(keys));
        node.simulation.trace.add(node, "released");
    }

    @Override
    public boolean tell(List<String> payloads) throws LockSessionException {
        boolean told = call(TELL, backend -> backend.tell(payloads));
        if (!told && node.simulation.rules.has(Simulation.Flaw.REFUSAL_ENDS_SESSION)) {
            throw new LockSessionException(Fault.STATEMENT_FAILED, "too many notifications in the NOTIFY queue");
        }
        return told;
    }

    @Override
    public Set<Integer> findCommanders(Collection<Integer> backendPids) throws LockSessionException {
        return call("commanders", backend -> backend.findCommanders(backendPids));
    }

    @Override
    public boolean join(LockKey group) throws LockSessionException {
        return call("join", backend -> backend.join(group));
    }

    @Override
    public void leave(LockKey group) throws LockSessionException {
        call("leave", backend -> backend.leave(group));
    }

    @Override
    public int countMembers(LockKey group) throws LockSessionException {
        return call("count", backend -> backend.countMembers(group));
    }

    @Override
    public List<Notification> awaitNotifications(long maxNanos) throws LockSessionException {
        if (notifications.isEmpty() && (lost || aborted)) {
            throw new LockSessionException(Fault.CONNECTION_LOST, "simulated");
        }
        List<Notification> received = List.copyOf(notifications);
        notifications.clear();
        return received;
    }

    /** Whether a wait for notifications would end at once. */
    boolean hasNews() {
        return !aborted && (lost || !notifications.isEmpty());
    }

    @Override
    public void wake() {
        node.wake();
    }

    @Override
    public void close() {
        server.heldBy(backend).forEach(node::beforeRelease);
        abort();
    }

    SimulatedServer.@Nullable Backend backend() {
        return backend;
    }

    /** Whether the client has given the session up, in whatever way. */
    boolean isGivenUp() {
        return aborted || node.down;
    }

    @Override
    public void abort() {
        if (!aborted) {
            aborted = true;
            sendEndOfConnection();
        }
    }

    @Override
    public String toString() {
        return node + "/" + (facts == null ? "?" : facts.backendPid()) + " at " + server;
    }
}
