package dev.pgleader;

import dev.pgleader.lock.LockSession.Notification;

/** The notification queue of a server, and what can happen to a notice in it. */
final class SimulatedNotices {

    private final Simulation simulation;
    private final SimulatedWorld world;
    private final SimulatedServer server;
    private long lostUntil;
    private long lateUntil;
    private long doubledUntil;
    private long refusedUntil;
    private long refusalNanos;

    SimulatedNotices(Simulation simulation, SimulatedServer server) {
        this.simulation = simulation;
        this.world = simulation.world;
        this.server = server;
    }

    void loseSome(long nanos) {
        lostUntil = world.now() + nanos;
    }

    void delaySome(long nanos) {
        lateUntil = world.now() + nanos;
    }

    void doubleSome(long nanos) {
        doubledUntil = world.now() + nanos;
    }

    /** For a while nobody can send any, since the queue is full or somebody holds it up. */
    void refuse(long nanos, long nanosPerRefusal) {
        refusedUntil = world.now() + nanos;
        refusalNanos = nanosPerRefusal;
    }

    void heal() {
        lostUntil = lateUntil = doubledUntil = refusedUntil = world.now();
    }

    boolean isRefused() {
        return refusedUntil > world.now();
    }

    /** How long it takes to be refused. */
    long refusalNanos() {
        return refusalNanos;
    }

    /** How late a notice comes at the most. */
    static long longestDelayNanos(ElectorOptions options) {
        return 2 * options.retryInterval().toNanos();
    }

    /** Sends a notice to all sessions, the sender's own among them. */
    void send(int senderPid, String payload) {
        Notification notice = new Notification(senderPid, payload);
        for (SimulatedServer.Backend backend : server.backends()) {
            if (lostUntil > world.now() && simulation.oneIn(2)) {
                simulation.statistics.count("notice lost");
            } else {
                deliver(backend, notice, lateUntil > world.now() && simulation.oneIn(2));
            }
            if (doubledUntil > world.now() && simulation.oneIn(2)) {
                deliver(backend, notice, true);
            }
        }
    }

    private void deliver(SimulatedServer.Backend backend, Notification notice, boolean late) {
        if (!late) {
            deliver(backend, notice);
            return;
        }
        simulation.statistics.count("notice late");
        long delay = simulation.between(0, longestDelayNanos(simulation.options));
        world.at(world.now() + delay, server, () -> deliver(backend, notice));
    }

    private static void deliver(SimulatedServer.Backend backend, Notification notice) {
        if (backend.isListening()) {
            backend.connection.toClient.send(() -> backend.session.receiveNotification(notice));
        }
    }
}
