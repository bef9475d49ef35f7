package dev.pgleader;

import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the one session of an election: opens it, with a delay after each failure, notes what it has proved, and gives it up.
 * Used by the election thread; {@link #session()} and {@link #view()} may be called from any.
 */
final class SessionKeeper {

    private static final Logger LOG = LoggerFactory.getLogger(SessionKeeper.class);
    private static final long REMINDER_NANOS = Duration.ofMinutes(5).toNanos();

    /** Opens a session, or throws. */
    @FunctionalInterface
    interface Opener {
        LockSession open() throws LockSessionException;
    }

    /** What is known of the session; for the status. */
    record View(
            LockSession.@Nullable Facts facts,
            @Nullable Long lastCheckAt,
            @Nullable Outage outage) {}

    private final String name;
    private final ElectorOptions options;
    private final Opener opener;
    private final Ticker ticker;
    private final Backoff backoff;
    private final Consumer<Consumer<ElectionObserver>> observers;

    private volatile @Nullable LockSession session;
    private volatile View view = new View(null, null, null);

    private long nextOpenAt;
    private long openedAt;
    private long takeoverSafeAt;
    private LockSession.@Nullable ServerRun lastRun;
    private long nextReminderAt;
    private final Set<Fault> reported = EnumSet.noneOf(Fault.class);

    /**
     * A keeper without a session.
     *
     * @param observers tells all observers of the election
     */
    SessionKeeper(
            String name,
            ElectorOptions options,
            Opener opener,
            Ticker ticker,
            Backoff backoff,
            Consumer<Consumer<ElectionObserver>> observers) {
        this.name = name;
        this.options = options;
        this.opener = opener;
        this.ticker = ticker;
        this.backoff = backoff;
        this.observers = observers;
        this.nextOpenAt = ticker.nanos();
        this.takeoverSafeAt = nextOpenAt;
    }

    /** The session; null while there is none. */
    @Nullable
    LockSession session() {
        return session;
    }

    LockSession requireSession() {
        LockSession current = session;
        if (current == null) {
            throw new IllegalStateException("There is no session");
        }
        return current;
    }

    View view() {
        return view;
    }

    /** When to open a session, if there is none. */
    long nextOpenAt() {
        return nextOpenAt;
    }

    /** When the session was opened. */
    long openedAt() {
        return openedAt;
    }

    /** From when on a lock that was granted can't be under somebody else's lease any more, as far as AUTO can tell. */
    long takeoverSafeAt() {
        return takeoverSafeAt;
    }

    /** Opens a session; if that fails, there is none, and the next attempt is due later. */
    void open() {
        long startedAt = ticker.nanos();
        LockSession opened;
        try {
            opened = opener.open();
        } catch (LockSessionException e) {
            failedToOpen(e.fault(), String.valueOf(e.getMessage()), e);
            return;
        } catch (RuntimeException e) {
            failedToOpen(Fault.UNREACHABLE, "Opening a session failed: " + e, e);
            return;
        }
        session = opened;
        openedAt = ticker.nanos();
        LockSession.Facts facts = opened.facts();
        long safeAt = takeoverSafeAt(facts);
        takeoverSafeAt = safeAt - takeoverSafeAt > 0 ? safeAt : takeoverSafeAt;
        lastRun = lastRun == null ? facts.server() : facts.server().knowing(lastRun);
        view = new View(facts, view.lastCheckAt(), view.outage());
        Duration took = Duration.ofNanos(openedAt - startedAt);
        observers.accept(observer -> observer.sessionOpened(took));
        LOG.debug("[{}] Session open: {}", name, facts);
    }

    private void failedToOpen(Fault fault, String message, Exception cause) {
        nextOpenAt = ticker.nanos() + backoff.afterFailure().toNanos();
        report(fault, message, cause);
    }

    private long takeoverSafeAt(LockSession.Facts facts) {
        long lease = options.leaseDuration().toNanos();
        boolean forgot = lastRun != null && facts.server().isAnotherThan(lastRun);
        long uptime = Math.max(0, Math.min(facts.serverUptime().toNanos(), lease));
        return forgot ? openedAt + lease : openedAt + lease - uptime;
    }

    /** The server answered as it should: whatever was wrong before is over. */
    void proved() {
        proved(view.lastCheckAt());
    }

    /** A check that began then has proved the session. */
    void proved(@Nullable Long checkedAt) {
        LockSession current = requireSession();
        Outage outage = view.outage();
        long now = ticker.nanos();
        if (outage != null) {
            long lasted = Duration.ofNanos(now - outage.since()).toMillis();
            LOG.info("[{}] Session back after {} ms, {}", name, lasted, current);
        }
        view = new View(current.facts(), checkedAt, null);
        if (now - openedAt >= options.healthCheckInterval().toNanos()) {
            backoff.reset();
        }
    }

    /** Takes the session out of use; whoever gets it {@linkplain #end ends} it. */
    @Nullable
    LockSession giveUp() {
        LockSession lost = session;
        session = null;
        long now = ticker.nanos();
        boolean wasShort = now - openedAt < options.healthCheckInterval().toNanos();
        nextOpenAt = wasShort ? now + backoff.afterFailure().toNanos() : now;
        return lost;
    }

    /** Aborts a session that was given up, and tells why. */
    void end(@Nullable LockSession lost, Fault fault, String message, @Nullable Throwable cause) {
        if (lost != null) {
            try {
                lost.abort();
            } catch (RuntimeException e) {
                LOG.warn("[{}] Aborting {} failed", name, lost, e);
            }
        }
        report(fault, message, cause);
    }

    /** Closes the session, if there is one, since nobody needs it. */
    void close() {
        LockSession idle = session;
        if (idle != null) {
            session = null;
            idle.close();
            view = new View(null, view.lastCheckAt(), null);
        }
        nextOpenAt = ticker.nanos();
        backoff.reset();
    }

    /** Opens no session before that time is over. */
    void postponeOpening(Duration delay) {
        nextOpenAt = ticker.nanos() + delay.toNanos();
    }

    /** An outage is one line at its start, one for each new kind of fault, and now and then a reminder. */
    private void report(Fault fault, String message, @Nullable Throwable cause) {
        Outage known = view.outage();
        long now = ticker.nanos();
        if (known == null) {
            reported.clear();
        }
        if (reported.add(fault) || now - nextReminderAt >= 0) {
            String lasting = known == null
                    ? ""
                    : " for " + Duration.ofNanos(now - known.since()).toSeconds() + " s";
            LOG.warn("[{}] No trustworthy session{}: {}: {}", name, lasting, fault, message);
            LOG.debug("[{}] The cause", name, cause);
            nextReminderAt = now + REMINDER_NANOS;
        }
        view = new View(null, view.lastCheckAt(), new Outage(fault, message, known == null ? now : known.since()));
        observers.accept(observer -> observer.sessionFailed(fault, message));
    }
}
