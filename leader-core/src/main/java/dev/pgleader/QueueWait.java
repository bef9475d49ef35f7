package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockTableFullException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Waits for a key in the server's queue, one slice at a time. The wait can be broken off by another thread, which ends the session;
 * either that thread breaks it off, or the election thread gets the answer, never both. Otherwise of the election thread.
 */
final class QueueWait {

    /** How a slice ended. */
    enum Outcome {
        GRANTED,
        NOT_GRANTED,
        /** It wasn't begun, since there is something else to do. */
        CALLED_OFF,
        /** The session was aborted. */
        BROKEN_OFF
    }

    /** The session of a wait that may be broken off; null if there is none, also once it has been broken off. */
    private final AtomicReference<@Nullable LockSession> waiting = new AtomicReference<>();

    private @Nullable LockKey lastWaitedFor;

    /** The key after the one that was waited for last. */
    LockKey nextInTurn(Collection<LockKey> wanted) {
        List<LockKey> keys = new ArrayList<>(wanted);
        return keys.get((keys.indexOf(lastWaitedFor) + 1) % keys.size());
    }

    /**
     * Waits for one slice.
     *
     * @param mayBreakOff whether {@link #breakOff} may end the wait, since the session holds no lock
     * @param calledOff asked once the wait can be broken off: whether there is something else to do
     */
    Outcome await(LockSession session, LockKey key, Duration slice, boolean mayBreakOff, CommandQueue calledOff)
            throws LockSessionException, LockTableFullException {
        waiting.set(mayBreakOff ? session : null);
        try {
            if (calledOff.isCalling()) {
                return end(mayBreakOff, Outcome.CALLED_OFF);
            }
            lastWaitedFor = key;
            return end(mayBreakOff, session.waitInQueue(key, slice) ? Outcome.GRANTED : Outcome.NOT_GRANTED);
        } catch (LockSessionException e) {
            if (end(mayBreakOff, Outcome.NOT_GRANTED) == Outcome.BROKEN_OFF) {
                return Outcome.BROKEN_OFF;
            }
            throw e;
        } finally {
            waiting.set(null);
        }
    }

    private Outcome end(boolean mayBreakOff, Outcome outcome) {
        return mayBreakOff && waiting.getAndSet(null) == null ? Outcome.BROKEN_OFF : outcome;
    }

    /** Ends a wait, if there is one that may be ended, and with it the session that waits. For any thread. */
    void breakOff() {
        LockSession session = waiting.getAndSet(null);
        if (session != null) {
            session.abort();
        }
    }
}
