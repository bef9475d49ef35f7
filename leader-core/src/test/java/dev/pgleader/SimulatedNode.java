package dev.pgleader;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * One process of the service: the library's own loop, candidacy, dispatcher and lease, wired as {@link LeaderElector} wires
 * them, with a listener that checks what it is told.
 */
final class SimulatedNode extends SimulatedHost {

    final Simulation simulation;
    final SimulatedConnection.Link link;
    private final ElectorOptions options;
    private final ElectionLoop loop;
    private final Contender contender;

    /** The session that was opened last. */
    @Nullable
    SimulatedSession session;
    /** The timeline that this process has met last; 0 if it never had a session. */
    int timelineMet;
    /** Until then this node is to hear and do everything at once. */
    long attentiveUntil;

    private CompletableFuture<Void> left = CompletableFuture.completedFuture(null);
    private boolean started;
    private boolean paused;

    private long nextTurn;
    private boolean inTurn;
    private boolean woken;
    private long turns;
    private long turnsCountedFrom;
    private boolean freezesAfterAnswer;
    private int clockReadingsUntilFreeze;
    private long armedFreezeNanos;
    private boolean clockReadingIsOld;
    private long longestOldReadingNanos;

    private @Nullable Leadership told;
    private boolean closedInTerm;
    private boolean inCallback;
    private long lastToldTerm;

    private LeaderStatus.Role role = LeaderStatus.Role.STOPPED;
    private long termEndedBy;
    private @Nullable Leadership seen;
    private boolean seenOver;

    SimulatedNode(Simulation simulation, String name, Clock clock) {
        super(simulation.world, name, clock);
        this.simulation = simulation;
        this.link = new SimulatedConnection.Link(simulation);
        this.options = simulation.options;
        this.loop = new ElectionLoop(
                name,
                name,
                options,
                null,
                new ElectionLoop.Surroundings(
                        () -> {
                            SimulatedSession opened = SimulatedSession.open(this, simulation.serverFor(this));
                            timelineMet = opened.facts().server().timeline();
                            return opened;
                        },
                        this::readClockOrFreeze,
                        simulation.random,
                        new SeededBackoff()));
        this.contender = new Contender(
                name,
                Simulation.KEY,
                task -> world.executeAt(world.now() + simulation.between(0, 100_000), this, task),
                this::readClockOrFreeze,
                new CallbackOutcome());
        contender.dispatcher.add(new CheckingListener());
    }

    // ---- what a user does

    void start() {
        if (!started && !simulation.ends()) {
            started = true;
            CompletableFuture<Void> leaving = left;
            CompletableFuture<Void> leavesNext = new CompletableFuture<>();
            left = leavesNext;
            var unused = leaving.thenRun(() -> enter(leavesNext));
        }
    }

    private void enter(CompletableFuture<Void> leaves) {
        if (started && left == leaves) {
            boolean startPaused = paused;
            command(() -> loop.admit(contender, startPaused, leaves));
        } else {
            leaves.complete(null);
        }
    }

    void close() {
        if (started) {
            started = false;
            signal(new Candidacy.Close());
            CompletableFuture<Void> leaving = left;
            long timeout = options.healthCheckTimeout().toNanos();
            world.at(after(2 * timeout), this, () -> breakOff(leaving, false));
            world.at(after(3 * timeout + options.revokeTimeout().toNanos()), this, () -> breakOff(leaving, true));
        }
    }

    private void breakOff(CompletableFuture<Void> leaving, boolean inTermToo) {
        if (!leaving.isDone() && (inTermToo || contender.standing.role() == LeaderStatus.Role.FOLLOWER)) {
            loop.breakOff();
        }
    }

    void resign() {
        if (started) {
            signal(new Candidacy.StepDown(RevocationReason.RESIGNED));
        }
    }

    void requestResignation() {
        if (started) {
            command(() -> loop.requestResignation(contender));
        }
    }

    void pause() {
        paused = true;
        signal(new Candidacy.Pause());
    }

    void resume() {
        paused = false;
        signal(new Candidacy.Resume());
    }

    boolean isCandidate() {
        return started && !paused;
    }

    boolean isClosed() {
        return !started && left.isDone();
    }

    int failedStarts() {
        return contender.candidacy.failedStarts();
    }

    boolean isInTerm() {
        return told != null;
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
        armedFreezeNanos = nanos;
    }

    /** Freezes at one of the next readings of the clock, so that the reading is fresh or {@code old} when it's used. */
    void freezeAtClockReading(int readings, long nanos, boolean old) {
        clockReadingsUntilFreeze = readings;
        armedFreezeNanos = nanos;
        clockReadingIsOld = old;
    }

    /** Whether it hears of the end of its session at once and acts on it. */
    boolean isAttentive() {
        return !isFrozen()
                && clockReadingsUntilFreeze == 0
                && !freezesAfterAnswer
                && (session == null || session.connection.isPrompt());
    }

    void heal() {
        link.heal();
        thaw();
        freezesAfterAnswer = false;
        clockReadingsUntilFreeze = 0;
    }

    void freezeIfArmed() {
        if (freezesAfterAnswer) {
            freezesAfterAnswer = false;
            freezeHere();
        }
    }

    private long readClockOrFreeze() {
        long reading = readClock();
        if (world.isInProcess() && clockReadingsUntilFreeze > 0 && --clockReadingsUntilFreeze == 0) {
            freezeHere();
            if (clockReadingIsOld) {
                longestOldReadingNanos = Math.max(longestOldReadingNanos, readClock() - reading);
            } else {
                return readClock();
            }
        }
        return reading;
    }

    private void freezeHere() {
        simulation.trace.add(this, "freezes in the middle of its code");
        freeze(armedFreezeNanos);
        world.block(this, world.now(), () -> true);
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

    private void command(Runnable command) {
        loop.post(command);
        wake();
    }

    private void signal(Candidacy.Signal signal) {
        loop.signal(contender, signal);
        wake();
    }

    private void turnAt(long time) {
        long mine = ++nextTurn;
        world.processAt(time + simulation.between(1_000, 100_000), this, () -> {
            if (mine == nextTurn) {
                turn();
            }
        });
    }

    /** Does what {@link ElectionLoop#run()} does from one wait to the next. */
    private void turn() {
        nextTurn++;
        inTurn = true;
        woken = false;
        countTurn();
        long waitNanos;
        try {
            loop.await(0);
            waitNanos = loop.step();
        } catch (RuntimeException e) {
            throw simulation.violation(Simulation.Invariant.NO_DEFECT, this + " failed", e);
        }
        inTurn = false;
        if (woken) {
            turnAt(world.now());
        } else if (!left.isDone()) {
            turnAt(after(waitNanos));
        }
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

    // ---- what its user's threads see

    /** Looks at it like a thread of the user's, which asks at each instant whether it leads. */
    boolean observe() {
        Contender.Standing standing = contender.standing;
        boolean leads = contender.leads();
        Leadership term = standing.leadership();
        if (term != seen) {
            if (seen != null && seen.isValid()) {
                throw simulation.violation(Simulation.Invariant.TERM_STAYS_OVER, seen + " outlives its end", null);
            }
            seen = term;
            seenOver = false;
        }
        boolean valid = term != null && term.isValid();
        if (valid != leads || (valid && seenOver)) {
            throw simulation.violation(
                    Simulation.Invariant.TERM_STAYS_OVER, term + " was over, and " + this + " leads: " + leads, null);
        }
        seenOver = term != null && !valid;
        if (standing.role() != role) {
            if (standing.role() == LeaderStatus.Role.RESIGNING) {
                termEndedBy = readClock();
            } else if (standing.role() == LeaderStatus.Role.TAKING_OVER) {
                simulation.statistics.count("delayed takeover");
            } else if (standing.role() == LeaderStatus.Role.LEADER) {
                simulation.statistics.count("term");
            }
            role = standing.role();
            closedInTerm |= told != null && role == LeaderStatus.Role.STOPPED;
            simulation.trace.add(this, "is " + role.name() + (leads ? ", leads" : ""));
        }
        return leads;
    }

    /** A node competes again only when the callbacks of its last term have returned, unless it was closed meanwhile. */
    void beforeTry() {
        if (told != null && !closedInTerm) {
            throw simulation.violation(
                    Simulation.Invariant.CALLBACKS_PAIR, this + " competes during a callback of " + told, null);
        }
    }

    /** The lock may be given back only when the callbacks have returned, or after the revoke timeout. */
    void beforeRelease() {
        boolean seenResigning = role == LeaderStatus.Role.RESIGNING;
        long waited = longestOldReadingNanos + (seenResigning ? readClock() - termEndedBy : 0);
        boolean inTerm = told != null && role != LeaderStatus.Role.TAKING_OVER;
        if (inTerm && waited < options.revokeTimeout().toNanos()) {
            throw simulation.violation(
                    Simulation.Invariant.RELEASE_AFTER_CALLBACKS,
                    this + " releases the lock during a callback of " + told,
                    null);
        }
    }

    private final class CheckingListener implements LeadershipListener {

        @Override
        public void onElected(Leadership leadership) {
            if (!down) {
                require(
                        !inCallback && told == null && leadership.term() > lastToldTerm,
                        "is elected for " + leadership);
                told = leadership;
                lastToldTerm = leadership.term();
                callBack("onElected");
            }
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            if (!down) {
                require(!inCallback && told == leadership && !leadership.isValid(), "is revoked " + leadership);
                if (simulation.rules.drainsAtOnce()) {
                    signal(new Candidacy.Drained(leadership.term()));
                }
                try {
                    callBack("onRevoked, " + reason.name());
                } finally {
                    told = null;
                    closedInTerm = false;
                }
            }
        }

        private void callBack(String callback) {
            simulation.trace.add(SimulatedNode.this, callback + " begins");
            inCallback = true;
            world.block(SimulatedNode.this, after(simulation.callbackNanos()), () -> false);
            inCallback = false;
            if (simulation.callbackThrows()) {
                simulation.trace.add(SimulatedNode.this, callback + " throws");
                throw new IllegalStateException("simulated");
            }
            simulation.trace.add(SimulatedNode.this, callback + " ends");
        }

        private void require(boolean asPromised, String what) {
            if (!asPromised) {
                throw simulation.violation(
                        Simulation.Invariant.CALLBACKS_PAIR,
                        SimulatedNode.this + " " + what + ", was told " + told,
                        null);
            }
        }
    }

    /** What the elector does when it hears of its callbacks. */
    private final class CallbackOutcome implements ListenerDispatcher.Outcome {

        @Override
        public void started(long term) {
            signal(new Candidacy.Started(term));
        }

        @Override
        public void startFailed(long term, Throwable failure) {
            signal(new Candidacy.StartFailed(term));
        }

        @Override
        public void drained(long term) {
            signal(new Candidacy.Drained(term));
        }

        @Override
        public void revokeFailed(long term, Throwable failure) {}
    }

    /** {@link Backoff#of}, with the jitter from the seed. */
    private final class SeededBackoff implements Backoff {
        private int failures;

        @Override
        public Duration afterFailure() {
            long first = options.retryInterval().dividedBy(4).toNanos();
            long delay = Math.min(
                    first << Math.min(failures++, 20),
                    options.maxReconnectDelay().toNanos());
            return Duration.ofNanos((long) (delay * (0.8 + 0.4 * simulation.random.nextDouble())));
        }

        @Override
        public void reset() {
            failures = 0;
        }
    }
}
