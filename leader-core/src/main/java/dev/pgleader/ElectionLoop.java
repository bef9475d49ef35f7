package dev.pgleader;

import dev.pgleader.Ticker.Moment;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSession.Notification;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The election of any number of keys over one session. {@link #step()} is one turn. The election thread runs it, and that thread
 * alone touches the session and the candidates' state; the calls of other threads become commands of a later turn.
 *
 * <p>A turn is bounded, and what leadership rests on comes first: leases that ran out, then a check that is due, then the commands,
 * and then, as long as no check has become due in the meantime, one round trip for each of the other things.
 */
final class ElectionLoop {

    private static final Log LOG = Log.of(ElectionLoop.class);
    private static final long LONGEST_WAIT_NANOS = TimeUnit.MINUTES.toNanos(1);
    private static final long SHORTAGE_RETRY_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

    private final ElectorOptions options;
    private final Surroundings surroundings;
    private final CommandQueue commands;
    private final SessionKeeper keeper;
    private final Candidate.Rules rules;
    private final RestartGuard restartGuard;

    // Of the election thread.
    private final Candidates candidates = new Candidates();
    private final ElectionMessages messages;
    private final PendingReads reads = new PendingReads();
    private final Schedule schedule;
    private final Acquisition acquisition;

    ElectionLoop(
            String name,
            String instanceId,
            ElectorOptions options,
            @Nullable Spread spread,
            Surroundings surroundings,
            CommandQueue commands) {
        this.options = options;
        this.surroundings = surroundings;
        this.commands = commands;
        this.rules = Candidate.Rules.of(options, surroundings.ticker());
        LockSession.Settings settings = new LockSession.Settings(
                instanceId, options.leaseDuration(), options.healthCheckTimeout(), !options.unenforcedLeaseAccepted());
        long now = now();
        this.restartGuard = new RestartGuard(options, now);
        this.keeper = new SessionKeeper(name, settings, options, surroundings, candidates::tellObservers);
        this.messages = new ElectionMessages(instanceId, options, now);
        this.schedule = new Schedule(now);
        this.acquisition = new Acquisition(
                name, options, spread, surroundings, new Acquisition.Election(candidates, messages, schedule));
    }

    // ---- for other threads

    /** What the status tells of the session. */
    SessionKeeper.View view() {
        return keeper.view();
    }

    /** What the status tells of the tries. */
    Acquisition acquisition() {
        return acquisition;
    }

    /** Ends the current wait, or the next one. */
    void wake() {
        keeper.wake();
    }

    /** Ends a wait in the server's queue with the session, if that costs no leadership. */
    void breakOffQueueing() {
        acquisition.breakOffQueueing();
    }

    /** Ends the session, whatever it's doing. */
    void abortSession() {
        keeper.abort();
    }

    // ---- one turn, on the election thread

    /** One turn: does all that is due now and returns for how long nothing will be. */
    long step() {
        passTime();
        // Only a turn that failed leaves one behind; by now nobody trusts it any more.
        keeper.abortLost();
        if (keeper.session() == null) {
            commands.runAll();
            openSessionIfDue();
        }
        if (keeper.session() != null && schedule.isCheckDue(now())) {
            check(Set.of());
        }
        commands.runAll();
        passTime();
        release();
        answerReads();
        inTurn(schedule.isPollDue(now()), this::rebalance);
        inTurn(schedule.isPollDue(now()), this::poll);
        inTurn(true, this::resignOnRequest);
        inTurn(messages.isTellingDue(now()), session -> messages.tell(session, now()));
        passTime();
        release();
        seeOff();
        return waitNanos();
    }

    /** Something that takes round trips. */
    private interface Task {
        void run(LockSession session) throws LockSessionException;
    }

    /** Does something that can wait for a check, if none is due. */
    private void inTurn(boolean isDue, Task task) {
        LockSession session = keeper.session();
        if (!isDue || session == null || schedule.isCheckDue(now())) {
            return;
        }
        try {
            task.run(session);
        } catch (LockSessionException e) {
            loseSession(e);
        }
    }

    /** Waits until the time is over or there is something to do. */
    void await(long waitNanos) {
        LockSession current = keeper.session();
        if (current == null) {
            LockSupport.parkNanos(this, waitNanos);
            return;
        }
        try {
            if (!waitInQueue(current)) {
                receive(current.awaitNotifications(waitNanos));
            }
        } catch (LockSessionException e) {
            loseSession(e);
        }
    }

    /** Whether there is nothing to do any more. */
    boolean isDeserted() {
        return candidates.isDeserted();
    }

    void admit(Candidate candidate, CandidateRun run, boolean paused) {
        candidates.add(candidate);
        candidate.begin(run, paused, now());
        candidate.showLeader(null);
        schedule.pollBy(now());
    }

    /** Ends leases that ran out, and does what becomes due by time alone or by what callbacks reported. */
    private void passTime() {
        long now = now();
        for (Candidate candidate : candidates.all()) {
            CandidateState state = candidate.state();
            if (candidate.isStopping() && !state.isStopped() && !state.closing()) {
                apply(
                        candidate,
                        new CandidateState.Close(options.revokeTimeout().toNanos()));
            } else if (state.leads() && !candidate.leads()) {
                loseSession(
                        RevocationReason.LEASE_EXPIRED,
                        Fault.TIMEOUT,
                        "No check succeeded for " + options.trustWindow().toMillis() + " ms, the trust window",
                        null);
            } else if (state.holdsLock() && keeper.session() == null) {
                apply(candidate, new CandidateState.LockLost(RevocationReason.SESSION_LOST));
            }
            CandidateState.Signal reported = candidate.reported(now, CandidateState.longestCoolDown(rules.times()));
            if (reported != null) {
                apply(candidate, reported);
            }
            Long dueAt = candidate.state().dueAt();
            if (dueAt != null && now - dueAt >= 0) {
                apply(candidate, new CandidateState.Tick());
            }
            if (candidate.condition.takeAnswer()) {
                schedule.pollBy(now);
            }
            candidate.settle();
        }
    }

    void apply(Candidate candidate, CandidateState.Signal signal) {
        boolean led = candidate.state().leads();
        candidate.apply(signal, rules, schedule.lastCheck());
        boolean leads = candidate.state().leads();
        LockSession current = keeper.session();
        if (leads && !led && current != null) {
            candidate
                    .trustedLeadership()
                    .map(term -> messages.leads(candidate.key, current.facts().backendPid(), term.since()))
                    .ifPresent(candidate::showLeader);
        } else if (led && !leads) {
            messages.noLongerLeads(candidate.key);
            candidate.showLeader(null);
        }
        if (current == null) {
            candidate.released();
        }
    }

    // ---- the session

    private void openSessionIfDue() {
        if (candidates.isEmpty() || !keeper.isOpeningDue() || !keeper.open()) {
            return;
        }
        long openedAt = now();
        restartGuard.opened(keeper.requireSession().facts(), openedAt);
        schedule.pollAt(openedAt);
        schedule.checkAt(openedAt + options.healthCheckInterval().toNanos());
        acquisition.forget();
        // An answer from before the outage is too old to lead on.
        candidates.all().forEach(candidate -> candidate.condition.forget());
    }

    /** Proves the session and renews the leases; {@code granted} are the keys that it got since the last time. */
    private boolean check(Set<LockKey> granted) {
        LockSession checked = keeper.requireSession();
        Moment startedAt = surroundings.ticker().now();
        Set<LockKey> held;
        try {
            held = checked.check();
        } catch (LockSessionException e) {
            loseSession(e);
            return false;
        }
        Set<LockKey> expected = new HashSet<>(granted);
        expected.addAll(candidates.keysOf(Candidate::isHeldOnServer));
        if (!held.equals(expected)) {
            loseSession(SessionDoubt.of(expected, held, granted));
            return false;
        }
        for (Candidate leader : candidates.that(candidate -> candidate.state().leads())) {
            if (!leader.standing().lease().renew(startedAt) && !leader.isStopping()) {
                schedule.checkAt(now());
                return false; // The lease ran out during the check; passing time ends the term.
            }
        }
        long now = now();
        schedule.checked(startedAt, options.healthCheckInterval().toNanos());
        keeper.checked(startedAt.nanos(), now);
        candidates.tellObservers(observer -> observer.checked(Duration.ofNanos(now - startedAt.nanos())));
        return true;
    }

    private void loseSession(LockSessionException e) {
        loseSession(SessionDoubt.revocationReason(e.fault()), e.fault(), String.valueOf(e.getMessage()), e);
    }

    /** Gives the session up after a defect, and opens no other one for a while. */
    void loseSession(Throwable defect, Duration pause) {
        loseSession(RevocationReason.SESSION_LOST, Fault.STATEMENT_FAILED, ProblemLog.describe(defect), defect);
        keeper.postponeOpening(pause);
    }

    /** Gives the session up, on the slightest doubt, and all that it held. */
    private void loseSession(RevocationReason reason, Fault fault, String message, @Nullable Throwable cause) {
        keeper.giveUp(fault);
        // First nobody trusts the session any more, then it ends: the server may give the locks away from there on.
        for (Candidate candidate : candidates.all()) {
            apply(candidate, new CandidateState.LockLost(reason));
            candidate.showLeader(null);
            candidate.released();
        }
        keeper.abortLost();
        messages.forget();
        keeper.report(fault, message, cause);
    }

    /** Closes the session in order, since nobody needs it. */
    private void closeSession() {
        messages.forget();
        keeper.close();
    }

    // ---- getting locks

    private void rebalance(LockSession session) throws LockSessionException {
        for (Candidate surplus : acquisition.findSurplus(session)) {
            apply(surplus, new CandidateState.StepDown(RevocationReason.RESIGNED));
        }
    }

    private void poll(LockSession session) throws LockSessionException {
        tried(acquisition.poll(session));
    }

    /** Waits in the server's queue; returns false if there is no key to wait for, or not long enough. */
    private boolean waitInQueue(LockSession session) throws LockSessionException {
        LockKey key = acquisition.keyToQueueFor();
        if (key == null) {
            return false;
        }
        Acquisition.Tried tried = acquisition.waitInQueue(session, key, commands);
        if (tried == null) {
            closeSession();
            return true;
        }
        receive(session.awaitNotifications(0));
        tried(tried);
        return true;
    }

    /** Takes up what the server answered to a try, or to a wait in its queue. */
    private void tried(Acquisition.Tried tried) {
        Duration took = Duration.ofNanos(now() - tried.startedAt());
        for (LockKey key : tried.keys()) {
            boolean won = tried.granted().contains(key);
            candidates.require(key).observers.tell(observer -> observer.attempted(won, took));
        }
        tried.holders().forEach((key, holder) -> {
            if (!tried.granted().contains(key)) {
                candidates.require(key).showLeader(messages.saw(key, holder));
            }
        });
        if (!tried.granted().isEmpty()) {
            if (check(tried.granted())) {
                tried.granted().forEach(key -> takeLock(candidates.require(key)));
            }
        } else if (tried.isAnswered()) {
            long now = now();
            keeper.proved(now);
            // An answer shows that the session lives, so a candidate that polls needs no check beside it.
            if (candidates.countHeld() == 0) {
                schedule.checkAt(now + options.healthCheckInterval().toNanos());
            }
        }
    }

    private void takeLock(Candidate candidate) {
        long now = now();
        messages.took(candidate.key);
        // Whoever is to stop never leads: passing time releases the lock.
        long leadsFrom = candidate.isStopping() ? now + LONGEST_WAIT_NANOS : restartGuard.leadsFrom(now);
        if (leadsFrom - now > 0) {
            LOG.info(
                    "[{}] Got the lock, leads in {} ms: the server restarted or failed over less than a lease ago, or a"
                            + " delay is set (takeoverDelay {})",
                    candidate.name,
                    TimeUnit.NANOSECONDS.toMillis(leadsFrom - now),
                    options.takeoverDelay());
        }
        apply(candidate, new CandidateState.LockTaken(leadsFrom));
    }

    // ---- releasing locks

    /** Releases what is to be released, all in one statement, before the next check or try. */
    private void release() {
        LockSession holder = keeper.session();
        List<Candidate> leaving = candidates.that(Candidate::isReleasing);
        if (leaving.isEmpty() || holder == null) {
            return;
        }
        try {
            holder.release(leaving.stream().map(candidate -> candidate.key).toList());
        } catch (LockSessionException e) {
            loseSession(e);
            return;
        }
        long now = now();
        for (Candidate candidate : leaving) {
            messages.tellFree(candidate.key, now);
            candidate.released();
            candidate.settle();
        }
        inTurn(true, session -> messages.tell(session, now()));
    }

    private void seeOff() {
        List<Candidate> leaving = candidates.that(Candidate::hasLeft);
        leaving.forEach(candidates::remove);
        if (candidates.isEmpty()) {
            closeSession();
        }
        for (Candidate candidate : leaving) {
            LOG.info("[{}] Closed", candidate.name);
            candidate.run().ended().complete(null);
        }
    }

    // ---- what the sessions tell each other, and what callers ask

    private void receive(List<Notification> notifications) {
        if (notifications.isEmpty()) {
            return;
        }
        long now = now();
        Set<LockKey> competing =
                Set.copyOf(candidates.keysOf(candidate -> candidate.state().wantsLock(now)));
        if (messages.receive(notifications, competing)) {
            schedule.hinted(now);
        }
    }

    private void resignOnRequest(LockSession session) throws LockSessionException {
        Set<LockKey> led = Set.copyOf(candidates.keysOf(each -> each.state().leads()));
        Set<Integer> requesters = messages.requestersToLookAt(led, now());
        if (requesters.isEmpty()) {
            return;
        }
        for (LockKey key : messages.requestedBy(session.findCommanders(requesters))) {
            Candidate candidate = candidates.require(key);
            LOG.info("[{}] Another session asks for resignation", candidate.name);
            apply(candidate, new CandidateState.StepDown(RevocationReason.RESIGNED));
        }
    }

    /** Asks whoever leads to resign, in this turn or not at all. */
    void requestResignation(Candidate candidate, CompletableFuture<Void> sent) {
        messages.requestResignation(candidate.key, wasSent -> {
            candidate.futures.settle(sent, wasSent ? null : keeper.noSession("The request to resign couldn't be sent"));
        });
        if (keeper.session() == null) {
            messages.forget();
        }
    }

    /** What callers want to know, to be answered in this turn. */
    PendingReads reads() {
        return reads;
    }

    /** One check and one look for all that callers ask. */
    private void answerReads() {
        if (reads.wantCheck()) {
            reads.verified(keeper.session() != null && check(Set.of()));
        }
        if (reads.keys().isEmpty()) {
            return;
        }
        if (keeper.session() == null) {
            reads.failed(keeper.noSession("Who leads can't be asked"));
        }
        inTurn(true, session -> {
            try {
                reads.found(session.findHolders(reads.keys()));
            } catch (LockSessionException e) {
                reads.failed(e);
                throw e;
            }
        });
    }

    // ---- time

    /** By the election's ticker; for any thread. */
    long now() {
        return surroundings.ticker().nanos();
    }

    private long waitNanos() {
        long now = now();
        long wait = candidates.untilDueNanos(now, LONGEST_WAIT_NANOS);
        if (keeper.session() == null) {
            wait = candidates.isEmpty() ? wait : Math.min(wait, keeper.nextOpenAt() - now);
        } else {
            wait = Math.min(wait, Math.min(schedule.untilPollNanos(now), schedule.untilCheckNanos(now)));
            Long tellingDueAt = messages.tellingDueAt(now);
            Long requestDueAt = messages.requestLookDueAt();
            wait = tellingDueAt == null ? wait : Math.min(wait, tellingDueAt - now);
            wait = requestDueAt == null ? wait : Math.min(wait, requestDueAt - now);
            wait = reads.keys().isEmpty() ? wait : 0;
        }
        long patience = options.healthCheckTimeout().toNanos();
        wait = Math.min(wait, candidates.attendToCallbacks(now, patience, SHORTAGE_RETRY_NANOS));
        return Math.max(wait, 0);
    }
}
