package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * One process of the service: the library's own loop with its command queue, requests and candidates, wired as {@link LeaderElectorGroup}
 * wires them; only the thread that takes the turns is simulated.
 */
final class SimulatedNode extends SimulatedHost {

    /** How it freezes in the middle of its code. */
    private record ArmedFreeze(long nanos, boolean isSuspend, boolean clockReadingIsOld) {}

    final Simulation simulation;
    final SimulatedConnection.Link link;
    final CommandQueue commands = new CommandQueue();
    final ElectionLoop loop;
    final ElectionRequests requests;
    final List<SimulatedCandidate> candidates = new ArrayList<>();
    private final ElectorOptions options;

    /** The session that was opened last. */
    @Nullable
    SimulatedSession session;
    /** Whether this process has ever had a session, and so knows which server it met. */
    boolean hasMetServer;
    /** Until then this node is to hear and do everything at once. */
    long attentiveUntil;

    private long nextTurn;
    private boolean inTurn;
    private boolean woken;
    private long turns;
    private long turnsCountedFrom;

    private @Nullable ArmedFreeze armedFreeze;
    private boolean freezesAfterAnswer;
    private int clockReadingsUntilFreeze;
    private long longestOldReadingNanos;
    private long clocksApartUntil;
    private long clockSetBackUntil;

    SimulatedNode(Simulation simulation, String name, Clock clock) {
        super(simulation.world, name, clock);
        this.simulation = simulation;
        this.link = new SimulatedConnection.Link(simulation);
        this.options = simulation.nodeOptions;
        this.loop = new ElectionLoop(
                name,
                name,
                options,
                simulation.spread,
                new Surroundings(
                        settings -> {
                            SimulatedSession opened = SimulatedSession.open(this, simulation.serverFor(this));
                            hasMetServer = true;
                            return opened;
                        },
                        new Clocks(),
                        simulation.random,
                        new SeededBackoff()),
                commands);
        this.requests = new ElectionRequests(loop, commands);
        commands.onPost(this::wake);
        Executor callbacks = task -> world.executeAt(world.now() + simulation.between(0, 100_000), this, task);
        for (LockKey key : simulation.keys) {
            candidates.add(new SimulatedCandidate(this, key, callbacks, commands::wake));
        }
    }

    // ---- what a user does

    void start() {
        candidates.forEach(SimulatedCandidate::start);
    }

    /** Stops candidates as {@link LeaderElectorGroup} does it, with the default budget. */
    void stop(List<SimulatedCandidate> leaving) {
        List<CompletableFuture<Void>> departures =
                leaving.stream().map(SimulatedCandidate::stop).toList();
        boolean allLeave = candidates.stream().noneMatch(SimulatedCandidate::isStarted);
        if (allLeave) {
            loop.breakOffQueueing();
            boolean inTerm = leaving.stream().anyMatch(SimulatedNode::isInTerm);
            long roundTrip = options.healthCheckTimeout().toNanos();
            long patience = inTerm ? options.closeTimeout().toNanos() - roundTrip : roundTrip;
            world.at(after(patience), this, () -> breakOff(departures));
        }
    }

    private static boolean isInTerm(SimulatedCandidate each) {
        return switch (each.candidate.standing().role()) {
            case LEADER, RESIGNING, REVOKING -> true;
            case STOPPED, FOLLOWER, TAKING_OVER -> false;
        };
    }

    private void breakOff(List<CompletableFuture<Void>> departures) {
        // Whoever began to take part in the meantime may lead.
        boolean deserted = candidates.stream().noneMatch(SimulatedCandidate::isStarted);
        if (deserted && !departures.stream().allMatch(CompletableFuture::isDone)) {
            loop.abortSession();
            wake();
        }
    }

    SimulatedCandidate candidate(LockKey key) {
        return candidates.get(simulation.keys.indexOf(key));
    }

    void beforeTry(LockKey key) {
        candidate(key).beforeTry();
    }

    void beforeRelease(LockKey key) {
        candidate(key).beforeRelease();
    }

    SimulatedCandidate anyCandidate() {
        return candidates.get(simulation.random.nextInt(candidates.size()));
    }

    boolean has(Predicate<SimulatedCandidate> condition) {
        return candidates.stream().anyMatch(condition);
    }

    int failedStarts() {
        return candidates.stream()
                .mapToInt(each -> each.candidate.state().failedStarts())
                .max()
                .orElse(0);
    }

    // ---- what happens to the process

    /** Kills the process; its kernel says so to the server, unless the whole machine is gone. */
    void kill(boolean machineToo) {
        down = true;
        if (session != null) {
            if (machineToo) {
                session.connection.toServer.swallow();
            } else {
                session.sendEndOfConnection();
            }
        }
    }

    void freezeAfterNextAnswer(long nanos) {
        freezesAfterAnswer = true;
        armedFreeze = new ArmedFreeze(nanos, false, false);
    }

    /** Freezes at one of the next readings of a clock, so that the reading is fresh or {@code old} when it's used. */
    void freezeAtClockReading(int readings, long nanos, boolean old, boolean suspends) {
        clockReadingsUntilFreeze = readings;
        armedFreeze = new ArmedFreeze(nanos, suspends, old);
    }

    @Override
    void suspend(long nanos) {
        clocksApartUntil = Math.max(clocksApartUntil, world.now() + nanos + longestLeaseNanos());
        super.suspend(nanos);
    }

    @Override
    void stepWallClock(long nanos) {
        if (nanos < 0) {
            clockSetBackUntil = world.now() + longestLeaseNanos();
        }
        super.stepWallClock(nanos);
    }

    /**
     * One of the two clocks always tells the truth: the wall clock isn't set back within a lease of a suspend, which the monotonic
     * clock doesn't see.
     */
    boolean maySetClockBack() {
        return world.now() > clocksApartUntil && armedFreeze == null;
    }

    boolean maySuspend() {
        return world.now() > clockSetBackUntil;
    }

    private long longestLeaseNanos() {
        return simulation.lease * 11 / 10;
    }

    /** Whether it hears of the end of its session at once and acts on it. */
    boolean isAttentive() {
        return !isFrozen() && armedFreeze == null && (session == null || session.connection.isPrompt());
    }

    void heal() {
        link.heal();
        thaw();
        freezesAfterAnswer = false;
        clockReadingsUntilFreeze = 0;
        armedFreeze = null;
    }

    void freezeIfArmed() {
        if (freezesAfterAnswer && armedFreeze != null) {
            freezesAfterAnswer = false;
            freezeHere(armedFreeze);
        }
    }

    private void freezeHere(ArmedFreeze armed) {
        armedFreeze = null;
        simulation.trace.add(this, (armed.isSuspend ? "is suspended" : "freezes") + " in the middle of its code");
        if (armed.isSuspend) {
            suspend(armed.nanos);
        } else {
            freeze(armed.nanos);
        }
        world.block(this, world.now(), () -> true);
    }

    /** For how long at the most it has gone on with the reading of a clock that was old. */
    long longestOldReadingNanos() {
        return longestOldReadingNanos;
    }

    /** Its machine's clocks, at whose readings it may freeze. */
    private final class Clocks implements Ticker {

        @Override
        public long nanos() {
            long reading = reading();
            return freezesHere() && !freezeKeepsReading(reading) ? reading() : reading;
        }

        @Override
        public long wallMillis() {
            if (simulation.rules.has(Simulation.Flaw.MONOTONIC_LEASE)) {
                return TimeUnit.NANOSECONDS.toMillis(readClock());
            }
            long reading = readWallClock();
            return freezesHere() && !freezeKeepsReading(reading()) ? readWallClock() : reading;
        }

        private long reading() {
            boolean byWallClock = simulation.rules.has(Simulation.Flaw.WALL_CLOCK_LEASE);
            return byWallClock ? TimeUnit.MILLISECONDS.toNanos(readWallClock()) : readClock();
        }

        private boolean freezesHere() {
            return world.isInProcess() && clockReadingsUntilFreeze > 0 && --clockReadingsUntilFreeze == 0;
        }

        private boolean freezeKeepsReading(long before) {
            ArmedFreeze armed = armedFreeze;
            if (armed == null) {
                return true;
            }
            freezeHere(armed);
            if (armed.clockReadingIsOld) {
                longestOldReadingNanos = Math.max(longestOldReadingNanos, reading() - before);
            }
            return armed.clockReadingIsOld;
        }
    }

    // ---- the election thread

    /** Wakes the election thread. */
    void wake() {
        if (inTurn) {
            woken = true;
        } else {
            turnAt(world.now());
        }
    }

    private void turnAt(long time) {
        long mine = ++nextTurn;
        world.processAt(time + simulation.between(1_000, 100_000), this, () -> {
            if (mine == nextTurn) {
                turn();
            }
        });
    }

    /** Does what {@link ElectionThread} does from the end of one wait to the next. */
    private void turn() {
        nextTurn++;
        inTurn = true;
        woken = false;
        countTurn();
        long waitNanos;
        try {
            if (!commands.isCalling()) {
                loop.await(0);
            }
            waitNanos = loop.step();
        } catch (RuntimeException e) {
            throw simulation.violation(Simulation.Invariant.NO_DEFECT, this + " failed", e);
        }
        // It may freeze here, too, and takes no other turn in the meantime.
        boolean queues = waitsInQueueNext();
        inTurn = false;
        if (woken || commands.isCalling() || hasNews() || queues) {
            turnAt(world.now());
        } else if (!loop.isDeserted()) {
            turnAt(after(waitNanos));
        }
    }

    private boolean hasNews() {
        return session != null && session.hasNews();
    }

    private boolean waitsInQueueNext() {
        return loop.view().facts() != null && loop.acquisition().keyToQueueFor() != null;
    }

    private void countTurn() {
        turns++;
        if (world.now() - turnsCountedFrom > options.leaseDuration().toNanos()) {
            turnsCountedFrom = world.now();
            turns = 0;
        } else if (turns > 2_000) {
            throw simulation.violation(Simulation.Invariant.NO_DEFECT, this + " spins", null);
        }
    }

    /** {@link Backoff#of}, with the jitter from the seed; nothing that a person has to mend goes wrong here. */
    private final class SeededBackoff implements Backoff {

        @Override
        public Duration afterFailure(Fault fault) {
            double factor = 1 + options.retryJitter() * (2 * simulation.random.nextDouble() - 1);
            return Duration.ofNanos((long) (simulation.options.retryInterval().toNanos() * factor));
        }

        @Override
        public void reset() {}
    }
}
