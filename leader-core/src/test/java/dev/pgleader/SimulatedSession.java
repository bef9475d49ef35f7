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
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** The client's end of a session: what {@link ElectionLoop} is given in place of a driver's connection. */
final class SimulatedSession implements LockSession {

    final SimulatedNode node;
    final SimulatedServer server;
    final SimulatedConnection connection;
    private final List<String> notifications = new ArrayList<>();
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
        SimulatedServer.Call<T> call = new SimulatedServer.Call<>(name, statement);
        if (!lost && !aborted) {
            connection.toServer.send(() -> {
                if (backend != null) {
                    backend.receive(call);
                }
            });
            long timeout = node.simulation.options.healthCheckTimeout().toNanos();
            node.world.block(node, node.after(timeout), () -> call.answered || lost || aborted);
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

    void receiveNotification(String payload) {
        if (aborted) {
            sendEndOfConnection();
        } else {
            notifications.add(payload);
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
    public Set<LockKey> tryLock(Collection<LockKey> keys) throws LockSessionException {
        node.beforeTry();
        return call("try", SimulatedServer.Backend::tryLock);
    }

    @Override
    public boolean lockWithin(LockKey key, Duration longest) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Set<LockKey> findFree(Collection<LockKey> keys) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean join(LockKey group) {
        throw new UnsupportedOperationException();
    }

    @Override
    public int countMembers(LockKey group) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void giveBack(Collection<LockKey> keys) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Set<LockKey> check() throws LockSessionException {
        return call("check", SimulatedServer.Backend::check);
    }

    @Override
    public void release(Map<LockKey, String> notifications) throws LockSessionException {
        node.beforeRelease();
        call("release", backend -> {
            for (String notification : notifications.values()) {
                backend.unlock(notification);
            }
            return true;
        });
        node.simulation.trace.add(node, "released");
    }

    @Override
    public void announce(List<String> payloads) throws LockSessionException {
        call("announce", backend -> {
            backend.announce(payloads);
            return true;
        });
    }

    @Override
    public Optional<Holder> findHolder(LockKey key) {
        throw new UnsupportedOperationException();
    }

    @Override
    public List<String> await(long maxNanos) throws LockSessionException {
        if (notifications.isEmpty() && (lost || aborted)) {
            throw new LockSessionException(Fault.CONNECTION_LOST, "simulated");
        }
        List<String> received = List.copyOf(notifications);
        notifications.clear();
        return received;
    }

    @Override
    public void wake() {
        node.wake();
    }

    @Override
    public void close() {
        if (backend != null && backend == server.holder()) {
            node.beforeRelease();
        }
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
