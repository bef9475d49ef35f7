package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSession.Attempt;
import dev.pgleader.lock.LockSession.Holder;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.lock.LockTableFullException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Which locks to try now, and how: by polling or in the server's queue, as many as the server has room for, and no more than this
 * instance's share. It asks the server and returns the answer; what follows from it is the loop's. Of the election thread.
 */
final class Acquisition {

    private static final Log LOG = Log.of(Acquisition.class);
    private static final long SHORTEST_SLICE_NANOS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final long LONGEST_WAIT_NANOS = TimeUnit.MINUTES.toNanos(1);
    /** While a session waits for one key, it can't release another. */
    private static final long LONGEST_SLICE_OF_A_HOLDER_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    /** What it shares with the loop. */
    record Election(Candidates candidates, ElectionMessages messages, Schedule schedule) {}

    /**
     * What came of a try.
     *
     * @param keys the keys that were tried
     * @param granted those of them that were granted, which counts only once a check has shown it
     * @param holders who holds others
     * @param isAnswered whether the server answered anything
     */
    record Tried(
            Collection<LockKey> keys,
            Set<LockKey> granted,
            Map<LockKey, Holder> holders,
            long startedAt,
            boolean isAnswered) {

        static Tried nothing(long now) {
            return new Tried(List.of(), Set.of(), Map.of(), now, false);
        }
    }

    private final String name;
    private final ElectorOptions options;
    private final Surroundings surroundings;
    private final Candidates candidates;
    private final ElectionMessages messages;
    private final Schedule schedule;
    private final LockCapacity capacity;
    private final QueueWait queueWait = new QueueWait();
    private final @Nullable FairShare fairShare;
    private long nextLookAt;

    Acquisition(
            String name,
            ElectorOptions options,
            @Nullable Spread spread,
            Surroundings surroundings,
            Election election) {
        this.name = name;
        this.options = options;
        this.surroundings = surroundings;
        this.candidates = election.candidates();
        this.messages = election.messages();
        this.schedule = election.schedule();
        this.nextLookAt = now();
        this.capacity = new LockCapacity(name, surroundings.random());
        this.fairShare = spread == null ? null : new FairShare(spread, options, surroundings.random(), now());
    }

    /** Why candidates get no lock though the session is good; null if they can. For any thread. */
    @Nullable
    Problem problem() {
        return capacity.problem();
    }

    /** When a lock was tried last; null before the first time. For any thread. */
    @Nullable
    Long lastAttemptAt() {
        return schedule.lastAttemptAt();
    }

    /** Ends a wait in the server's queue, if that costs no leadership, and with it the session. For any thread. */
    void breakOffQueueing() {
        queueWait.breakOff();
    }

    /** The session is a new one. */
    void forget() {
        capacity.reset();
        if (fairShare != null) {
            fairShare.forget();
        }
    }

    // ---- by polling

    /** Tries the locks that candidates want, once. */
    Tried poll(LockSession session) throws LockSessionException {
        long now = now();
        schedule.pollAt(now + jittered(options.retryInterval()));
        List<LockKey> wanted = campaigning(now);
        if (wanted.isEmpty()) {
            return Tried.nothing(now);
        }
        schedule.attempted(now);
        if (fairShare == null) {
            return attempt(session, wanted, Map.of());
        }
        Map<LockKey, Holder> holders = session.findHolders(wanted);
        return attempt(session, dueOf(fairShare, wanted, holders), holders);
    }

    private List<LockKey> campaigning(long now) {
        candidates.that(candidate -> candidate.state().wantsLock(now)).forEach(each -> each.condition.ask());
        return candidates.keysOf(candidate -> candidate.campaigns(now));
    }

    private Tried attempt(LockSession session, Collection<LockKey> due, Map<LockKey, Holder> seen)
            throws LockSessionException {
        long startedAt = now();
        List<LockKey> batch = capacity.fitting(due, candidates.countHeld());
        Set<LockKey> granted = Set.of();
        Map<LockKey, Holder> holders = new HashMap<>(seen);
        if (!batch.isEmpty()) {
            try {
                Attempt attempt = session.attempt(batch);
                granted = attempt.granted();
                holders.putAll(attempt.holders());
            } catch (LockTableFullException e) {
                undoGrants(session, batch);
                lacksRoom(e, batch.size());
                return new Tried(List.of(), Set.of(), seen, startedAt, true);
            }
        }
        int held = candidates.countHeld() + granted.size();
        if (batch.size() < due.size()) {
            if (capacity.isUsedUp(held)) {
                schedule.pollAt(now() + jittered(options.maxReconnectDelay()));
            }
        } else if (!due.isEmpty()) {
            capacity.sufficed();
        }
        return new Tried(batch, granted, holders, startedAt, !batch.isEmpty() || !seen.isEmpty());
    }

    /** A try that failed for lack of room has granted some of its keys: without them the server has room again. */
    private void undoGrants(LockSession session, Collection<LockKey> tried) throws LockSessionException {
        Set<LockKey> granted = new HashSet<>(session.check());
        granted.retainAll(tried);
        if (!granted.isEmpty()) {
            session.release(granted);
        }
        schedule.checkAt(now());
    }

    private void lacksRoom(LockTableFullException e, int tried) {
        long now = now();
        String message = String.valueOf(e.getMessage());
        boolean soon = capacity.refused(tried, candidates.countHeld(), message, now);
        schedule.pollAt(soon ? now : now + jittered(options.maxReconnectDelay()));
        candidates.tellObservers(observer -> observer.sessionFailed(Fault.LOCK_TABLE_FULL, message));
    }

    // ---- in the server's queue

    /** The key to wait for; null if there is none, or not enough time. */
    @Nullable
    LockKey keyToQueueFor() {
        if (options.acquisitionMode() != AcquisitionMode.QUEUE || capacity.problem() != null) {
            return null;
        }
        long now = now();
        List<LockKey> wanted = candidates.keysOf(candidate -> candidate.campaigns(now));
        return wanted.isEmpty() || sliceNanos(isOneWanted(now), now) < SHORTEST_SLICE_NANOS
                ? null
                : queueWait.nextInTurn(wanted);
    }

    /** Waits for the key for one slice; returns null if another thread broke the wait off, and the session is aborted. */
    @Nullable
    Tried waitInQueue(LockSession session, LockKey key, CommandQueue commands) throws LockSessionException {
        long startedAt = now();
        boolean alone = isOneWanted(startedAt);
        long sliceNanos = sliceNanos(alone, startedAt);
        schedule.attempted(startedAt);
        QueueWait.Outcome outcome;
        try {
            boolean mayBreakOff = candidates.countHeld() == 0;
            outcome = queueWait.await(session, key, Duration.ofNanos(sliceNanos), mayBreakOff, commands);
        } catch (LockTableFullException e) {
            lacksRoom(e, 1);
            return Tried.nothing(startedAt);
        }
        if (outcome == QueueWait.Outcome.BROKEN_OFF) {
            return null;
        }
        if (outcome == QueueWait.Outcome.CALLED_OFF) {
            return Tried.nothing(startedAt);
        }
        if (alone) {
            // Whoever waits in the queue needs no poll beside it, as long as nobody else is to be asked for its
            // condition.
            schedule.pollAt(now() + sliceNanos + jittered(options.retryInterval()));
        }
        candidates.require(key).condition.ask();
        boolean granted = outcome == QueueWait.Outcome.GRANTED;
        boolean looks = !granted && now() - nextLookAt >= 0;
        Map<LockKey, Holder> holders = looks ? look(session) : Map.of();
        return new Tried(List.of(key), granted ? Set.of(key) : Set.of(), holders, startedAt, true);
    }

    /** Whether no more than one candidate wants its lock, its condition left aside. */
    private boolean isOneWanted(long now) {
        return candidates.keysOf(candidate -> candidate.state().wantsLock(now)).size() == 1;
    }

    /** Who leads instead; no oftener than a poll would tell. */
    private Map<LockKey, Holder> look(LockSession session) throws LockSessionException {
        long now = now();
        nextLookAt = now + options.retryInterval().toNanos();
        return session.findHolders(candidates.keysOf(candidate -> candidate.campaigns(now)));
    }

    private long sliceNanos(boolean alone, long now) {
        long slice = Math.min(options.queueSlice().toNanos(), candidates.untilDueNanos(now, LONGEST_WAIT_NANOS));
        if (!alone) {
            slice = Math.min(slice, schedule.untilPollNanos(now));
        }
        return candidates.countHeld() == 0
                ? slice
                : Math.min(slice, Math.min(LONGEST_SLICE_OF_A_HOLDER_NANOS, schedule.untilCheckNanos(now)));
    }

    // ---- keys that spread over the instances

    /** The keys that are free and have been left to others for long enough. */
    private Collection<LockKey> dueOf(FairShare share, Collection<LockKey> wanted, Map<LockKey, Holder> holders) {
        Set<LockKey> free = new LinkedHashSet<>(wanted);
        free.removeAll(holders.keySet());
        long now = now();
        List<LockKey> news = share.foundFree(free, now);
        if (!news.isEmpty()) {
            // The others look, too, so that all count from about the same moment.
            messages.tellFree(news.get(0), now);
        }
        int held = candidates.countHeld();
        List<LockKey> due = share.due(held, candidates.size(), now);
        Long nextDueAt = share.nextDueAt(held + due.size(), candidates.size());
        if (nextDueAt != null && due.size() < free.size()) {
            schedule.pollBy(nextDueAt);
        }
        return due;
    }

    /** The candidates that are to resign, since this instance leads more than its share. */
    List<Candidate> findSurplus(LockSession session) throws LockSessionException {
        FairShare share = fairShare;
        if (share == null) {
            return List.of();
        }
        boolean competes =
                !candidates.that(candidate -> !candidate.state().paused()).isEmpty();
        share.updateMembership(session, candidates.keys(), competes);
        long now = now();
        if (!share.isRebalanceDue(now)) {
            return List.of();
        }
        int members = share.countMembers(session);
        Set<LockKey> led = new LinkedHashSet<>(
                candidates.keysOf(candidate -> candidate.state().leads()));
        List<Candidate> resigning = share.surplus(led, candidates.size(), members, now).stream()
                .map(candidates::require)
                .toList();
        if (!resigning.isEmpty()) {
            LOG.info(
                    "[{}] Leads {} of {} keys among {} instances; resigns {}",
                    name,
                    led.size(),
                    candidates.size(),
                    members,
                    resigning.stream().map(each -> each.name).toList());
        }
        return resigning;
    }

    private long now() {
        return surroundings.ticker().nanos();
    }

    private long jittered(Duration interval) {
        double factor = 1 + options.retryJitter() * (2 * surroundings.random().nextDouble() - 1);
        return (long) (interval.toNanos() * factor);
    }
}
