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

    private enum State {
        IDLE,
        WAITING,
        BROKEN_OFF
    }

    private final AtomicReference<State> state = new AtomicReference<>(State.IDLE);
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
    Outcome await(LockSession session, LockKey key, Duration slice, boolean mayBreakOff, Mailbox calledOff)
            throws LockSessionException, LockTableFullException {
        state.set(mayBreakOff ? State.WAITING : State.IDLE);
        try {
            if (calledOff.isCalling()) {
                return end(false) == Outcome.BROKEN_OFF ? Outcome.BROKEN_OFF : Outcome.CALLED_OFF;
            }
            lastWaitedFor = key;
            return end(session.waitInQueue(key, slice));
        } catch (LockSessionException e) {
            if (end(false) == Outcome.BROKEN_OFF) {
                return Outcome.BROKEN_OFF;
            }
            throw e;
        } finally {
            state.set(State.IDLE);
        }
    }

    private Outcome end(boolean granted) {
        if (state.getAndSet(State.IDLE) == State.BROKEN_OFF) {
            return Outcome.BROKEN_OFF;
        }
        return granted ? Outcome.GRANTED : Outcome.NOT_GRANTED;
    }

    /** Ends a wait, if there is one that may be ended, and with it the session. For any thread. */
    void breakOff(@Nullable LockSession session) {
        if (session != null && state.compareAndSet(State.WAITING, State.BROKEN_OFF)) {
            session.abort();
        }
    }
}
