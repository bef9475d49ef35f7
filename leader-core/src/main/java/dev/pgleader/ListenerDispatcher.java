package dev.pgleader;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/**
 * Calls the listeners of one elector, as {@link LeadershipListener} promises. Its state belongs to the tasks of its queue,
 * which run one at a time; its methods may be called from any thread.
 */
final class ListenerDispatcher {

    /** Hears of what came of the callbacks, on the thread that ran them. */
    interface Outcome {

        /** All listeners have taken up the term. */
        void started(long term);

        /** A listener couldn't take up the term. */
        void startFailed(long term, Throwable failure);

        /** All listeners that took up the term have given it up. */
        void drained(long term);

        /** A listener threw when it was to give the term up. */
        void revokeFailed(long term, Throwable failure);
    }

    private static final Log LOG = Log.of(ListenerDispatcher.class);

    private static final class Registered {
        final LeadershipListener listener;

        @Nullable
        Leadership told;

        Registered(LeadershipListener listener) {
            this.listener = listener;
        }
    }

    private final String electorName;
    private final CallbackQueue queue;
    private final Outcome outcome;
    private final List<Registered> registered = new ArrayList<>();
    private @Nullable Leadership current;

    ListenerDispatcher(String electorName, Executor executor, Outcome outcome) {
        this.electorName = electorName;
        this.queue = new CallbackQueue(executor, "pg-leader-" + electorName + "-callback");
        this.outcome = outcome;
    }

    boolean isInCallback() {
        return queue.isCurrentThread();
    }

    /** Whether a callback has called {@link System#exit}, and so never returns. */
    boolean isExiting() {
        Thread running = queue.runningThread();
        return running != null && JvmExit.isCalledBy(running);
    }

    /** Hands over callbacks that no thread could be had for. Returns false if there still is none. */
    boolean retry() {
        return queue.retry();
    }

    /** Adds a listener; the returned action removes it again. */
    Runnable add(LeadershipListener listener) {
        Registered added = new Registered(listener);
        queue.execute(() -> {
            registered.add(added);
            if (current != null) {
                tellElected(added, current);
            }
        });
        return () -> queue.execute(() -> {
            if (registered.remove(added)) {
                tellRevoked(added, RevocationReason.LISTENER_REMOVED);
            }
        });
    }

    void elected(Leadership leadership) {
        queue.execute(() -> {
            current = leadership;
            try {
                if (tellElected(leadership)) {
                    outcome.started(leadership.term());
                }
            } catch (Throwable e) {
                // Such as a lack of memory: somebody may not have heard of the term, so it can't go on.
                outcome.startFailed(leadership.term(), e);
            }
        });
    }

    /** Returns false if a listener failed; the others then hear nothing. */
    private boolean tellElected(Leadership leadership) {
        for (Registered each : registered) {
            if (!tellElected(each, leadership)) {
                return false;
            }
        }
        return true;
    }

    /** Tells the listeners that took up the term, in reverse order. */
    void revoked(Leadership leadership, RevocationReason reason) {
        queue.execute(() -> {
            current = null;
            for (int i = registered.size() - 1; i >= 0; i--) {
                tellRevoked(registered.get(i), reason);
            }
            outcome.drained(leadership.term());
        });
    }

    /** Returns false if the listener failed. */
    private boolean tellElected(Registered to, Leadership leadership) {
        if (!leadership.isValid()) {
            return true;
        }
        to.told = leadership;
        try {
            to.listener.onElected(leadership);
            return true;
        } catch (Throwable e) {
            outcome.startFailed(leadership.term(), e);
            LOG.error("[{}] onElected of {} failed in term {}", electorName, to.listener, leadership.term(), e);
            return false;
        }
    }

    private void tellRevoked(Registered to, RevocationReason reason) {
        Leadership told = to.told;
        if (told == null) {
            return;
        }
        to.told = null;
        try {
            to.listener.onRevoked(told, reason);
        } catch (Throwable e) {
            report(to, told, e);
        }
    }

    /** Throws nothing, so that the next listener is told, too. */
    private void report(Registered failed, Leadership told, Throwable failure) {
        try {
            LOG.error("[{}] onRevoked of {} failed in term {}", electorName, failed.listener, told.term(), failure);
            outcome.revokeFailed(told.term(), failure);
        } catch (Throwable e) {
            // There is no memory left to tell it.
        }
    }
}
