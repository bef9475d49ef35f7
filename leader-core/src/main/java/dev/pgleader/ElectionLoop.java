package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.EnumSet;
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
    private static final long OUTAGE_REMINDER_NANOS = Duration.ofMinutes(5).toNanos();
    private static final Duration PAUSE_AFTER_DEFECT = Duration.ofSeconds(1);

    /** Opens a session, or throws. */
    @FunctionalInterface
    interface SessionOpener {
        LockSession open() throws LockSessionException;
    }

    /** What is outside of an election: time, chance and the database. */
    record Surroundings(SessionOpener sessions, Ticker ticker, RandomGenerator random, Backoff backoff) {}

    /** What all contenders share; for their status. */
    record SessionView(
            LockSession.@Nullable Facts facts,
            @Nullable Long lastCheckAt,
            @Nullable Outage outage) {}

    /** Why there is no session, or none that can be trusted. */
    record Outage(Fault fault, String message, long since) {}

    private final String name;
    private final String instanceId;
    private final ElectorOptions options;
    private final Candidacy.Times times;
    private final SessionOpener sessions;
    private final Ticker ticker;
    private final RandomGenerator random;
    private final Backoff backoff;

    private final Queue<Runnable> commands = new ConcurrentLinkedQueue<>();
    /** Whether somebody has woken the election thread since it last looked for commands. */
    private final AtomicBoolean woken = new AtomicBoolean();

    private final Object lifecycle = new Object();
    private volatile @Nullable Thread thread;
    private volatile @Nullable LockSession session;
    private volatile SessionView view = new SessionView(null, null, null);
    private volatile @Nullable Long lastAttemptAt;

    // Of the election thread.
    private final Map<LockKey, Contender> contenders = new LinkedHashMap<>();
    private final List<Contender> leaving = new ArrayList<>();
    private final Set<Notice> announcements = new LinkedHashSet<>();
    private final List<Consumer<Boolean>> verifications = new ArrayList<>();
    private long nextOpenAt;
    private long nextPollAt;
    private long nextCheckAt;
    private long sessionOpenedAt;
    private long takeoverSafeAt;
    private int lastTimeline;
    private long nextOutageReminderAt;
    private final Set<Fault> faultsOfOutage = EnumSet.noneOf(Fault.class);

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
        this.sessions = surroundings.sessions();
        this.ticker = surroundings.ticker();
        this.random = surroundings.random();
        this.backoff = surroundings.backoff();
        this.nextOpenAt = ticker.nanos();
        this.nextPollAt = nextOpenAt;
        this.takeoverSafeAt = nextOpenAt;
    }

    // ---- for other threads

    /** Has the command run on the election thread. */
    void post(Runnable command) {
        commands.add(command);
        if (!woken.compareAndSet(false, true)) {
            return;
        }
        LockSession current = session;
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

    SessionView view() {
        return view;
    }

    @Nullable
    Long lastAttemptAt() {
        return lastAttemptAt;
    }

    /** Breaks off whatever the election thread waits for. */
    void breakOff() {
        LockSession current = session;
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
        nextOpenAt = ticker.nanos() + PAUSE_AFTER_DEFECT.toNanos();
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
        if (session == null && !contenders.isEmpty() && isDue(nextOpenAt)) {
            openSession();
        }
        if (session != null && (isDue(nextCheckAt) || !verifications.isEmpty())) {
            check(Set.of());
        }
        if (session != null && isDue(nextPollAt)) {
            poll();
        }
        passTime();
        announce();
        failVerifications();
        if (contenders.isEmpty()) {
            closeSession();
        }
        seeOff();
        return waitNanos();
    }

    /** Waits until the time is over or there is something to do. */
    void await(long waitNanos) {
        LockSession current = session;
        if (current == null) {
            LockSupport.parkNanos(this, waitNanos);
            return;
        }
        try {
            receive(current.await(waitNanos));
        } catch (LockSessionException e) {
            loseSession(e);
        }
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
    }

    private void receive(Contender contender, Notice notice) {
        if (notice instanceof Notice.Released || notice instanceof Notice.Freed) {
            boolean wanted = contender.candidacy.wantsLock(ticker.nanos());
            // Who doesn't compete now may miss the next leader, whom this release doesn't vouch for.
            contender.releasedInOrder = wanted && notice instanceof Notice.Released;
            contender.knownLeader = null;
            if (wanted) {
                nextPollAt = ticker.nanos();
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
        LockSession current = session;
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
    }

    private void openSession() {
        long startedAt = ticker.nanos();
        LockSession opened;
        try {
            opened = sessions.open();
        } catch (LockSessionException e) {
            postponeOpening(e.fault(), String.valueOf(e.getMessage()), e);
            return;
        } catch (RuntimeException e) {
            postponeOpening(Fault.UNREACHABLE, "Opening a session failed: " + e, e);
            return;
        }
        session = opened;
        sessionOpenedAt = ticker.nanos();
        nextPollAt = sessionOpenedAt;
        nextCheckAt = sessionOpenedAt + options.healthCheckInterval().toNanos();
        LockSession.Facts facts = opened.facts();
        long safeAt = takeoverSafeAt(facts);
        takeoverSafeAt = safeAt - takeoverSafeAt > 0 ? safeAt : takeoverSafeAt;
        lastTimeline = facts.timeline() == 0 ? lastTimeline : facts.timeline();
        view = new SessionView(facts, view.lastCheckAt(), view.outage());
        Duration took = Duration.ofNanos(sessionOpenedAt - startedAt);
        forEachContender(contender -> {
            contender.askedWhoLeads = false;
            contender.releasedInOrder = false;
            contender.observe(observer -> observer.sessionOpened(took));
        });
        LOG.debug("[{}] Session open: {}", name, facts);
    }

    private void postponeOpening(Fault fault, String message, Exception cause) {
        nextOpenAt = ticker.nanos() + backoff.afterFailure().toNanos();
        reportOutage(fault, message, cause);
    }

    /** From when on a lock that was granted can't be under somebody else's lease any more, as far as AUTO can tell. */
    private long takeoverSafeAt(LockSession.Facts facts) {
        long lease = options.leaseDuration().toNanos();
        long uptime = Math.min(facts.serverUptime().toNanos(), lease);
        boolean promoted = lastTimeline != 0 && facts.timeline() != 0 && facts.timeline() != lastTimeline;
        return promoted ? sessionOpenedAt + lease : sessionOpenedAt + lease - uptime;
    }

    /** The server answered as it should: whatever was wrong before is over. */
    private void sessionProved(LockSession proved, @Nullable Long checkedAt) {
        Outage outage = view.outage();
        long now = ticker.nanos();
        if (outage != null) {
            LOG.info(
                    "[{}] Session back after {} ms, {}",
                    name,
                    Duration.ofNanos(now - outage.since()).toMillis(),
                    proved);
        }
        view = new SessionView(proved.facts(), checkedAt, null);
        if (now - sessionOpenedAt >= options.healthCheckInterval().toNanos()) {
            backoff.reset();
        }
    }

    /** Proves the session and renews the leases; {@code granted} are the keys that it got since the last time. */
    private boolean check(Set<LockKey> granted) {
        LockSession checked = requireSession();
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
        sessionProved(checked, startedAt);
        forEachContender(
                contender -> contender.observe(observer -> observer.checked(Duration.ofNanos(now - startedAt))));
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
        Map<LockKey, Contender> wanted = new LinkedHashMap<>();
        forEachContender(contender -> {
            if (contender.campaigns(now, this::post, () -> nextPollAt = ticker.nanos())) {
                wanted.put(contender.key, contender);
            }
        });
        nextPollAt = now + jittered(options.retryInterval());
        if (wanted.isEmpty()) {
            return;
        }
        lastAttemptAt = now;
        Set<LockKey> granted;
        try {
            granted = requireSession().tryLock(wanted.keySet());
        } catch (LockSessionException e) {
            loseSession(e);
            return;
        }
        Duration took = Duration.ofNanos(ticker.nanos() - now);
        wanted.values().forEach(contender -> {
            boolean won = granted.contains(contender.key);
            contender.observe(observer -> observer.attempted(won, took));
            if (!won) {
                contender.releasedInOrder = false;
                askWhoLeads(contender);
            }
        });
        if (granted.isEmpty()) {
            sessionProved(requireSession(), view.lastCheckAt());
            // A try shows that the session lives, so a candidate that polls needs no check beside it.
            if (contenders.values().stream().noneMatch(contender -> contender.candidacy.holdsLock())) {
                nextCheckAt = now + options.healthCheckInterval().toNanos();
            }
            return;
        }
        if (check(granted)) {
            granted.forEach(key -> takeLock(contenders.get(key)));
        }
    }

    private void takeLock(@Nullable Contender contender) {
        if (contender == null) {
            throw new IllegalStateException("The server granted a key that nobody wanted");
        }
        long now = ticker.nanos();
        Duration fixed = options.takeoverDelay().fixed();
        long safeAt = fixed == null ? takeoverSafeAt : now + fixed.toNanos();
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
        Long checkedAt = view.lastCheckAt();
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
        LOG.info("[{}] Elected, term {}, {}", contender.name, term, requireSession());
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
        LockSession holder = session;
        if (holder == null) {
            return;
        }
        // What this instance meant to say of its leadership is no longer true.
        announcements.removeIf(
                notice -> notice instanceof Notice.Elected && notice.key().equals(contender.key));
        Notice farewell = afterTerm ? new Notice.Released(contender.key) : new Notice.Freed(contender.key);
        try {
            holder.release(contender.key, farewell.toString());
        } catch (LockSessionException e) {
            loseSession(e);
        }
    }

    /** Tells those who wait for the contender to hold no lock or to be gone. */
    private void settle(Contender contender) {
        if (!contender.candidacy.holdsLock()) {
            contender.completeReleased();
        }
        if (contender.candidacy.isClosed() && contenders.remove(contender.key, contender)) {
            leaving.add(contender);
        }
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
        LockSession lost = session;
        session = null;
        long now = ticker.nanos();
        boolean wasShort = now - sessionOpenedAt < options.healthCheckInterval().toNanos();
        nextOpenAt = wasShort ? now + backoff.afterFailure().toNanos() : now;
        announcements.clear();
        // First nobody trusts the session any more, then it ends: the server may give the locks away from there on.
        for (Contender contender : List.copyOf(contenders.values())) {
            contender.knownLeader = null;
            apply(contender, new Candidacy.LockLost(reason));
            contender.publish();
        }
        if (lost != null) {
            try {
                lost.abort();
            } catch (RuntimeException e) {
                LOG.warn("[{}] Aborting {} failed", name, lost, e);
            }
        }
        reportOutage(fault, message, cause);
    }

    private void closeSession() {
        LockSession idle = session;
        if (idle != null) {
            session = null;
            idle.close();
            view = new SessionView(null, view.lastCheckAt(), null);
        }
        nextOpenAt = ticker.nanos();
        backoff.reset();
    }

    private void reportOutage(Fault fault, String message, @Nullable Throwable cause) {
        Outage known = view.outage();
        long now = ticker.nanos();
        if (known == null) {
            faultsOfOutage.clear();
        }
        if (faultsOfOutage.add(fault) || isDue(nextOutageReminderAt)) {
            LOG.warn(
                    "[{}] No trustworthy session{}: {}: {}",
                    name,
                    known == null
                            ? ""
                            : " for " + Duration.ofNanos(now - known.since()).toSeconds() + " s",
                    fault,
                    message);
            LOG.debug("[{}] The cause", name, cause);
            nextOutageReminderAt = now + OUTAGE_REMINDER_NANOS;
        }
        view = new SessionView(
                null, view.lastCheckAt(), new Outage(fault, message, known == null ? now : known.since()));
        forEachContender(contender -> contender.observe(observer -> observer.sessionFailed(fault, message)));
    }

    // ---- what the sessions tell each other

    private void announceLeadership(Contender contender) {
        Leadership leadership = contender.leadership;
        LockSession holder = session;
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
        LockSession current = session;
        if (current == null || announcements.isEmpty()) {
            return;
        }
        List<String> now = announcements.stream().map(Notice::toString).toList();
        announcements.clear();
        try {
            current.announce(now);
        } catch (LockSessionException e) {
            loseSession(e);
        }
    }

    /** Has the instance that leads asked to resign; returns false if there is no session to say so. */
    boolean requestResignation(Contender contender) {
        announcements.add(new Notice.ResignRequest(contender.key));
        return session != null;
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
        LockSession current = session;
        if (current == null) {
            Outage outage = view.outage();
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
        long wait = LONGEST_WAIT_NANOS;
        if (session == null) {
            wait = Math.min(wait, nextOpenAt - now);
        } else {
            wait = Math.min(wait, Math.min(nextCheckAt - now, nextPollAt - now));
        }
        for (Contender contender : contenders.values()) {
            Long dueAt = contender.candidacy.dueAt();
            if (dueAt != null && dueAt - now > 0) {
                wait = Math.min(wait, dueAt - now);
            }
            if (contender.candidacy.leads()) {
                wait = Math.min(wait, contender.standing.lease().remainingNanos());
            }
        }
        return Math.max(wait, 0);
    }

    private long jittered(Duration interval) {
        double factor = 1 + options.retryJitter() * (2 * random.nextDouble() - 1);
        return (long) (interval.toNanos() * factor);
    }

    private void forEachContender(Consumer<Contender> action) {
        contenders.values().forEach(action);
    }

    private LockSession requireSession() {
        LockSession current = session;
        if (current == null) {
            throw new IllegalStateException("There is no session");
        }
        return current;
    }
}
