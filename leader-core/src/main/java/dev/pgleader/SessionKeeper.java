package dev.pgleader;

import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Keeps the one session of an election: opens it, with a delay after each failure, notes what it has proved, and gives it up.
 * Used by the election thread; {@link #session()} and {@link #view()} may be called from any.
 */
final class SessionKeeper {

    private static final Log LOG = Log.of(SessionKeeper.class);

    /** What is known of the session; for the status. */
    record View(
            LockSession.@Nullable Facts facts,
            @Nullable Long lastCheckAt,
            @Nullable Problem problem) {}

    private final String name;
    private final LockSession.Settings settings;
    private final Surroundings surroundings;
    private final ProblemLog problems;
    private final Consumer<Consumer<ElectionObserver>> observers;
    private final long retryNanos;

    private volatile @Nullable LockSession session;
    /** The session that was given up and is still to be aborted, once nobody trusts it. */
    private @Nullable LockSession lost;

    private volatile View view = new View(null, null, null);

    private long lastOpenAt;
    private long nextOpenAt;
    private long openedAt;

    /**
     * A keeper without a session.
     *
     * @param observers tells all observers of the election
     */
    SessionKeeper(
            String name,
            LockSession.Settings settings,
            ElectorOptions options,
            Surroundings surroundings,
            Consumer<Consumer<ElectionObserver>> observers) {
        this.name = name;
        this.settings = settings;
        this.surroundings = surroundings;
        this.observers = observers;
        this.retryNanos = options.retryInterval().toNanos();
        long now = surroundings.ticker().nanos();
        this.problems = new ProblemLog(name);
        this.lastOpenAt = now - retryNanos;
        this.nextOpenAt = now;
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

    /** Ends the session's current wait, or its next one. For any thread. */
    void wake() {
        LockSession current = session;
        if (current != null) {
            current.wake();
        }
    }

    /** Ends the session, whatever it's doing. For any thread. */
    void abort() {
        LockSession current = session;
        if (current != null) {
            current.abort();
        }
    }

    /** That something can't be done for want of a session, and why there is none. */
    LockSessionException noSession(String what) {
        Problem problem = view.problem();
        Fault fault = problem == null || problem.fault() == null ? Fault.UNREACHABLE : problem.fault();
        String why = problem == null ? "there is no session now" : problem.message();
        return new LockSessionException(fault, what + ": " + why);
    }

    /** When to open a session, if there is none. */
    long nextOpenAt() {
        return nextOpenAt;
    }

    boolean isOpeningDue() {
        return surroundings.ticker().nanos() - nextOpenAt >= 0;
    }

    /** Opens a session; if that fails, there is none, and the next attempt is due later. Returns whether there is one. */
    boolean open() {
        long startedAt = surroundings.ticker().nanos();
        lastOpenAt = startedAt;
        LockSession opened;
        try {
            opened = surroundings.sessions().open(settings);
        } catch (LockSessionException e) {
            failedToOpen(e.fault(), String.valueOf(e.getMessage()), e);
            return false;
        } catch (Throwable e) {
            failedToOpen(Fault.UNREACHABLE, "Opening a session failed: " + ProblemLog.describe(e), e);
            return false;
        }
        session = opened;
        openedAt = surroundings.ticker().nanos();
        LockSession.Facts facts = opened.facts();
        view = new View(facts, view.lastCheckAt(), view.problem());
        Duration took = Duration.ofNanos(openedAt - startedAt);
        observers.accept(observer -> observer.sessionOpened(took));
        LOG.debug("[{}] Session open: {}", name, facts);
        return true;
    }

    private void failedToOpen(Fault fault, String message, Throwable cause) {
        nextOpenAt = lastOpenAt + surroundings.backoff().afterFailure(fault).toNanos();
        report(fault, message, cause);
    }

    /** The server answered as it should: whatever was wrong before is over. */
    void proved(long now) {
        LockSession current = requireSession();
        Problem problem = view.problem();
        if (problem != null) {
            long lasted = Duration.ofNanos(now - problem.since()).toMillis();
            LockSession.Facts facts = current.facts();
            LOG.info(
                    "[{}] Session back after {} ms: backend {} of database {} on {}",
                    name,
                    lasted,
                    facts.backendPid(),
                    facts.database(),
                    facts.serverAddress());
        }
        view = new View(current.facts(), view.lastCheckAt(), null);
        if (now - openedAt >= retryNanos) {
            surroundings.backoff().reset();
        }
    }

    /** A check that began then has proved the session. */
    void checked(long startedAt, long now) {
        proved(now);
        view = new View(view.facts(), startedAt, null);
    }

    /** Takes the session out of use, until it's {@linkplain #abortLost aborted}. */
    void giveUp(Fault fault) {
        abortLost();
        lost = session;
        session = null;
        long now = surroundings.ticker().nanos();
        long longEnough = lastOpenAt + retryNanos;
        boolean wasShort = now - openedAt < retryNanos;
        long next = wasShort
                ? lastOpenAt + surroundings.backoff().afterFailure(fault).toNanos()
                : longEnough;
        nextOpenAt = next - now > 0 ? next : now;
    }

    /** Aborts the session that was given up, if it's still there. */
    void abortLost() {
        LockSession aborted = lost;
        if (aborted != null) {
            lost = null;
            abort(aborted);
        }
    }

    private void abort(LockSession aborted) {
        try {
            aborted.abort();
        } catch (Throwable e) {
            LOG.warn("[{}] Aborting {} failed", name, aborted, e);
        }
    }

    /** Closes the session, if there is one, since nobody needs it. */
    void close() {
        LockSession idle = session;
        if (idle != null) {
            session = null;
            try {
                idle.close();
            } catch (Throwable e) {
                LOG.warn("[{}] Closing {} failed", name, idle, e);
                abort(idle);
            }
            view = new View(null, view.lastCheckAt(), null);
        }
        nextOpenAt = surroundings.ticker().nanos();
        surroundings.backoff().reset();
    }

    /** Opens no session before that time is over. */
    void postponeOpening(Duration delay) {
        nextOpenAt = surroundings.ticker().nanos() + delay.toNanos();
    }

    /** Tells what is wrong with the session, or that there is none. */
    void report(Fault fault, String message, @Nullable Throwable cause) {
        Problem known = view.problem();
        long now = surroundings.ticker().nanos();
        problems.report(known, fault, message, cause, now);
        long since = known == null ? now : known.since();
        view = new View(
                null, view.lastCheckAt(), new Problem(LeaderStatus.Problem.Kind.SESSION, fault, message, since));
        observers.accept(observer -> observer.sessionFailed(fault, message));
    }
}
