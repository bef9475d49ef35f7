package dev.pgleader;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The calls of one elector that run because it leads. A term has ended for this process only when they have: its callbacks count as
 * returned after the last of them. For any thread.
 *
 * <p>No call begins in a term that has ended: a call is counted first, and then looks whether the term is still valid, which it isn't
 * any more when anyone waits here.
 */
final class CallsInFlight implements ListenerDispatcher.Outcome {

    private static final Log LOG = Log.of(CallsInFlight.class);

    /** How often who waits looks for calls that have called {@link System#exit}, which tell nobody. */
    private static final long LOOK_FOR_EXIT_MILLIS = 200;

    private final CallbackReports reports;
    private final Set<LeaderCall> calls = ConcurrentHashMap.newKeySet();
    private final Object oneEnded = new Object();

    /** Calls that have to end before {@code reports} has that a term is drained. */
    CallsInFlight(CallbackReports reports) {
        this.reports = reports;
    }

    /** What came of the callbacks and calls. */
    CallbackReports reports() {
        return reports;
    }

    /** Begins a call in the term; empty if the term is over. */
    Optional<LeaderCall> begin(String name, Leadership leadership, boolean interruptible) {
        LeaderCall call = new LeaderCall(name, leadership, interruptible, this::ended);
        calls.add(call);
        if (!leadership.isValid()) {
            ended(call);
            return Optional.empty();
        }
        return Optional.of(call);
    }

    void ended(LeaderCall call) {
        if (calls.remove(call)) {
            synchronized (oneEnded) {
                oneEnded.notifyAll();
            }
        }
    }

    /** Whether the calling code runs in one of the calls. */
    boolean isCurrentThread() {
        return calls.stream().anyMatch(call -> call.thread() == Thread.currentThread());
    }

    /** The names of those that run. */
    List<String> names() {
        return calls.stream().map(LeaderCall::name).sorted().toList();
    }

    /** The term of those that run has ended. */
    void tellRevoked() {
        for (LeaderCall call : calls) {
            try {
                call.tellRevoked();
            } catch (Throwable e) {
                LOG.warn("The call {} can't be interrupted", call, e);
            }
        }
    }

    @Override
    public void started(long term) {
        reports.started(term);
    }

    @Override
    public void startFailed(long term, Throwable failure) {
        reports.startFailed(term, failure);
    }

    @Override
    public void revokeFailed(long term, Throwable failure) {
        reports.revokeFailed(term, failure);
    }

    @Override
    public void drained(long term) {
        tellRevoked();
        awaitEnd();
        reports.drained(term);
    }

    /**
     * A pool's interrupt doesn't mean that the calls have ended. One that has called {@link System#exit} has: it waits for the shutdown
     * hooks, one of which may wait here.
     */
    private void awaitEnd() {
        boolean interrupted = false;
        synchronized (oneEnded) {
            while (!haveEnded()) {
                try {
                    oneEnded.wait(LOOK_FOR_EXIT_MILLIS);
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private boolean haveEnded() {
        try {
            return calls.stream().allMatch(CallsInFlight::isExiting);
        } catch (Throwable e) {
            // No memory to look closer.
            return calls.isEmpty();
        }
    }

    private static boolean isExiting(LeaderCall call) {
        Thread thread = call.thread();
        return thread != null && JvmExit.isCalledBy(thread);
    }
}
