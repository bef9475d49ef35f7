package dev.pgleader;

import dev.pgleader.Ticker.Moment;
import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * One elector's part in an election: its state, its term and its callbacks, which belong to the election thread, and its {@link
 * Standing}, which that thread alone writes and any thread reads.
 */
final class Candidate {

    private static final Log LOG = Log.of(Candidate.class);

    /**
     * What the world sees of a candidate.
     *
     * @param run the run that it is in, or else the last one
     * @param leadership the current term; null if it doesn't lead
     * @param lease the lease that {@code isLeader()} asks; never valid without a term
     * @param problem what is wrong with its callbacks; null if nothing is
     */
    record Standing(
            CandidateRun run,
            LeaderStatus.Role role,
            boolean paused,
            long terms,
            @Nullable Leadership leadership,
            Lease lease,
            @Nullable RevocationReason lastRevocation,
            @Nullable LeaderInfo knownLeader,
            @Nullable Problem problem) {}

    /** What all candidates of an election have in common. */
    record Rules(Ticker ticker, CandidateState.Times times, long trustWindowNanos) {
        static Rules of(ElectorOptions options, Ticker ticker) {
            CandidateState.Times times = new CandidateState.Times(
                    options.coolDown().toNanos(), options.revokeTimeout().toNanos());
            return new Rules(ticker, times, options.trustWindow().toNanos());
        }
    }

    /** A term, and which of its callbacks have been handed over: what fails for want of memory or threads is tried again. */
    private static final class Term {
        final Leadership leadership;
        final long beganAt;
        boolean electionTold;

        @Nullable
        RevocationReason endedBy;

        long endedAt;
        boolean endTold;
        boolean revocationTold;

        Term(Leadership leadership, long beganAt) {
            this.leadership = leadership;
            this.beganAt = beganAt;
        }
    }

    final String name;
    final LockKey key;
    final ListenerDispatcher dispatcher;
    final ObserverQueue observers;
    final CampaignCondition condition;
    final CallsInFlight calls;
    final PendingFutures futures;

    // Of the election thread.
    private CandidateState state = CandidateState.stopped();
    /** The current term, or else the last one. */
    private @Nullable Term term;
    /** Whether the lock is still to be released on the server. */
    private boolean releasing;

    private volatile Standing standing =
            new Standing(CandidateRun.over(), LeaderStatus.Role.STOPPED, false, 0, null, Lease.NONE, null, null, null);

    /**
     * A candidate that takes no part yet.
     *
     * @param campaignCondition null if it competes without a condition
     * @param wake has the election thread take a turn; called on any thread
     */
    Candidate(String name, LockKey key, Executor executor, @Nullable BooleanSupplier campaignCondition, Runnable wake) {
        this.name = name;
        this.key = key;
        this.observers = new ObserverQueue(name, executor);
        this.calls = new CallsInFlight(
                new CallbackReports(failure -> observers.tell(observer -> observer.callbackFailed(failure)), wake));
        this.dispatcher = new ListenerDispatcher(name, executor, calls);
        this.condition = new CampaignCondition(name, campaignCondition, executor, wake);
        this.futures = new PendingFutures(executor);
    }

    // ---- for any thread

    Standing standing() {
        return standing;
    }

    /** Where {@code isLeader()} looks: true exactly as long as the current term may be trusted. */
    boolean leads() {
        return standing.lease().isValid();
    }

    /** The current term if it may be trusted. */
    Optional<Leadership> trustedLeadership() {
        return Optional.ofNullable(standing.leadership()).filter(Leadership::isValid);
    }

    /** Ends the leadership now, and lets no other term begin in that run. */
    void stop(CandidateRun leaving) {
        synchronized (leaving) {
            leaving.stop();
            if (run() == leaving) {
                standing.lease().revoke();
            }
        }
    }

    /** Counts callbacks as returned that have called {@link System#exit}, which never returns. */
    void abandonExitingCallbacks() {
        if (dispatcher.isExiting()) {
            LOG.warn("[{}] A callback has called System.exit, so the lock is released without waiting for it", name);
            calls.reports().drained(standing.terms());
        }
    }

    // ---- on the election thread

    CandidateState state() {
        return state;
    }

    /** Takes part from now on. */
    void begin(CandidateRun next, boolean paused, long now) {
        boolean drained = calls.reports().isDrained(state.terms());
        state = CandidateState.start(state.terms(), paused, drained, now);
        condition.forget();
        publish(next, standing.problem());
    }

    /** Whether it competes now, as far as its condition has said so far. */
    boolean campaigns(long now) {
        return condition.holds() && !isStopping() && state.wantsLock(now);
    }

    boolean isStopping() {
        return run().isStopping();
    }

    /**
     * Changes the state, and begins and ends terms accordingly.
     *
     * @param lastCheck the start of the last good check, the anchor of the lease of a term that begins
     */
    void apply(CandidateState.Signal signal, Rules rules, @Nullable Moment lastCheck) {
        long now = rules.ticker().nanos();
        CandidateState.Transition transition = state.on(signal, now, rules.times());
        for (CandidateState.Effect effect : transition.effects()) {
            if (effect instanceof CandidateState.BeginTerm begin) {
                term = beginTerm(begin.term(), rules, lastCheck);
            } else if (effect instanceof CandidateState.EndTerm end) {
                endTerm(end.reason(), now);
            } else if (effect instanceof CandidateState.ReleaseLock) {
                releasing = true;
            }
        }
        boolean changed = !state.equals(transition.next());
        boolean lockGoes = state.holdsLock() && !transition.next().holdsLock();
        state = transition.next();
        if (!state.wantsLock(now)) {
            condition.forget();
        }
        if (changed) {
            publish();
        }
        tellCallbacks();
        if (lockGoes) {
            tellCutOff();
        }
    }

    /** Tells which calls go on though the lock doesn't belong to this instance any more. */
    private void tellCutOff() {
        List<String> cutOff = calls.names();
        if (!cutOff.isEmpty()) {
            LOG.warn(
                    "[{}] The lock is gone while {} leader-only call(s) still run, and another instance may lead: {}",
                    name,
                    cutOff.size(),
                    cutOff);
            observers.tell(observer -> observer.callsCutOff(cutOff));
        }
    }

    /** Whether the calling code is what the end of a term has to wait for: a callback, or a call made as the leader. */
    boolean isWaitedFor() {
        return dispatcher.isInCallback() || calls.isCurrentThread();
    }

    private Term beginTerm(long number, Rules rules, @Nullable Moment lastCheck) {
        if (lastCheck == null) {
            throw new IllegalStateException("A term begins without a check");
        }
        Lease lease = new Lease(rules.ticker(), lastCheck, rules.trustWindowNanos());
        Leadership leadership = new Leadership(name, number, Instant.now(), lease);
        // Listeners may be slow to hear of the end; the calls are told at once.
        var unused = leadership.revoked().thenRun(calls::tellRevoked);
        return new Term(leadership, rules.ticker().nanos());
    }

    private void endTerm(RevocationReason reason, long now) {
        Term ended = term;
        if (ended == null || ended.endedBy != null) {
            throw new IllegalStateException("A term ends that never began");
        }
        ended.leadership.lease().revoke();
        ended.endedBy = reason;
        ended.endedAt = now;
    }

    /** Hands the callbacks of the term over, those that haven't been so far. */
    void tellCallbacks() {
        Term told = term;
        if (told == null || told.revocationTold) {
            return;
        }
        Leadership leadership = told.leadership;
        if (!told.electionTold) {
            dispatcher.elected(leadership);
            told.electionTold = true;
            LOG.info("[{}] Elected, term {}", name, leadership.term());
            futures.completeElected(leadership);
            observers.tell(observer -> observer.elected(leadership));
        }
        RevocationReason reason = told.endedBy;
        if (reason == null) {
            return;
        }
        if (!told.endTold) {
            futures.aside(() -> leadership.completeRevoked(reason));
            told.endTold = true;
        }
        dispatcher.revoked(leadership, reason);
        told.revocationTold = true;
        Duration lasted = Duration.ofNanos(told.endedAt - told.beganAt);
        observers.tell(observer -> observer.revoked(leadership, reason, lasted));
        LOG.info("[{}] Revoked, term {}, {}, after {} ms", name, leadership.term(), reason, lasted.toMillis());
    }

    /** What the callbacks have reported, as a signal; null if nothing new. */
    CandidateState.@Nullable Signal reported(long now, long longestCoolDown) {
        Term current = term;
        boolean proved = current != null && now - current.beganAt - longestCoolDown >= 0;
        return calls.reports().signal(state, proved);
    }

    /** Tries again what failed for want of a thread or memory; returns false if that's still wanting. */
    boolean retryCallbacks() {
        if (standing.role() != role(state.phase())) {
            publish();
        }
        tellCallbacks();
        boolean listenersHaveThread = dispatcher.retry();
        boolean observersHaveThread = observers.retry();
        boolean futuresHaveThread = futures.retry();
        return listenersHaveThread && observersHaveThread && futuresHaveThread;
    }

    // ---- the lock that is to be released

    /** Whether its lock is to be released. */
    boolean isReleasing() {
        return releasing;
    }

    void released() {
        releasing = false;
    }

    /** Whether the server holds the lock for it, even if it's about to be released. */
    boolean isHeldOnServer() {
        return state.holdsLock() || releasing;
    }

    /** Whether it's out of the election, with nothing left to do. */
    boolean hasLeft() {
        return state.isStopped() && !releasing;
    }

    /** Completes what waits for the lock to be released, if it is. */
    void settle() {
        if (!state.holdsLock() && !releasing) {
            futures.completeReleased();
        }
    }

    CandidateRun run() {
        return standing.run();
    }

    // ---- what the world sees

    /** Shows who leads. */
    void showLeader(@Nullable LeaderInfo leader) {
        Standing shown = standing;
        if (Objects.equals(leader, shown.knownLeader())) {
            return;
        }
        standing = new Standing(
                shown.run(),
                shown.role(),
                shown.paused(),
                shown.terms(),
                shown.leadership(),
                shown.lease(),
                shown.lastRevocation(),
                leader,
                shown.problem());
        if (leader != null) {
            observers.tell(observer -> observer.leaderChanged(leader));
            LOG.debug("[{}] {} leads", name, leader.instanceId());
        }
    }

    /** Shows what is wrong with the callbacks, if anything is. */
    void showProblem(long now, long patienceNanos, boolean noThread) {
        Problem problem = problem(now, patienceNanos, noThread);
        Problem shown = standing.problem();
        if (problem == null
                ? shown != null
                : shown == null || !problem.message().equals(shown.message())) {
            publish(run(), problem);
        }
    }

    private @Nullable Problem problem(long now, long patienceNanos, boolean noThread) {
        Term last = term;
        if (last != null && last.endedBy != null && state.isEndingTerm() && now - last.endedAt - patienceNanos >= 0) {
            String message = "The callbacks of term " + last.leadership.term() + ", which ended by " + last.endedBy
                    + ", haven't returned; this instance doesn't compete before they have"
                    + (noThread ? ". No thread can be started for them" : "");
            return new Problem(LeaderStatus.Problem.Kind.CALLBACKS_OVERDUE, null, message, last.endedAt);
        }
        if (last != null && state.failedStarts() > 0) {
            String message = "The leader's work failed to start in " + state.failedStarts()
                    + " term(s) in a row; see the log for what onElected threw";
            return new Problem(LeaderStatus.Problem.Kind.START_FAILING, null, message, last.beganAt);
        }
        return null;
    }

    private void publish() {
        publish(run(), standing.problem());
    }

    private void publish(CandidateRun current, @Nullable Problem problem) {
        Term last = term;
        Leadership leadership = last == null || last.endedBy != null ? null : last.leadership;
        Standing next = new Standing(
                current,
                role(state.phase()),
                state.paused(),
                state.terms(),
                leadership,
                leadership == null ? Lease.NONE : leadership.lease(),
                last == null ? null : last.endedBy == null ? standing.lastRevocation() : last.endedBy,
                standing.knownLeader(),
                problem);
        synchronized (current) {
            if (current.isStopping()) {
                next.lease().revoke();
            }
            standing = next;
        }
    }

    private static LeaderStatus.Role role(CandidateState.Phase phase) {
        if (phase instanceof CandidateState.Follower) {
            return LeaderStatus.Role.FOLLOWER;
        } else if (phase instanceof CandidateState.TakingOver) {
            return LeaderStatus.Role.TAKING_OVER;
        } else if (phase instanceof CandidateState.Leader) {
            return LeaderStatus.Role.LEADER;
        } else if (phase instanceof CandidateState.Resigning) {
            return LeaderStatus.Role.RESIGNING;
        } else if (phase instanceof CandidateState.Revoking) {
            return LeaderStatus.Role.REVOKING;
        }
        return LeaderStatus.Role.STOPPED;
    }
}
