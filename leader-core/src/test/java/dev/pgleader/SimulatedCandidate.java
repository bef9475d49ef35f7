package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/**
 * One elector of a simulated process: the library's own candidate, started and stopped as {@link LeaderElector} does it, with a listener
 * that checks what it is told.
 */
final class SimulatedCandidate {

    private static final Set<RevocationReason> BY_FAULT = EnumSet.of(
            RevocationReason.SESSION_LOST,
            RevocationReason.CHECK_TIMEOUT,
            RevocationReason.LEASE_EXPIRED,
            RevocationReason.LOCK_LOST,
            RevocationReason.NOT_WRITABLE);

    final LockKey key;
    final Candidate candidate;
    private final SimulatedNode node;
    private final Simulation simulation;

    private CandidateRun run = CandidateRun.over();
    private boolean started;
    private boolean paused;

    // What its listener was told.
    private @Nullable Leadership told;
    private boolean inCallback;
    private long lastToldTerm;

    // What was seen from outside.
    private LeaderStatus.Role role = LeaderStatus.Role.STOPPED;
    private long termEndedAt;
    private @Nullable Leadership seen;
    private boolean seenOver;

    /** The last term that its own user gave up. */
    private long givenUpTerm;

    SimulatedCandidate(SimulatedNode node, LockKey key, Executor executor, Runnable wake) {
        this.node = node;
        this.simulation = node.simulation;
        this.key = key;
        this.candidate =
                new Candidate(node.name, key, executor, simulation.asksBeforeCampaign ? this::mayCampaign : null, wake);
        candidate.dispatcher.add(new CheckingListener());
    }

    private boolean mayCampaign() {
        return !simulation.isFaulty() || !simulation.oneIn(4);
    }

    // ---- what a user does

    void start() {
        if (!started && !simulation.ends()) {
            CandidateRun before = run;
            CandidateRun next = new CandidateRun();
            started = true;
            run = next;
            var unused = before.ended().thenRun(() -> enter(next));
        }
    }

    private void enter(CandidateRun entering) {
        if (entering.isStopping()) {
            entering.ended().complete(null);
        } else {
            boolean startPaused = paused;
            node.commands.post(() -> node.loop.admit(candidate, entering, startPaused));
        }
    }

    /** Begins to leave, with the default budget; the future is completed when it has left. */
    CompletableFuture<Void> stop() {
        candidate.stop(run);
        if (started) {
            started = false;
            Duration revokeTimeout = simulation.options.revokeTimeout();
            node.requests.signal(candidate, new CandidateState.Close(revokeTimeout.toNanos()));
        }
        return run.ended();
    }

    void resign() {
        if (started) {
            giveUp(new CandidateState.StepDown(RevocationReason.RESIGNED));
        }
    }

    void pause() {
        paused = true;
        if (started) {
            giveUp(new CandidateState.Pause());
        }
    }

    private void giveUp(CandidateState.Signal signal) {
        node.commands.post(() -> givenUpTerm = candidate.state().terms());
        var unused = node.requests.signalUntilReleased(candidate, signal);
    }

    void resume() {
        paused = false;
        if (started) {
            node.requests.signal(candidate, new CandidateState.Resume());
        }
    }

    void requestResignation() {
        if (started) {
            var unused = node.requests.requestResignation(candidate);
        }
    }

    /** Asks what any thread may ask. */
    void ask() {
        if (started) {
            var unusedProof = node.requests.verify(candidate);
            var unusedLeader = node.requests.findLeader(candidate);
        }
    }

    boolean isCandidate() {
        return started && !paused;
    }

    boolean isStarted() {
        return started;
    }

    boolean hasLeft() {
        return !started && run.ended().isDone();
    }

    boolean isInTerm() {
        return told != null;
    }

    // ---- what its user's threads see

    /** Looks at it like a thread of the user's, which asks at each instant whether it leads. */
    boolean observe() {
        Candidate.Standing standing = candidate.standing();
        boolean leads = candidate.leads();
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
            changeRole(standing, leads);
        }
        return leads;
    }

    private void changeRole(Candidate.Standing standing, boolean leads) {
        boolean endsTerm = role == LeaderStatus.Role.LEADER;
        role = standing.role();
        if (role == LeaderStatus.Role.TAKING_OVER) {
            simulation.statistics.count("delayed takeover");
        } else if (role == LeaderStatus.Role.LEADER) {
            simulation.statistics.count("term");
        }
        if (endsTerm) {
            termEndedAt = node.readClock();
            requireGoodReason(standing.lastRevocation(), standing.terms());
        }
        simulation.trace.add(node, "is " + role.name() + " of " + key + (leads ? ", leads" : ""));
    }

    /** Only its own user, the service's other instances and faults of what the leadership rests on end a term. */
    private void requireGoodReason(@Nullable RevocationReason reason, long terms) {
        boolean resigned = reason == RevocationReason.RESIGNED
                && givenUpTerm != terms
                && !simulation.rebalances()
                && !simulation.mayBeAskedToResign(key);
        boolean lost = reason != null && BY_FAULT.contains(reason) && simulation.rules.areHarmless();
        if (resigned || lost) {
            throw simulation.violation(
                    Simulation.Invariant.NO_STRANGER_ENDS_TERM, this + " lost its term by " + reason.name(), null);
        }
    }

    /** A candidate competes again only when the callbacks of its last term have returned. */
    void beforeTry() {
        if (told != null) {
            throw simulation.violation(
                    Simulation.Invariant.CALLBACKS_PAIR, this + " competes during a callback of " + told, null);
        }
    }

    /** The lock may be given back only when the callbacks have returned, or after the revoke timeout. */
    void beforeRelease() {
        boolean seenEnd = role != LeaderStatus.Role.LEADER && role != LeaderStatus.Role.TAKING_OVER;
        long waited = node.longestOldReadingNanos() + (seenEnd ? node.readClock() - termEndedAt : 0);
        if (told != null && waited < simulation.options.revokeTimeout().toNanos()) {
            throw simulation.violation(
                    Simulation.Invariant.RELEASE_AFTER_CALLBACKS,
                    this + " releases the lock during a callback of " + told,
                    null);
        }
    }

    @Override
    public String toString() {
        return node + " of " + key;
    }

    private final class CheckingListener implements LeadershipListener {

        @Override
        public void onElected(Leadership leadership) {
            if (!node.down) {
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
            if (!node.down) {
                require(!inCallback && told == leadership && !leadership.isValid(), "is revoked " + leadership);
                if (simulation.rules.has(Simulation.Flaw.DRAINED_AT_ONCE)) {
                    candidate.calls.reports().drained(leadership.term());
                }
                try {
                    callBack("onRevoked, " + reason.name());
                } finally {
                    told = null;
                }
            }
        }

        private void callBack(String callback) {
            simulation.trace.add(node, callback + " of " + key + " begins");
            inCallback = true;
            simulation.world.block(node, node.after(simulation.callbackNanos()), () -> false);
            inCallback = false;
            if (simulation.callbackThrows()) {
                simulation.trace.add(node, callback + " of " + key + " throws");
                throw new IllegalStateException("simulated");
            }
            simulation.trace.add(node, callback + " of " + key + " ends");
        }

        private void require(boolean asPromised, String what) {
            if (!asPromised) {
                throw simulation.violation(
                        Simulation.Invariant.CALLBACKS_PAIR,
                        SimulatedCandidate.this + " " + what + ", was told " + told,
                        null);
            }
        }
    }
}
