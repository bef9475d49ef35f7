package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * What goes wrong in a simulation, and when.
 *
 * <p>{@link TakeoverDelay#AUTO} knows of servers that restart and of promotions, not of a lock that is freed in another way
 * without its lease, while the leader doesn't hear of it. So, unless a fixed delay of a lease covers that, these are left out,
 * and these only: the end of the session of a leader that is cut off, slow or frozen at that moment (an operator terminates
 * it, one backend crashes and takes all others along, the server's end of the connection is reset); a session that unlocks
 * all of its locks; a promotion that a process didn't live to see; and a server's clock that is set forward soon after the server
 * started, for a process that didn't live to see the server before.
 */
final class SimulationFaults {

    /** Of the network, of a process, by a user, of a server. */
    enum Kind {
        CUT,
        REQUEST_LOST,
        ANSWER_LOST,
        HALF_OPEN,
        RESET,
        SLOW_NETWORK,

        FREEZE,
        FREEZE_IN_CODE,
        FREEZE_AFTER_ANSWER,
        KILL,

        RESIGN,
        REQUEST_RESIGNATION,
        PAUSE,
        CLOSE,
        ASK,

        TERMINATE_BACKEND,
        UNLOCK_ALL,
        CRASH_SERVER,
        CRASH_BACKEND,
        PROMOTE,
        MAKE_READ_ONLY,
        FREEZE_SERVER,
        SLOW_SERVER,
        REFUSE_CLIENTS,

        NOTICES_LOST,
        NOTICES_LATE,
        NOTICES_DOUBLED,
        NOTICES_REFUSED,
        FORGED_NOTICE,
        FORGED_REQUEST,

        CLIENT_CLOCK,
        SERVER_CLOCK,
        STATISTICS_RESET,
        SUSPEND,
        SUSPEND_IN_CODE
    }

    /** What may cost no term but what its user or another instance asks for. */
    static final Set<Kind> HARMLESS = EnumSet.of(
            Kind.RESIGN,
            Kind.REQUEST_RESIGNATION,
            Kind.PAUSE,
            Kind.CLOSE,
            Kind.ASK,
            Kind.NOTICES_LOST,
            Kind.NOTICES_LATE,
            Kind.NOTICES_DOUBLED,
            Kind.NOTICES_REFUSED,
            Kind.FORGED_NOTICE,
            Kind.FORGED_REQUEST,
            Kind.SERVER_CLOCK,
            Kind.STATISTICS_RESET);

    private final Simulation simulation;
    private final SimulatedWorld world;
    private final long lease;
    private final long slowest;
    private final List<Kind> kinds;
    private @Nullable SimulatedNode lastNode;

    SimulationFaults(Simulation simulation) {
        this.simulation = simulation;
        this.world = simulation.world;
        this.lease = simulation.lease;
        this.kinds = List.copyOf(simulation.rules.faults());
        this.slowest = simulation.options.healthCheckTimeout().toNanos() * 3 / 2;
    }

    /** Now and then, often in quick succession, lets something go wrong. */
    void injectUntil(long end) {
        long pause = simulation.oneIn(3) ? simulation.between(0, lease / 50) : simulation.between(0, lease);
        if (world.now() + pause < end) {
            world.at(world.now() + pause, null, () -> {
                Kind kind = kinds.get(simulation.random.nextInt(kinds.size()));
                if (inject(kind)) {
                    simulation.statistics.count(kind.name());
                }
                injectUntil(end);
            });
        }
    }

    /** Returns false if there is nothing that it could happen to. */
    private boolean inject(Kind kind) {
        return switch (kind) {
            case CUT -> toNode(kind, node -> cut(node, true, true));
            case REQUEST_LOST -> toNode(kind, node -> cut(node, true, false));
            case ANSWER_LOST -> toNode(kind, node -> cut(node, false, true));
            case HALF_OPEN -> toNode(kind, this::swallow);
            case RESET -> toNode(kind, this::reset);
            case SLOW_NETWORK -> toNode(kind, always(node -> node.link.slowDown(anyTime(), slowest)));
            case FREEZE -> toNode(kind, always(node -> node.freeze(anyTime())));
            case FREEZE_IN_CODE -> toNode(kind, always(this::freezeInCode));
            case FREEZE_AFTER_ANSWER -> toNode(kind, always(node -> node.freezeAfterNextAnswer(anyTime())));
            case KILL -> toNode(kind, always(this::kill));
            case RESIGN -> toNode(kind, always(node -> node.anyCandidate().resign()));
            case REQUEST_RESIGNATION ->
                toNode(kind, always(node -> node.anyCandidate().requestResignation()));
            case PAUSE -> toNode(kind, always(this::pause));
            case CLOSE -> toNode(kind, always(this::close));
            case ASK -> toNode(kind, always(this::ask));
            case TERMINATE_BACKEND -> terminateBackend();
            case UNLOCK_ALL -> unlockAll();
            case CRASH_SERVER -> crashServer();
            case CRASH_BACKEND -> crashBackend();
            case PROMOTE -> promote();
            case MAKE_READ_ONLY -> makeReadOnly();
            case FREEZE_SERVER -> toServer(kind, server -> server.freeze(anyTime()));
            case SLOW_SERVER -> toServer(kind, server -> server.slowDown(anyTime(), slowest));
            case REFUSE_CLIENTS -> toServer(kind, server -> server.refusesUntil = world.now() + anyTime());
            case NOTICES_LOST -> toServer(kind, server -> server.notices.loseSome(anyTime()));
            case NOTICES_LATE -> toServer(kind, server -> server.notices.delaySome(anyTime()));
            case NOTICES_DOUBLED -> toServer(kind, server -> server.notices.doubleSome(anyTime()));
            case NOTICES_REFUSED -> toServer(kind, this::refuseNotices);
            case FORGED_NOTICE -> toServer(kind, server -> forge(server, this::forgedNotice));
            case FORGED_REQUEST -> toServer(kind, server -> forge(server, key -> new Notice.ResignRequest(key)));
            case CLIENT_CLOCK -> toNode(kind, this::stepClientClock);
            case SERVER_CLOCK -> stepServerClock();
            case STATISTICS_RESET -> toServer(kind, SimulatedServer::resetStatistics);
            case SUSPEND -> toNode(kind, this::suspend);
            case SUSPEND_IN_CODE -> toNode(kind, this::suspendInCode);
        };
    }

    private boolean toNode(Kind kind, Predicate<SimulatedNode> fault) {
        SimulatedNode node = simulation.nodes.isEmpty() ? null : anyNode();
        if (node == null || node.attentiveUntil > world.now()) {
            return false;
        }
        simulation.trace.add(node, "fault: " + kind.name());
        return fault.test(node);
    }

    private boolean toServer(Kind kind, Consumer<SimulatedServer> fault) {
        simulation.trace.add(simulation.primary, "fault: " + kind.name());
        fault.accept(simulation.primary);
        return true;
    }

    private static Predicate<SimulatedNode> always(Consumer<SimulatedNode> fault) {
        return node -> {
            fault.accept(node);
            return true;
        };
    }

    /** Any node; often the one that holds the lock, or the one to which something happened last. */
    private SimulatedNode anyNode() {
        SimulatedServer.Backend holder = simulation.primary.holder(anyKey());
        SimulatedNode favourite = holder != null && simulation.oneIn(2) ? holder.session.node : lastNode;
        lastNode = favourite != null && simulation.nodes.contains(favourite) && !simulation.oneIn(4)
                ? favourite
                : simulation.nodes.get(simulation.random.nextInt(simulation.nodes.size()));
        return lastNode;
    }

    private LockKey anyKey() {
        return simulation.keys.get(simulation.random.nextInt(simulation.keys.size()));
    }

    private long anyTime() {
        return switch (simulation.random.nextInt(3)) {
            case 0 -> simulation.between(0, lease / 100);
            case 1 -> simulation.between(0, lease);
            default -> simulation.between(lease / 2, lease * 5 / 2);
        };
    }

    // ---- nodes

    private boolean cut(SimulatedNode node, boolean toServer, boolean toClient) {
        long nanos = anyTime();
        if (toServer) {
            node.link.cutToServer(nanos);
        }
        if (toClient) {
            node.link.cutToClient(nanos);
        }
        return true;
    }

    private boolean swallow(SimulatedNode node) {
        if (node.session == null) {
            return false;
        }
        SimulatedConnection connection = node.session.connection;
        switch (simulation.random.nextInt(3)) {
            case 0 -> connection.toServer.swallow();
            case 1 -> connection.toClient.swallow();
            default -> {
                connection.toServer.swallow();
                connection.toClient.swallow();
            }
        }
        return true;
    }

    private boolean reset(SimulatedNode node) {
        SimulatedSession session = node.session;
        SimulatedServer.Backend backend = session == null ? null : session.backend();
        if (session == null || backend == null || !isHeardOf(backend)) {
            return false;
        }
        session.connection.toClient.send(session::receiveEndOfConnection);
        session.connection.toServer.send(() -> backend.end("reset", false));
        return true;
    }

    private void freezeInCode(SimulatedNode node) {
        node.freezeAtClockReading(anyReading(), anyTime(), simulation.random.nextBoolean(), false);
    }

    private int anyReading() {
        return 1 + simulation.random.nextInt(30);
    }

    private boolean suspend(SimulatedNode node) {
        if (node.maySuspend()) {
            node.suspend(anyTime());
        }
        return node.isFrozen();
    }

    private boolean suspendInCode(SimulatedNode node) {
        boolean may = node.maySuspend();
        if (may) {
            node.freezeAtClockReading(anyReading(), anyTime(), simulation.random.nextBoolean(), true);
        }
        return may;
    }

    /** As NTP, a person or a hypervisor does it. */
    private boolean stepClientClock(SimulatedNode node) {
        long step = anyStep();
        boolean may = step > 0 || node.maySetClockBack();
        if (may) {
            node.stepWallClock(step);
        }
        return may;
    }

    private long anyStep() {
        long step = simulation.oneIn(2) ? Duration.ofHours(1).toNanos() : anyTime();
        return simulation.random.nextBoolean() ? step : -step;
    }

    private void kill(SimulatedNode node) {
        simulation.kill(node, simulation.oneIn(3), world.now() + anyTime());
    }

    private void pause(SimulatedNode node) {
        SimulatedCandidate candidate = node.anyCandidate();
        candidate.pause();
        world.at(world.now() + anyTime(), node, candidate::resume);
    }

    private void close(SimulatedNode node) {
        boolean all = simulation.random.nextBoolean();
        node.stop(all ? node.candidates : List.of(node.anyCandidate()));
        world.at(world.now() + anyTime(), node, node::start);
    }

    private void ask(SimulatedNode node) {
        for (int i = 0; i < 10; i++) {
            node.anyCandidate().ask();
        }
    }

    // ---- server

    /** Whether the session may end now: its leader hears of it before anybody else leads, or there is none. */
    private boolean isHeardOf(SimulatedServer.Backend backend) {
        boolean isHolder = backend.holdsAny() && !backend.session.isGivenUp();
        if (!isHolder || isCoveredByFixedDelay()) {
            return true;
        }
        SimulatedNode node = backend.session.node;
        if (!node.isAttentive() || !simulation.primary.isHealthy()) {
            return false;
        }
        node.attentiveUntil = world.now() + 20_000_000;
        return true;
    }

    private boolean isCoveredByFixedDelay() {
        Duration fixed = simulation.options.takeoverDelay().fixed();
        return fixed != null && fixed.toNanos() >= lease;
    }

    private boolean terminateBackend() {
        List<SimulatedServer.Backend> backends = simulation.primary.backends();
        if (backends.isEmpty()) {
            return false;
        }
        SimulatedServer.Backend holder = simulation.primary.holder(anyKey());
        SimulatedServer.Backend backend = holder != null && simulation.random.nextBoolean()
                ? holder
                : backends.get(simulation.random.nextInt(backends.size()));
        if (!isHeardOf(backend)) {
            return false;
        }
        simulation.trace.add(simulation.primary, "is told to terminate " + backend);
        backend.end("terminated", true);
        return true;
    }

    /** A leader hears of it at its next check only, so this is left out unless the delay covers it. */
    private boolean unlockAll() {
        SimulatedServer.Backend holder = simulation.primary.holder(anyKey());
        if (holder == null || !isCoveredByFixedDelay()) {
            return false;
        }
        simulation.trace.add(simulation.primary, "unlocks all of " + holder);
        holder.unlockAll();
        return true;
    }

    private boolean crashServer() {
        SimulatedServer crashed = simulation.primary;
        if (crashed.down) {
            return false;
        }
        shutDown(crashed);
        world.at(world.now() + anyTime(), null, () -> {
            if (simulation.primary == crashed) {
                simulation.primary = simulation.newServer(crashed.timeline, world.now(), false);
            }
        });
        return true;
    }

    private void shutDown(SimulatedServer server) {
        simulation.trace.add(server, "goes down");
        server.endAllSessions(simulation.random.nextBoolean());
        server.saysThatItIsDown = simulation.random.nextBoolean();
        server.down = true;
    }

    /** One backend crashes, so the postmaster ends all and starts anew, but its start time remains. */
    private boolean crashBackend() {
        if (simulation.primary.down) {
            return false;
        }
        simulation.trace.add(simulation.primary, "restarts after the crash of a backend");
        simulation.primary.restartBackends();
        simulation.primary.refusesUntil = world.now() + anyTime() / 4;
        return true;
    }

    /** The former primary goes down or is fenced off; a primary that takes writes beside the new one, no lock can help. */
    private boolean promote() {
        if (!isCoveredByFixedDelay()) {
            if (simulation.nodes.stream().anyMatch(node -> !node.hasMetServer)) {
                return false;
            }
            simulation.admitNoNewProcessFor(lease * 11 / 10);
        }
        SimulatedServer old = simulation.primary;
        int timeline = old.timeline + 1;
        simulation.former = null;
        if (!old.down) {
            switch (simulation.random.nextInt(3)) {
                case 0 -> shutDown(old);
                case 1 -> {
                    shutDown(old);
                    simulation.former = simulation.newServer(timeline, world.now(), true);
                }
                default -> {
                    old.readOnly = true;
                    simulation.former = old;
                }
            }
        }
        simulation.primary = simulation.newServer(timeline, world.now() - 10 * lease, false);
        simulation.trace.add(simulation.primary, "is promoted");
        return true;
    }

    /** What it says of its age; that its sessions end too early or too late when its clock is set is no promise of ours. */
    private boolean stepServerClock() {
        SimulatedServer server = simulation.primary;
        long step = anyStep();
        long young = lease * 11 / 10 - server.ageNanos();
        if (step > 0 && young > 0 && !isCoveredByFixedDelay()) {
            if (simulation.nodes.stream().anyMatch(node -> !node.hasMetServer)) {
                return false;
            }
            simulation.admitNoNewProcessFor(young);
        }
        server.stepWallClock(step);
        return true;
    }

    // ---- notices

    private void refuseNotices(SimulatedServer server) {
        long patience = simulation.options.healthCheckTimeout().toNanos() / 4;
        server.notices.refuse(anyTime(), simulation.random.nextBoolean() ? patience : 0);
    }

    /** A stranger, who may do nothing but connect, sends notices for a while. */
    private void forge(SimulatedServer server, Function<LockKey, Object> forgery) {
        int pid = server.newPid();
        long pause = simulation.options.retryInterval().toNanos() / 4;
        for (long sent = 0, last = anyTime(); sent < last; sent += pause) {
            world.at(world.now() + sent, server, () -> {
                if (!server.notices.isRefused()) {
                    server.notices.send(pid, forgery.apply(anyKey()).toString());
                }
            });
        }
    }

    private Object forgedNotice(LockKey key) {
        return switch (simulation.random.nextInt(3)) {
            case 0 -> "elected " + key + "\n";
            default -> new Notice.Released(key);
        };
    }

    private boolean makeReadOnly() {
        SimulatedServer server = simulation.primary;
        simulation.trace.add(server, "is read-only");
        server.readOnly = true;
        world.at(world.now() + anyTime(), server, () -> server.readOnly = server != simulation.primary);
        return true;
    }
}
