package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * One random history of some nodes and their database, made from a seed: first with faults, then without, then all nodes
 * close. At each instant it's checked that what {@link dev.pgleader this package} and {@link LeadershipListener} promise is
 * true.
 */
final class Simulation implements AutoCloseable {

    private static final List<LockKey> KEYS =
            List.of(LockKey.named("one"), LockKey.named("two"), LockKey.named("three"));

    /** What is checked. */
    enum Invariant {
        /** At no instant two nodes lead with one key. */
        ONE_LEADER,
        /** A term that was over once stays over, and the elector agrees with it. */
        TERM_STAYS_OVER,
        /** Callbacks come one at a time, alternate, belong together, and find a term that is over when it's revoked. */
        CALLBACKS_PAIR,
        /** The lock isn't given back during a callback of the term, unless the revoke timeout is over. */
        RELEASE_AFTER_CALLBACKS,
        /** Nobody but its user, the service's other instances and real faults ends a term; no hint that goes wrong does. */
        NO_STRANGER_ENDS_TERM,
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

    /** One thing that the promises rest on, or that the library does for them, and that isn't so. */
    enum Flaw {
        /** The server keeps sessions that are silent or whose client closed the connection. */
        ETERNAL_SESSIONS,
        /** A term counts as drained before the listener has returned. */
        DRAINED_AT_ONCE,
        /** A request to resign is obeyed whoever sent it. */
        ANYBODY_COMMANDS,
        /** A notice that the server refuses costs the session. */
        REFUSAL_ENDS_SESSION,
        /** A candidate looks when it's told to, and else hardly ever. */
        LOOKS_ONLY_WHEN_TOLD,
        /** The lease runs by the monotonic clock alone. */
        MONOTONIC_LEASE,
        /** All times, and so the lease, run by the wall clock alone. */
        WALL_CLOCK_LEASE,
        /** A server is known by nothing but how long it says to have run. */
        UPTIME_ONLY,
        /** A server is known by the start of its postmaster alone, which a crash of a backend doesn't change. */
        START_TIME_ONLY
    }

    /** How candidates come by locks. */
    enum Mode {
        POLL,
        QUEUE,
        SPREAD
    }

    /**
     * How the world is; tests of the test break it.
     *
     * @param clockSpread by which part of itself a clock may be too fast or too slow
     * @param leaseFactor how long a server lets a session be silent, in parts of what it was asked for
     * @param flaws what isn't as it should be
     * @param faults what goes wrong
     * @param mode of all histories; null for any
     * @param takeoverDelay in leases, of all histories; negative for {@code AUTO}, null for any but none
     */
    record Rules(
            double clockSpread,
            double leaseFactor,
            Set<Flaw> flaws,
            Set<SimulationFaults.Kind> faults,
            @Nullable Mode mode,
            @Nullable Double takeoverDelay) {

        /** The most that is promised to do no harm: two clocks differ, within a lease, by a tenth of it, the safety margin. */
        static Rules asPromised() {
            return new Rules(
                    0.05, 1, EnumSet.noneOf(Flaw.class), EnumSet.allOf(SimulationFaults.Kind.class), null, null);
        }

        Rules withClockSpread(double value) {
            return new Rules(value, leaseFactor, flaws, faults, mode, takeoverDelay);
        }

        Rules withLeaseFactor(double value) {
            return new Rules(clockSpread, value, flaws, faults, mode, takeoverDelay);
        }

        Rules with(Flaw flaw) {
            return new Rules(clockSpread, leaseFactor, EnumSet.of(flaw), faults, mode, takeoverDelay);
        }

        Rules withOnly(Set<SimulationFaults.Kind> kinds) {
            return new Rules(clockSpread, leaseFactor, flaws, kinds, mode, takeoverDelay);
        }

        Rules with(Mode value) {
            return new Rules(clockSpread, leaseFactor, flaws, faults, value, takeoverDelay);
        }

        Rules withTakeoverDelay(double leases) {
            return new Rules(clockSpread, leaseFactor, flaws, faults, mode, leases);
        }

        boolean has(Flaw flaw) {
            return flaws.contains(flaw);
        }

        /** Whether nothing happens that may cost a term. */
        boolean areHarmless() {
            return SimulationFaults.HARMLESS.containsAll(faults);
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
    /** What the nodes are told, which is less than promised in a broken world. */
    final ElectorOptions nodeOptions;

    final long lease;
    final Mode mode;
    final List<LockKey> keys;

    @Nullable
    final Spread spread;

    final boolean asksBeforeCampaign;

    /** The processes that run. */
    final List<SimulatedNode> nodes = new ArrayList<>();

    /** Where clients connect to. */
    SimulatedServer primary;

    /** A former primary that some connect to by mistake. */
    @Nullable
    SimulatedServer former;

    /** A process that never saw another server can't know that this one forgot its locks, and doesn't say so. */
    private long noNewProcessBefore;

    private final Map<LockKey, Long> askedToResignAt = new HashMap<>();
    private int pendingRestarts;
    private int processes;
    private boolean faulty = true;
    private boolean ends;

    Simulation(long seed, Rules rules) {
        this.seed = seed;
        this.rules = rules;
        this.random = new SplittableRandom(seed);
        Mode anyMode = oneIn(2) ? Mode.POLL : oneIn(2) ? Mode.QUEUE : Mode.SPREAD;
        this.mode = rules.mode() == null ? anyMode : rules.mode();
        this.keys = KEYS.subList(0, oneIn(3) || mode == Mode.SPREAD ? 1 + random.nextInt(KEYS.size()) : 1);
        this.options = randomOptions();
        this.nodeOptions = rules.has(Flaw.LOOKS_ONLY_WHEN_TOLD) ? lookingHardlyEver() : options;
        this.lease = options.leaseDuration().toNanos();
        this.spread = mode == Mode.SPREAD ? randomSpread() : null;
        this.asksBeforeCampaign = oneIn(4);
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
        nodes.forEach(node -> node.stop(node.candidates));
        world.run(world.now() + longestClosingNanos());
        requireNothingLeft();
        world.run(world.now() + (long) (2 * longestCallbackNanos() / (1 - rules.clockSpread())));
        if (nodes.stream().anyMatch(node -> node.has(SimulatedCandidate::isInTerm))) {
            throw violation(Invariant.CALLBACKS_PAIR, "A term was never revoked", null);
        }
        statistics.count("history");
        statistics.count("history, " + mode.name());
        statistics.add("virtual seconds", Duration.ofNanos(world.now()).toSeconds());
    }

    @Override
    public void close() {
        world.close();
    }

    // ---- the promises

    private void observe() {
        for (LockKey key : keys) {
            SimulatedNode leader = null;
            for (SimulatedNode node : nodes) {
                if (node.candidate(key).observe()) {
                    if (leader != null) {
                        throw violation(Invariant.ONE_LEADER, leader + " and " + node + " lead with " + key, null);
                    }
                    leader = node;
                }
            }
        }
    }

    /** Waits until each key has a node that leads for a whole lease, which must have begun to in time. */
    private void settle() {
        long latest = world.now() + longestSettlingNanos();
        Map<LockKey, SimulatedNode> leaders = new HashMap<>();
        long since = world.now();
        while (leaders.size() < keys.size() || world.now() - since < lease) {
            world.run(world.now() + lease / 8);
            Map<LockKey, SimulatedNode> found = new HashMap<>();
            for (LockKey key : keys) {
                nodes.stream().filter(node -> node.candidate(key).observe()).forEach(node -> found.put(key, node));
            }
            if (found.size() < keys.size() || !found.equals(leaders)) {
                leaders = found;
                since = world.now();
            }
            if (since > latest + lease / 8) {
                throw violation(Invariant.LIVENESS, "Though nothing is wrong, leaders are " + leaders, null);
            }
        }
        leaders.forEach((key, leader) -> {
            if (!leader.candidate(key).isCandidate()) {
                throw violation(Invariant.NO_DEFECT, leader + " leads with " + key + ", but isn't a candidate", null);
            }
        });
    }

    private void requireNothingLeft() {
        for (SimulatedNode node : nodes) {
            if (node.has(candidate -> !candidate.hasLeft())) {
                throw violation(Invariant.NOTHING_LEFT, node + " hasn't closed", null);
            }
        }
        if (!primary.holders().isEmpty()) {
            throw violation(Invariant.NOTHING_LEFT, primary.holders() + " still hold locks", null);
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
     * + queueSlice                           the server grants a lock to a waiter that is gone
     * + time of the spread
     * + 2 rebalance intervals for each key   and a term, to give it up
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
                + (1 + options.retryJitter()) * options.retryInterval().toNanos()
                + (mode == Mode.QUEUE ? options.queueSlice().toNanos() : 0)
                + (spread == null ? 0 : spread.time(options).toNanos());
        Duration rebalance = spread == null ? null : spread.rebalanceInterval();
        if (rebalance != null) {
            nanos += 2.0 * keys.size() * rebalance.plus(options.coolDown()).toNanos();
        }
        return (long) (nanos / (1 - rules.clockSpread()));
    }

    /** What {@link LeaderElector#stop()} waits for at most. */
    private long longestClosingNanos() {
        return (long) (options.closeTimeout().toNanos() / (1 - rules.clockSpread()));
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
        Duration retry = Duration.ofMillis(leaseMillis / between(4, 12));
        Duration full = Duration.ofMillis(leaseMillis);
        Duration callbacks = Duration.ofMillis(leaseMillis * between(3, 20) / 10);
        return ElectorOptions.builder()
                .leaseDuration(full)
                .healthCheckInterval(Duration.ofMillis(windowMillis * between(10, 45) / 100))
                .healthCheckTimeout(Duration.ofMillis(windowMillis * between(10, 50) / 100))
                .retryInterval(retry)
                .maxReconnectDelay(retry.multipliedBy(between(1, 5)))
                .revokeTimeout(callbacks)
                .acquisitionMode(mode == Mode.QUEUE ? AcquisitionMode.QUEUE : AcquisitionMode.POLL)
                .takeoverDelay(takeoverDelay(full))
                .build();
    }

    /** A fixed delay of less than a lease is worth as much as {@code AUTO}. */
    private TakeoverDelay takeoverDelay(Duration full) {
        double[] mixed = {-1, -1, -1, -1, 0.3, 1, 1};
        double any = mixed[random.nextInt(mixed.length)];
        double leases = rules.takeoverDelay() == null ? any : rules.takeoverDelay();
        return leases < 0
                ? TakeoverDelay.AUTO
                : leases == 0
                        ? TakeoverDelay.NONE
                        : TakeoverDelay.of(
                                full.multipliedBy((long) (leases * 10)).dividedBy(10));
    }

    private ElectorOptions lookingHardlyEver() {
        Duration hardlyEver = options.leaseDuration().multipliedBy(20);
        return options.toBuilder()
                .coolDown(options.coolDown())
                .retryInterval(hardlyEver)
                .maxReconnectDelay(hardlyEver)
                .build();
    }

    private Spread randomSpread() {
        Spread evenly = Spread.over(options.retryInterval().multipliedBy(between(1, 4)));
        return oneIn(2) ? evenly : evenly.rebalanceEvery(options.retryInterval().multipliedBy(between(2, 10)));
    }

    boolean rebalances() {
        return spread != null && spread.rebalanceInterval() != null;
    }

    /** A session of the service has sent a notice. */
    void told(String payload) {
        for (LockKey key : keys) {
            if (payload.equals(new Notice.ResignRequest(key).toString())) {
                askedToResignAt.put(key, world.now());
            }
        }
    }

    /** Whether an instance of the service has asked for it lately; requests get stuck, in a node that is frozen too. */
    boolean mayBeAskedToResign(LockKey key) {
        Long askedAt = askedToResignAt.get(key);
        return askedAt != null && world.now() - askedAt < 4 * lease;
    }

    boolean isFaulty() {
        return faulty;
    }

    /** In which nobody may start who has never seen a server. */
    void admitNoNewProcessFor(long nanos) {
        noNewProcessBefore = Math.max(noNewProcessBefore, world.now() + nanos);
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
        candidate.candidates.forEach(SimulatedCandidate::resume);
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
