package dev.pgleader;

import java.util.ArrayDeque;
import java.util.Deque;

/** A TCP connection: one pipe in each direction, which delays, but neither reorders nor loses while it works. */
final class SimulatedConnection {

    /** What connects a node with all servers. */
    static final class Link {
        private final SimulatedWorld world;
        private final Simulation simulation;
        /** Nothing gets through before; what is sent meanwhile arrives later, retransmitted. */
        private long toServerCutUntil;

        private long toClientCutUntil;
        private long slowUntil;
        private long slowestNanos;

        Link(Simulation simulation) {
            this.world = simulation.world;
            this.simulation = simulation;
        }

        void cutToServer(long nanos) {
            toServerCutUntil = world.now() + nanos;
        }

        void cutToClient(long nanos) {
            toClientCutUntil = world.now() + nanos;
        }

        void slowDown(long nanos, long slowest) {
            slowUntil = world.now() + nanos;
            slowestNanos = slowest;
        }

        void heal() {
            toServerCutUntil = toClientCutUntil = slowUntil = world.now();
        }

        boolean isHealthy() {
            return Math.max(Math.max(toServerCutUntil, toClientCutUntil), slowUntil) <= world.now();
        }

        /** The fastest answer takes longer than the slowest message, so news of an end arrive before anybody profits. */
        private long latency() {
            return slowUntil > world.now() ? simulation.between(0, slowestNanos) : simulation.between(300_000, 500_000);
        }
    }

    /** One direction. */
    final class Pipe {
        private final SimulatedHost receiver;
        private final boolean toServer;
        private final Deque<Runnable> inFlight = new ArrayDeque<>();
        private boolean swallows;
        private long lastArrival;

        Pipe(SimulatedHost receiver, boolean toServer) {
            this.receiver = receiver;
            this.toServer = toServer;
        }

        void send(Runnable message) {
            if (!swallows) {
                inFlight.add(message);
                lastArrival = Math.max(lastArrival, world.now() + link.latency());
                world.at(lastArrival, receiver, this::deliver);
            }
        }

        /** From now on all that is sent vanishes, as behind a firewall that forgot the connection. */
        void swallow() {
            swallows = true;
        }

        private void deliver() {
            long cutUntil = toServer ? link.toServerCutUntil : link.toClientCutUntil;
            if (cutUntil > world.now()) {
                world.at(cutUntil + link.simulation.between(1, (cutUntil - world.now()) / 4), receiver, this::deliver);
            } else {
                inFlight.remove().run();
            }
        }
    }

    final Pipe toServer;
    final Pipe toClient;
    private final SimulatedWorld world;
    private final Link link;

    SimulatedConnection(SimulatedNode node, SimulatedServer server) {
        this.world = node.world;
        this.link = node.link;
        this.toServer = new Pipe(server, true);
        this.toClient = new Pipe(node, false);
    }

    /** Whether what the server says arrives at once. */
    boolean isPrompt() {
        return link.isHealthy() && !toClient.swallows && toClient.inFlight.isEmpty();
    }
}
