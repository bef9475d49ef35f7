package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The election of any number of keys over one session. One thread runs it, and that thread alone touches the session and the
 * candidacies; everybody else leaves a command. {@link #step()} is one turn, {@link #run()} is turn and wait for ever.
 */
final class ElectionLoop implements Runnable {

    private static final Logger LOG = LoggerFactory.getLogger(ElectionLoop.class);
    private static final long LONGEST_WAIT_NANOS = Duration.ofMinutes(1).toNanos();
    private static final Duration PAUSE_AFTER_DEFECT = Duration.ofSeconds(1);
    private static final long SHORTEST_SLICE_NANOS = Duration.ofMillis(10).toNanos();
    /** While a session waits for one key, it can't give up another. */
    private static final long LONGEST_SLICE_OF_A_HOLDER_NANOS =
            Duration.ofMillis(100).toNanos();

    /** What is outside of an election: time, chance and the database. */
    record Surroundings(SessionKeeper.Opener sessions, Ticker ticker, RandomGenerator random, Backoff backoff) {}

    private final String name;
    private final String instanceId;
    private final ElectorOptions options;
    private final Candidacy.Times times;
    private final Ticker ticker;
    private final RandomGenerator random;
    private final SessionKeeper keeper;

    private final Queue<Runnable> commands = new ConcurrentLinkedQueue<>();
    /** Whether somebody has woken the election thread since it last looked for commands. */
    private final AtomicBoolean woken = new AtomicBoolean();

    private final Object lifecycle = new Object();
    private volatile @Nullable Thread thread;
    private volatile @Nullable Outage shortage;
    private volatile @Nullable Long lastAttemptAt;
    /** Whether the election thread waits in the server's queue, and has no leadership to lose. */
    private volatile boolean onlyQueues;
    /** Whether that wait was ended by ending the session. */
    private volatile boolean queueingBrokenOff;

    // Of the election thread.
    private final Map<LockKey, Contender> contenders = new LinkedHashMap<>();
    private final List<Contender> leaving = new ArrayList<>();
    private final Set<Notice> announcements = new LinkedHashSet<>();
    private final List<Consumer<Boolean>> verifications = new ArrayList<>();
    /** Locks that nobody needs any more, and what to tell of them. */
    private final Map<LockKey, String> unlocking = new LinkedHashMap<>();
    /** Whose locks they are. */
    private final List<Contender> unsettled = new ArrayList<>();

    private long nextPollAt;
    private long nextCheckAt;
    private final LockRoom room;
    private final @Nullable Spreading spreading;
    private final LockKey groupKey;
    /** Whether a notice has said that keys are free since this instance last looked. */
    private boolean toldOfFreeKeys;

    private @Nullable LockKey lastQueued;

    ElectionLoop(
            String name,
            String instanceId,
            ElectorOptions options,
            @Nullable Spread spread,
            Surroundings surroundings) {
        this.name = name;
        this.instanceId = instanceId;
        this.options = options;
        this.times = new Candidacy.Times(
                options.coolDown().toNanos(), options.revokeTimeout().toNanos());
        this.ticker = surroundings.ticker();
        this.random = surroundings.random();
        this.keeper = new SessionKeeper(
                name, options, surroundings.sessions(), ticker, surroundings.backoff(), this::tellObservers);
        this.nextPollAt = ticker.nanos();
        this.room = new LockRoom(random);
        this.spreading = spread == null ? null : new Spreading(spread, options, random, nextPollAt);
        this.groupKey = LockKey.named("pgleader/group/" + name);
    }

    // ---- for other threads

    /** Has the command run on the election thread. */
    void post(Runnable command) {
        commands.add(command);
        if (!woken.compareAndSet(false, true)) {
            return;
        }
        LockSession current = keeper.session();
        if (current != null) {
            current.wake();
        }
        LockSupport.unpark(thread);
    }

    /** Lets a contender take part from now on; starts the election thread if nobody took part so far. */
    void enter(Contender contender, boolean paused, CompletableFuture<Void> left) {
        synchronized (lifecycle) {
            post(() -> admit(contender, paused, left));
            if (thread == null) {
                Thread started = CallbackQueue.daemon(this, "pg-leader-" + name);
                thread = started;
                started.start();
            }
        }
    }

    /** Feeds a signal to a contender. */
    void signal(Contender contender, Candidacy.Signal signal) {
        post(() -> apply(contender, signal));
    }

    SessionKeeper.View view() {
        return keeper.view();
    }

    /** Why candidates get no lock though the session is good. */
    @Nullable
    Outage shortage() {
        return shortage;
    }

    @Nullable
    Long lastAttemptAt() {
        return lastAttemptAt;
    }

    /** Ends a wait in the server's queue with the session, if that costs no leadership. */
    void breakOffQueueing() {
        LockSession current = keeper.session();
        if (onlyQueues && current != null) {
            queueingBrokenOff = true;
            current.abort();
        }
    }

    /** Breaks off whatever the election thread waits for. */
    void breakOff() {
        LockSession current = keeper.session();
        if (current != null) {
            current.abort();
        }
        Thread running = thread;
        if (running != null) {
            running.interrupt();
        }
    }

    // ---- on the election thread

    @Override
    public void run() {
        while (true) {
            // Only breakOff() interrupts this thread, and what it was to end has ended.
            Thread.interrupted();
            try {
                long waitNanos = step();
                if (contenders.isEmpty()) {
                    if (endIfIdle()) {
                        return;
                    }
                } else if (commands.isEmpty()) {
                    await(waitNanos);
                }
            } catch (Throwable defect) {
                recover(defect);
            }
        }
    }

    /** Nothing may end the campaign: what is lost by a defect is the session, and a moment. */
    private void recover(Throwable defect) {
        LOG.error("[{}] Defect in the election; it goes on with a new session", name, defect);
        try {
            loseSession(RevocationReason.SESSION_LOST, Fault.STATEMENT_FAILED, String.valueOf(defect));
        } catch (RuntimeException | Error again) {
            LOG.error("[{}] Defect while giving the session up", name, again);
        }
        keeper.postponeOpening(PAUSE_AFTER_DEFECT);
        LockSupport.parkNanos(this, PAUSE_AFTER_DEFECT.toNanos());
    }

    private boolean endIfIdle() {
        synchronized (lifecycle) {
            if (!commands.isEmpty()) {
                return false;
            }
            thread = null;
            return true;
        }
    }

    /** One turn: does all that is due now and returns for how long nothing will be. */
    long step() {
        runCommands();
        passTime();
        if (keeper.session() == null && !contenders.isEmpty() && isDue(keeper.nextOpenAt())) {
            openSession();
        }
        if (keeper.session() != null && (isDue(nextCheckAt) || !verifications.isEmpty())) {
            check(Set.of());
        }
        if (keeper.session() != null && isDue(nextPollAt)) {
            poll();
        }
        passTime();
        announce();
        failVerifications();
        if (contenders.isEmpty()) {
            keeper.close();
        }
        seeOff();
        return waitNanos();
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
                receive(current.await(waitNanos));
            }
        } catch (LockSessionException e) {
            loseSession(e);
        }
    }

    /** Waits for a key in the server's queue; returns false if there is none to wait for, or not long enough. */
    private boolean waitInQueue(LockSession waiting) throws LockSessionException {
        if (options.acquisitionMode() != AcquisitionMode.QUEUE || shortage != null) {
            return false;
        }
        Map<LockKey, Contender> wanted = campaigning();
        if (wanted.isEmpty()) {
            return false;
        }
        boolean alone = wanted.size() == 1;
        long startedAt = ticker.nanos();
        long sliceNanos = Math.min(options.queueSlice().toNanos(), untilContenderIsDueNanos(startedAt));
        if (!alone) {
            sliceNanos = Math.min(sliceNanos, nextPollAt - startedAt);
        }
        boolean holdsLocks = countHeld() > 0;
        if (holdsLocks) {
            sliceNanos = Math.min(sliceNanos, Math.min(LONGEST_SLICE_OF_A_HOLDER_NANOS, nextCheckAt - startedAt));
        }
        if (sliceNanos < SHORTEST_SLICE_NANOS) {
            return false;
        }
        LockKey key = nextInTurn(wanted.keySet());
        lastQueued = key;
        boolean granted;
        queueingBrokenOff = false;
        onlyQueues = !holdsLocks;
        try {
            if (!commands.isEmpty()) {
                return true;
            }
            lastAttemptAt = startedAt;
            granted = waiting.lockWithin(key, Duration.ofNanos(sliceNanos));
        } catch (LockSessionException e) {
            if (queueingBrokenOff) {
                keeper.close();
            } else if (e.fault() == Fault.LOCK_TABLE_FULL) {
                reportShortage(e, 1);
            } else {
                throw e;
            }
            return true;
        } finally {
            onlyQueues = false;
        }
        if (alone) {
            // Whoever waits in the queue needs no poll beside it.
            nextPollAt = ticker.nanos() + sliceNanos + jittered(options.retryInterval());
        }
        askGates();
        receive(waiting.await(0));
        tried(List.of(key), granted ? Set.of(key) : Set.of(), startedAt);
        return true;
    }

    /** The key after the one that was waited for last. */
    private LockKey nextInTurn(Set<LockKey> wanted) {
        List<LockKey> keys = new ArrayList<>(wanted);
        return keys.get((keys.indexOf(lastQueued) + 1) % keys.size());
    }

    /** Takes up what other sessions said. */
    void receive(List<String> payloads) {
        for (String payload : payloads) {
            Notice.parse(payload).ifPresent(notice -> {
                Contender contender = contenders.get(notice.key());
                if (contender != null) {
                    receive(contender, notice);
                }
            });
        }
        release();
    }

    private void receive(Contender contender, Notice notice) {
        if (notice instanceof Notice.Released || notice instanceof Notice.Freed) {
            boolean wanted = contender.candidacy.wantsLock(ticker.nanos());
            // Who doesn't compete now may miss the next leader, whom this release doesn't vouch for.
            contender.releasedInOrder = wanted && notice instanceof Notice.Released;
            contender.knownLeader = null;
            if (wanted) {
                nextPollAt = ticker.nanos();
                toldOfFreeKeys = true;
            }
            if (spreading != null && notice instanceof Notice.Freed) {
                spreading.countAnew(ticker.nanos());
            }
            contender.publish();
        } else if (notice instanceof Notice.Elected elected && !isOwn(elected)) {
            contender.releasedInOrder = false;
            learnLeader(contender, elected.leader());
        } else if (notice instanceof Notice.ResignRequest && contender.candidacy.leads()) {
            LOG.info("[{}] Another session asks for resignation", contender.name);
            apply(contender, new Candidacy.StepDown(RevocationReason.RESIGNED));
        } else if (notice instanceof Notice.WhoLeads && contender.candidacy.leads()) {
            announceLeadership(contender);
        }
    }

    /** What this session announced comes back to it, late: it may have resigned since. */
    private boolean isOwn(Notice.Elected elected) {
        LockSession current = keeper.session();
        return current != null
                && elected.leader().backendPid() == current.facts().backendPid();
    }

    private void learnLeader(Contender contender, LeaderInfo leader) {
        if (!leader.equals(contender.knownLeader)) {
            contender.knownLeader = leader;
            contender.publish();
            contender.observe(observer -> observer.leaderChanged(leader));
            LOG.debug("[{}] {} leads", contender.name, leader.instanceId());
        }
    }

    private void runCommands() {
        woken.set(false);
        for (Runnable command = commands.poll(); command != null; command = commands.poll()) {
            command.run();
        }
        release();
    }

    void admit(Contender contender, boolean paused, CompletableFuture<Void> left) {
        contender.left = left;
        contender.candidacy = Candidacy.start(contender.candidacy.terms(), paused, ticker.nanos());
        contender.lastRevocation = null;
        contender.knownLeader = null;
        contender.releasedInOrder = false;
        contender.askedWhoLeads = false;
        contenders.put(contender.key, contender);
        contender.publish();
        nextPollAt = ticker.nanos();
    }

    /** Ends leases that ran out, and does what becomes due by time alone. */
    private void passTime() {
        for (Contender contender : List.copyOf(contenders.values())) {
            if (contender.candidacy.leads() && !contender.leads()) {
                loseSession(
                        RevocationReason.LEASE_EXPIRED,
                        Fault.TIMEOUT,
                        "No check succeeded for " + options.trustWindow().toMillis() + " ms, the trust window");
            }
            if (contender.candidacy.leads()
                    && contender.candidacy.failedStarts() > 0
                    && contender.takenUpTerm == contender.candidacy.terms()
                    && isDue(contender.termStartedAt + Candidacy.longestCoolDown(times))) {
                apply(contender, new Candidacy.Started(contender.takenUpTerm));
            }
            Long dueAt = contender.candidacy.dueAt();
            if (dueAt != null && isDue(dueAt)) {
                apply(contender, new Candidacy.Tick());
            }
        }
        release();
    }

    private void openSession() {
        keeper.open();
        LockSession opened = keeper.session();
        if (opened == null) {
            return;
        }
        nextPollAt = keeper.openedAt();
        nextCheckAt = keeper.openedAt() + options.healthCheckInterval().toNanos();
        shortage = null;
        room.unlimited();
        forEachContender(contender -> {
            contender.askedWhoLeads = false;
            contender.releasedInOrder = false;
        });
        if (spreading != null && spreading.rebalances()) {
            try {
                opened.join(groupKey);
            } catch (LockSessionException e) {
                loseSession(e);
            }
        }
    }

    /** Proves the session and renews the leases; {@code granted} are the keys that it got since the last time. */
    private boolean check(Set<LockKey> granted) {
        LockSession checked = keeper.requireSession();
        long startedAt = ticker.nanos();
        Set<LockKey> held;
        try {
            held = checked.check();
        } catch (LockSessionException e) {
            loseSession(e);
            return false;
        }
        long now = ticker.nanos();
        nextCheckAt = startedAt + options.healthCheckInterval().toNanos();
        Set<LockKey> expected = new HashSet<>(granted);
        forEachContender(contender -> {
            if (contender.candidacy.holdsLock()) {
                expected.add(contender.key);
            }
        });
        if (!held.equals(expected)) {
            loseSession(doubt(expected, held, granted));
            return false;
        }
        long trustedUntil = startedAt + options.trustWindow().toNanos();
        for (Contender contender : contenders.values()) {
            if (contender.candidacy.leads() && !contender.standing.lease().renew(trustedUntil)) {
                return false; // The lease ran out during the check; passing time ends the term.
            }
        }
        keeper.proved(startedAt);
        tellObservers(observer -> observer.checked(Duration.ofNanos(now - startedAt)));
        verifications.forEach(verification -> verification.accept(true));
        verifications.clear();
        return true;
    }

    private static LockSessionException doubt(Set<LockKey> expected, Set<LockKey> held, Set<LockKey> granted) {
        Set<LockKey> missing = new HashSet<>(expected);
        missing.removeAll(held);
        if (missing.isEmpty()) {
            return new LockSessionException(
                    Fault.LOCK_LOST,
                    "The session holds locks that it never took: expected " + expected + ", got " + held);
        }
        return granted.containsAll(missing)
                ? new LockSessionException(
                        Fault.LOCKS_NOT_REAL,
                        "The server granted " + missing
                                + ", but pg_locks doesn't show it: it has no real advisory locks")
                : new LockSessionException(
                        Fault.LOCK_LOST, "The session no longer holds " + missing + ", though it lives");
    }

    private void poll() {
        long now = ticker.nanos();
        nextPollAt = now + jittered(options.retryInterval());
        askGates();
        Map<LockKey, Contender> wanted = campaigning();
        try {
            if (spreading != null) {
                giveUpSurplus(spreading);
            }
            if (!wanted.isEmpty()) {
                lastAttemptAt = now;
                tryLocks(spreading == null ? wanted.keySet() : dueOf(spreading, wanted.keySet()));
            }
        } catch (LockSessionException e) {
            loseSession(e);
        }
    }

    private void askGates() {
        long now = ticker.nanos();
        forEachContender(contender -> contender.askGate(now, this::post, () -> nextPollAt = ticker.nanos()));
    }

    private Map<LockKey, Contender> campaigning() {
        long now = ticker.nanos();
        Map<LockKey, Contender> campaigning = new LinkedHashMap<>();
        forEachContender(contender -> {
            if (contender.campaigns(now)) {
                campaigning.put(contender.key, contender);
            }
        });
        return campaigning;
    }

    private void tryLocks(Collection<LockKey> due) throws LockSessionException {
        List<LockKey> batch = room.fitting(due, countHeld());
        if (!batch.isEmpty()) {
            long startedAt = ticker.nanos();
            Set<LockKey> granted;
            try {
                granted = keeper.requireSession().tryLock(batch);
            } catch (LockSessionException e) {
                if (e.fault() != Fault.LOCK_TABLE_FULL) {
                    throw e;
                }
                giveBack(batch);
                reportShortage(e, batch.size());
                return;
            }
            tried(batch, granted, startedAt);
        }
        if (batch.size() < due.size()) {
            if (room.isUsedUp(countHeld())) {
                nextPollAt = ticker.nanos() + jittered(options.maxReconnectDelay());
            }
        } else if (!due.isEmpty()) {
            endShortage();
        }
    }

    /** What came of a try that the server answered, whether by trying or by waiting. */
    private void tried(Collection<LockKey> keys, Set<LockKey> granted, long startedAt) {
        Duration took = Duration.ofNanos(ticker.nanos() - startedAt);
        for (LockKey key : keys) {
            Contender contender = contender(key);
            boolean won = granted.contains(key);
            contender.observe(observer -> observer.attempted(won, took));
            if (!won) {
                seenTaken(contender);
            }
        }
        if (granted.isEmpty()) {
            answered();
        } else if (check(granted)) {
            granted.forEach(key -> takeLock(contender(key)));
        }
    }

    private void answered() {
        keeper.proved();
        // An answer shows that the session lives, so a candidate that polls needs no check beside it.
        if (countHeld() == 0) {
            nextCheckAt = ticker.nanos() + options.healthCheckInterval().toNanos();
        }
    }

    private Contender contender(LockKey key) {
        Contender contender = contenders.get(key);
        if (contender == null) {
            throw new IllegalStateException("The server speaks of " + key + ", which nobody wants");
        }
        return contender;
    }

    private void seenTaken(Contender contender) {
        contender.releasedInOrder = false;
        askWhoLeads(contender);
    }

    private int countHeld() {
        int held = 0;
        for (Contender contender : contenders.values()) {
            held += contender.candidacy.holdsLock() ? 1 : 0;
        }
        return held;
    }

    // ---- a lock table that is full

    /** A try that failed for lack of room has granted some of its keys: without them the server has room again. */
    private void giveBack(Collection<LockKey> tried) throws LockSessionException {
        LockSession holder = keeper.requireSession();
        Set<LockKey> granted = new HashSet<>(holder.check());
        granted.retainAll(tried);
        if (!granted.isEmpty()) {
            holder.giveBack(granted);
        }
        nextCheckAt = ticker.nanos();
    }

    private void reportShortage(LockSessionException e, int tried) {
        int held = countHeld();
        long now = ticker.nanos();
        nextPollAt = room.refused(tried, held) ? now : now + jittered(options.maxReconnectDelay());
        if (shortage == null) {
            LOG.warn("[{}] No room for more locks beside the {} held: {}", name, held, e.getMessage());
            String message = "The server has no room for more locks beside the " + held
                    + " of this group: raise max_locks_per_transaction (" + e.getMessage() + ")";
            shortage = new Outage(e.fault(), message, now);
        }
        tellObservers(observer -> observer.sessionFailed(e.fault(), String.valueOf(e.getMessage())));
    }

    private void endShortage() {
        if (shortage != null) {
            LOG.info("[{}] Room for all locks again", name);
        }
        shortage = null;
        room.unlimited();
    }

    // ---- keys that spread over the instances

    /** The keys that are free and have been left to others for long enough. */
    private Collection<LockKey> dueOf(Spreading rules, Collection<LockKey> wanted) throws LockSessionException {
        Set<LockKey> free = keeper.requireSession().findFree(wanted);
        answered();
        for (LockKey key : wanted) {
            if (!free.contains(key)) {
                seenTaken(contender(key));
            }
        }
        long now = ticker.nanos();
        List<LockKey> news = rules.foundFree(free, now);
        if (!news.isEmpty() && !toldOfFreeKeys) {
            // Others count anew, so that all count from the same moment.
            announcements.add(new Notice.Freed(news.get(0)));
        }
        toldOfFreeKeys = false;
        int held = countHeld();
        List<LockKey> due = rules.due(held, contenders.size(), now);
        Long nextDueAt = rules.nextDueAt(held + due.size(), contenders.size());
        if (nextDueAt != null && due.size() < free.size() && nextDueAt - nextPollAt < 0) {
            nextPollAt = nextDueAt;
        }
        return due;
    }

    private void giveUpSurplus(Spreading rules) throws LockSessionException {
        long now = ticker.nanos();
        if (!rules.isRebalanceDue(now)) {
            return;
        }
        int members = keeper.requireSession().countMembers(groupKey);
        Map<LockKey, Contender> led = new LinkedHashMap<>();
        forEachContender(contender -> {
            if (contender.candidacy.leads()) {
                led.put(contender.key, contender);
            }
        });
        rules.surplus(led.keySet(), contenders.size(), members, now)
                .map(led::get)
                .ifPresent(surplus -> {
                    LOG.info(
                            "[{}] Leads {} of {} keys among {} instances; gives up {}",
                            name,
                            led.size(),
                            contenders.size(),
                            members,
                            surplus.name);
                    apply(surplus, new Candidacy.StepDown(RevocationReason.RESIGNED));
                });
    }

    private void takeLock(Contender contender) {
        long now = ticker.nanos();
        Duration fixed = options.takeoverDelay().fixed();
        long safeAt = fixed == null ? keeper.takeoverSafeAt() : now + fixed.toNanos();
        long actFrom = contender.releasedInOrder ? now : safeAt;
        if (actFrom - now > 0) {
            LOG.info(
                    "[{}] Got the lock, leads in {} ms: the server restarted or failed over less than a lease ago, or a"
                            + " delay is set (takeoverDelay {})",
                    contender.name,
                    Duration.ofNanos(actFrom - now).toMillis(),
                    options.takeoverDelay());
        }
        apply(contender, new Candidacy.LockTaken(actFrom));
    }

    void apply(Contender contender, Candidacy.Signal signal) {
        Candidacy before = contender.candidacy;
        Candidacy.Transition transition = before.on(signal, ticker.nanos(), times);
        contender.candidacy = transition.next();
        if (transition.effects().isEmpty() && !before.equals(contender.candidacy)) {
            contender.publish();
        }
        for (Candidacy.Effect effect : transition.effects()) {
            if (effect instanceof Candidacy.BeginTerm begin) {
                beginTerm(contender, begin.term());
            } else if (effect instanceof Candidacy.EndTerm end) {
                endTerm(contender, end.reason());
            } else if (effect instanceof Candidacy.Unlock unlock) {
                unlock(contender, unlock.afterTerm());
            }
        }
        settle(contender);
    }

    private void beginTerm(Contender contender, long term) {
        Long checkedAt = keeper.view().lastCheckAt();
        if (checkedAt == null) {
            throw new IllegalStateException("A term begins without a check");
        }
        Lease lease = new Lease(ticker, checkedAt + options.trustWindow().toNanos());
        Leadership leadership = new Leadership(contender.name, term, Instant.now(), lease);
        contender.termStartedAt = ticker.nanos();
        contender.leadership = leadership;
        contender.publish();
        contender.dispatcher.elected(leadership);
        contender.completeElected(leadership);
        contender.observe(observer -> observer.elected(leadership));
        announceLeadership(contender);
        LOG.info("[{}] Elected, term {}, {}", contender.name, term, keeper.requireSession());
    }

    private void endTerm(Contender contender, RevocationReason reason) {
        Leadership leadership = Objects.requireNonNull(contender.leadership, "a term ends that never began");
        leadership.lease().revoke();
        contender.leadership = null;
        contender.lastRevocation = reason;
        contender.knownLeader = null;
        contender.publish();
        Duration lasted = contender.termAge(ticker.nanos());
        contender.completeRevoked(leadership, reason);
        contender.dispatcher.revoked(leadership, reason);
        contender.observe(observer -> observer.revoked(leadership, reason, lasted));
        LOG.info(
                "[{}] Revoked, term {}, {}, after {} ms", contender.name, leadership.term(), reason, lasted.toMillis());
    }

    private void unlock(Contender contender, boolean afterTerm) {
        contender.publish();
        if (keeper.session() == null) {
            return;
        }
        // What this instance meant to say of its leadership is no longer true.
        announcements.removeIf(
                notice -> notice instanceof Notice.Elected && notice.key().equals(contender.key));
        Notice farewell = afterTerm ? new Notice.Released(contender.key) : new Notice.Freed(contender.key);
        unlocking.put(contender.key, farewell.toString());
    }

    /** Tells those who wait for the contender to hold no lock or to be gone; if it's about to be unlocked, then later. */
    private void settle(Contender contender) {
        if (unlocking.containsKey(contender.key)) {
            unsettled.add(contender);
            return;
        }
        if (!contender.candidacy.holdsLock()) {
            contender.completeReleased();
        }
        if (contender.candidacy.isClosed() && contenders.remove(contender.key, contender)) {
            leaving.add(contender);
        }
    }

    /** Unlocks what is to be unlocked, all in one statement; before the next check or try. */
    private void release() {
        LockSession holder = keeper.session();
        if (unlocking.isEmpty() || holder == null) {
            return;
        }
        try {
            holder.release(unlocking);
        } catch (LockSessionException e) {
            if (e.fault() != Fault.LOCK_TABLE_FULL) {
                loseSession(e);
                return;
            }
            // There was no room to tell of it; whether they are unlocked, the next check shows.
            nextCheckAt = ticker.nanos();
        }
        settleUnlocked();
    }

    private void settleUnlocked() {
        unlocking.clear();
        List<Contender> settled = List.copyOf(unsettled);
        unsettled.clear();
        settled.forEach(this::settle);
    }

    private void seeOff() {
        for (Contender contender : leaving) {
            LOG.info("[{}] Closed", contender.name);
            contender.completeLeft();
        }
        leaving.clear();
    }

    private void loseSession(LockSessionException e) {
        RevocationReason reason = switch (e.fault()) {
            case TIMEOUT -> RevocationReason.CHECK_TIMEOUT;
            case STANDBY, READ_ONLY -> RevocationReason.NOT_WRITABLE;
            case LOCK_LOST, LOCKS_NOT_REAL, SHARED_BACKEND, LEASE_NOT_ENFORCED -> RevocationReason.LOCK_LOST;
            default -> RevocationReason.SESSION_LOST;
        };
        loseSession(reason, e.fault(), String.valueOf(e.getMessage()), e);
    }

    private void loseSession(RevocationReason reason, Fault fault, String message) {
        loseSession(reason, fault, message, null);
    }

    /** Gives the session up, on the slightest doubt, and all that it held. */
    private void loseSession(RevocationReason reason, Fault fault, String message, @Nullable Throwable cause) {
        LockSession lost = keeper.giveUp();
        announcements.clear();
        // First nobody trusts the session any more, then it ends: the server may give the locks away from there on.
        for (Contender contender : List.copyOf(contenders.values())) {
            contender.knownLeader = null;
            apply(contender, new Candidacy.LockLost(reason));
            contender.publish();
        }
        keeper.end(lost, fault, message, cause);
        settleUnlocked();
    }

    // ---- what the sessions tell each other

    private void announceLeadership(Contender contender) {
        Leadership leadership = contender.leadership;
        LockSession holder = keeper.session();
        if (leadership != null && holder != null) {
            LeaderInfo self = new LeaderInfo(instanceId, holder.facts().backendPid(), Optional.of(leadership.since()));
            announcements.add(new Notice.Elected(contender.key, self));
            learnLeader(contender, self);
        }
    }

    private void askWhoLeads(Contender contender) {
        if (!contender.askedWhoLeads && contender.knownLeader == null) {
            contender.askedWhoLeads = true;
            announcements.add(new Notice.WhoLeads(contender.key));
        }
    }

    private void announce() {
        LockSession current = keeper.session();
        if (current == null || announcements.isEmpty()) {
            return;
        }
        List<String> now = announcements.stream().map(Notice::toString).toList();
        try {
            current.announce(now);
            announcements.clear();
        } catch (LockSessionException e) {
            if (e.fault() != Fault.LOCK_TABLE_FULL) {
                loseSession(e);
            }
        }
    }

    /** Has the instance that leads asked to resign; returns false if there is no session to say so. */
    boolean requestResignation(Contender contender) {
        announcements.add(new Notice.ResignRequest(contender.key));
        return keeper.session() != null;
    }

    /** Has the next turn check the session, and then tells whether it proved itself. */
    void verify(Consumer<Boolean> verification) {
        verifications.add(verification);
    }

    private void failVerifications() {
        verifications.forEach(verification -> verification.accept(false));
        verifications.clear();
    }

    /** Asks the database who holds the lock of a contender. */
    Optional<LeaderInfo> findLeader(Contender contender) throws LockSessionException {
        LockSession current = keeper.session();
        if (current == null) {
            Outage outage = keeper.view().outage();
            throw outage == null
                    ? new LockSessionException(Fault.UNREACHABLE, "There is no session yet")
                    : new LockSessionException(outage.fault(), outage.message());
        }
        try {
            return current.findHolder(contender.key).map(holder -> {
                LeaderInfo known = contender.knownLeader;
                return known != null && known.backendPid() == holder.backendPid()
                        ? known
                        : new LeaderInfo(holder.instanceId(), holder.backendPid(), Optional.empty());
            });
        } catch (LockSessionException e) {
            loseSession(e);
            throw e;
        }
    }

    // ---- time

    private boolean isDue(long at) {
        return ticker.nanos() - at >= 0;
    }

    private long waitNanos() {
        long now = ticker.nanos();
        long lockDueAt = nextCheckAt - nextPollAt < 0 ? nextCheckAt : nextPollAt;
        long sessionDueAt = keeper.session() == null ? keeper.nextOpenAt() : lockDueAt;
        return Math.max(Math.min(untilContenderIsDueNanos(now), sessionDueAt - now), 0);
    }

    /** For how long nothing is due for any contender by time alone. */
    private long untilContenderIsDueNanos(long now) {
        long wait = LONGEST_WAIT_NANOS;
        for (Contender contender : contenders.values()) {
            Long dueAt = contender.candidacy.dueAt();
            if (dueAt != null && dueAt - now > 0) {
                wait = Math.min(wait, dueAt - now);
            }
            if (contender.candidacy.leads()) {
                wait = Math.min(wait, contender.standing.lease().remainingNanos());
            }
        }
        return wait;
    }

    private long jittered(Duration interval) {
        double factor = 1 + options.retryJitter() * (2 * random.nextDouble() - 1);
        return (long) (interval.toNanos() * factor);
    }

    private void forEachContender(Consumer<Contender> action) {
        contenders.values().forEach(action);
    }

    private void tellObservers(Consumer<ElectionObserver> event) {
        forEachContender(contender -> contender.observe(event));
    }
}
