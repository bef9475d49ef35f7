package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * One random history of some nodes and their database, made from a seed: first with faults, then without, then all nodes
 * close. At each instant it's checked that what {@link dev.pgleader this package} and {@link LeadershipListener} promise is
 * true.
 */
final class Simulation implements AutoCloseable {

    static final LockKey KEY = LockKey.named("simulation");

    /** What is checked. */
    enum Invariant {
        /** At no instant two nodes lead. */
        ONE_LEADER,
        /** A term that was over once stays over, and the elector agrees with it. */
        TERM_STAYS_OVER,
        /** Callbacks come one at a time, alternate, belong together, and find a term that is over when it's revoked. */
        CALLBACKS_PAIR,
        /** The lock isn't given back during a callback of the term, unless the revoke timeout is over. */
        RELEASE_AFTER_CALLBACKS,
        /** When the faults are over, one node leads after a bounded time, and goes on to. */
        LIVENESS,
        /** Nodes that closed hold no lock. */
        NOTHING_LEFT,
        /** The election thread neither fails nor spins. */
        NO_DEFECT
    }

    /** An invariant that doesn't hold. */
    static final class Violation extends AssertionError {
        private static final long serialVersionUID = 1L;
        final Invariant invariant;

        Violation(Invariant invariant, String message, @Nullable Throwable cause) {
            super(message, cause);
            this.invariant = invariant;
        }
    }

    /**
     * How the world is; tests of the test break it.
     *
     * @param clockSpread by which part of itself a clock may be too fast or too slow
     * @param leaseFactor how long a server lets a session be silent, in parts of what it was asked for
     * @param sessionsEnd whether a server ends sessions that are silent or whose client closed the connection
     * @param drainsAtOnce whether a term counts as drained before the listener has returned
     * @param takeoverDelay what all histories use; null for {@code AUTO} in most of them and a full lease in the others
     */
    record Rules(
            double clockSpread,
            double leaseFactor,
            boolean sessionsEnd,
            boolean drainsAtOnce,
            @Nullable TakeoverDelay takeoverDelay) {

        /** The most that is promised to do no harm: two clocks differ, within a lease, by a tenth of it, the safety margin. */
        static Rules asPromised() {
            return new Rules(0.05, 1, true, false, null);
        }

        Rules withClockSpread(double value) {
            return new Rules(value, leaseFactor, sessionsEnd, drainsAtOnce, takeoverDelay);
        }

        Rules withLeaseFactor(double value) {
            return new Rules(clockSpread, value, sessionsEnd, drainsAtOnce, takeoverDelay);
        }

        Rules withEternalSessions() {
            return new Rules(clockSpread, leaseFactor, false, drainsAtOnce, takeoverDelay);
        }

        Rules withDrainingAtOnce() {
            return new Rules(clockSpread, leaseFactor, sessionsEnd, true, takeoverDelay);
        }

        Rules withTakeoverDelay(TakeoverDelay value) {
            return new Rules(clockSpread, leaseFactor, sessionsEnd, drainsAtOnce, value);
        }
    }

    private static final int MOST_NODES = 4;
    private static final int LEASES_WITH_FAULTS = 8;

    final long seed;
    final Rules rules;
    final SplittableRandom random;
    final SimulatedWorld world = new SimulatedWorld(this::observe);
    final SimulationTrace trace = new SimulationTrace(world);
    final SimulationStatistics statistics = new SimulationStatistics();
    final ElectorOptions options;
    final long lease;

    /** The processes that run. */
    final List<SimulatedNode> nodes = new ArrayList<>();

    /** Where clients connect to. */
    SimulatedServer primary;

    /** A former primary that some connect to by mistake. */
    @Nullable
    SimulatedServer former;

    /** Under {@link TakeoverDelay#AUTO} a process that starts so soon after a promotion can't know of it. */
    long noNewProcessBefore;

    private int pendingRestarts;
    private int processes;
    private boolean faulty = true;
    private boolean ends;

    Simulation(long seed, Rules rules) {
        this.seed = seed;
        this.rules = rules;
        this.random = new SplittableRandom(seed);
        this.options = randomOptions();
        this.lease = options.leaseDuration().toNanos();
        this.primary = newServer(1, world.now() - 10 * lease, false);
    }

    /** Lives through the history; throws a {@link Violation} if a promise is broken. */
    void run() {
        int count = 2 + random.nextInt(MOST_NODES - 1);
        for (int i = 0; i < count; i++) {
            startProcess(String.valueOf((char) ('A' + i)), randomClock());
        }
        new SimulationFaults(this).injectUntil(LEASES_WITH_FAULTS * lease);
        world.run(LEASES_WITH_FAULTS * lease);
        healAll();
        settle();
        ends = true;
        nodes.forEach(SimulatedNode::close);
        world.run(world.now() + longestClosingNanos());
        requireNothingLeft();
        world.run(world.now() + (long) (2 * longestCallbackNanos() / (1 - rules.clockSpread())));
        if (nodes.stream().anyMatch(SimulatedNode::isInTerm)) {
            throw violation(Invariant.CALLBACKS_PAIR, "A term was never revoked", null);
        }
        statistics.count("history");
        statistics.add("virtual seconds", Duration.ofNanos(world.now()).toSeconds());
    }

    @Override
    public void close() {
        world.close();
    }

    // ---- the promises

    private void observe() {
        SimulatedNode leader = null;
        for (SimulatedNode node : nodes) {
            if (node.observe()) {
                if (leader != null) {
                    throw violation(Invariant.ONE_LEADER, leader + " and " + node + " lead", null);
                }
                leader = node;
            }
        }
    }

    /** Waits for a node that leads for a whole lease, which must have begun to in time. */
    private void settle() {
        long latest = world.now() + longestSettlingNanos();
        SimulatedNode leader = null;
        long since = world.now();
        while (leader == null || world.now() - since < lease) {
            world.run(world.now() + lease / 8);
            SimulatedNode found =
                    nodes.stream().filter(SimulatedNode::observe).findFirst().orElse(null);
            if (found == null || found != leader) {
                leader = found;
                since = world.now();
            }
            if (since > latest + lease / 8) {
                throw violation(Invariant.LIVENESS, "Though nothing is wrong, leader is " + leader, null);
            }
        }
        if (!leader.isCandidate()) {
            throw violation(Invariant.NO_DEFECT, leader + " leads, but isn't a candidate", null);
        }
    }

    private void requireNothingLeft() {
        for (SimulatedNode node : nodes) {
            if (!node.isClosed()) {
                throw violation(Invariant.NOTHING_LEFT, node + " hasn't closed", null);
            }
        }
        if (primary.holder() != null) {
            throw violation(Invariant.NOTHING_LEFT, primary.holder() + " still holds the lock", null);
        }
    }

    /**
     * The longest time from the last fault to a settled leader, as the sum of all that may have to be waited for:
     *
     * <pre>
     *   lease                                a session that nobody uses any more holds the lock
     * + healthCheckInterval                  a node notices that its connection is half-open
     * + 4 healthCheckTimeout                 a call that fails, what was under way before it, and a new session
     * + 1.2 maxReconnectDelay                with jitter
     * + 2 callbacks                          onElected and onRevoked of the former term
     * + 2^(failed starts - 1) coolDown       after onElected failed several times
     * + retryInterval (1 + retryJitter)
     * + lease                                takeoverDelay
     * </pre>
     *
     * by the slowest clock.
     */
    private long longestSettlingNanos() {
        int failedStarts =
                nodes.stream().mapToInt(SimulatedNode::failedStarts).max().orElse(0);
        double nanos = 2.0 * lease
                + options.healthCheckInterval().toNanos()
                + 4.0 * options.healthCheckTimeout().toNanos()
                + 1.2 * options.maxReconnectDelay().toNanos()
                + 2.0 * longestCallbackNanos()
                + Math.min(32, 1 << Math.max(0, failedStarts - 1))
                        * (double) options.coolDown().toNanos()
                + (1 + options.retryJitter()) * options.retryInterval().toNanos();
        return (long) (nanos / (1 - rules.clockSpread()));
    }

    /** What {@link LeaderElector#stop()} waits for at most. */
    private long longestClosingNanos() {
        long nanos = options.revokeTimeout().toNanos()
                + 4 * options.healthCheckTimeout().toNanos();
        return (long) (nanos / (1 - rules.clockSpread()));
    }

    Error violation(Invariant invariant, String what, @Nullable Throwable cause) {
        String message = invariant + ": " + what + " at " + world.now() / 1e9 + " s. Replay with -Dsimulation.seed="
                + seed + "\n" + options + "\n" + trace;
        return world.fail(new Violation(invariant, message, cause));
    }

    // ---- chance

    private ElectorOptions randomOptions() {
        long leaseMillis = between(2_000, 15_000);
        long windowMillis = leaseMillis - Math.max(leaseMillis / 10, 500);
        Duration retry = Duration.ofMillis(leaseMillis / between(5, 20));
        Duration full = Duration.ofMillis(leaseMillis);
        TakeoverDelay mixed = random.nextInt(4) > 0 ? TakeoverDelay.AUTO : TakeoverDelay.of(full);
        return ElectorOptions.builder()
                .leaseDuration(full)
                .healthCheckInterval(Duration.ofMillis(windowMillis * between(10, 45) / 100))
                .healthCheckTimeout(Duration.ofMillis(windowMillis * between(10, 50) / 100))
                .retryInterval(retry)
                .maxReconnectDelay(retry.multipliedBy(between(1, 5)))
                .revokeTimeout(Duration.ofMillis(leaseMillis * between(3, 20) / 10))
                .takeoverDelay(rules.takeoverDelay() == null ? mixed : rules.takeoverDelay())
                .build();
    }

    SimulatedHost.Clock randomClock() {
        return new SimulatedHost.Clock(
                1 + rules.clockSpread() * 0.99 * (2 * random.nextDouble() - 1), random.nextLong());
    }

    long between(long least, long most) {
        return least >= most ? least : random.nextLong(least, most + 1);
    }

    boolean oneIn(int cases) {
        return random.nextInt(cases) == 0;
    }

    long callbackNanos() {
        return faulty && oneIn(4) ? between(0, longestCallbackNanos()) : between(0, 2_000_000);
    }

    private long longestCallbackNanos() {
        return options.revokeTimeout().toNanos() * 3 / 2;
    }

    boolean callbackThrows() {
        return faulty && oneIn(8);
    }

    // ---- nodes and servers

    /** Whether nobody starts any more. */
    boolean ends() {
        return ends;
    }

    SimulatedServer newServer(int timeline, long startedAt, boolean standby) {
        return new SimulatedServer(this, "pg" + ++processes, randomClock(), timeline, startedAt, standby);
    }

    SimulatedServer serverFor(SimulatedNode node) {
        return former != null && oneIn(10) ? former : primary;
    }

    private void startProcess(String machine, SimulatedHost.Clock clock) {
        SimulatedNode node = new SimulatedNode(this, machine + ++processes, clock);
        nodes.add(node);
        node.start();
    }

    void kill(SimulatedNode node, boolean machineToo, long restartsAt) {
        trace.add(node, machineToo ? "loses its machine" : "is killed");
        node.kill(machineToo);
        nodes.remove(node);
        pendingRestarts++;
        restartAt(node, restartsAt);
    }

    private void restartAt(SimulatedNode killed, long time) {
        world.at(time, null, () -> {
            if (noNewProcessBefore > world.now()) {
                restartAt(killed, noNewProcessBefore);
            } else if (!ends) {
                pendingRestarts--;
                startProcess(killed.name.substring(0, 1), killed.clock);
            }
        });
    }

    /** Ends all faults, but for connections that are broken for good; one candidate at least takes part. */
    private void healAll() {
        trace.add("world", "is healed");
        faulty = false;
        while (nodes.isEmpty() && pendingRestarts > 0) {
            world.run(world.now() + lease / 4);
        }
        for (SimulatedNode node : nodes) {
            node.heal();
        }
        SimulatedNode candidate = nodes.get(random.nextInt(nodes.size()));
        candidate.resume();
        candidate.start();
        if (primary.down) {
            primary = newServer(primary.timeline, world.now(), false);
        }
        primary.heal();
        if (former != null) {
            former.down = true;
            former = null;
        }
    }
}
