package dev.pgleader;

import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What came of the callbacks of one candidate: written by the threads that run them, read by the election thread in each turn.
 * To report needs no memory, so no report is lost when there is none.
 */
final class CallbackReports implements ListenerDispatcher.Outcome {

    private final Consumer<Throwable> onFailure;
    private final Runnable onReport;
    private volatile long takenUpTerm;
    private volatile long failedTerm;
    private volatile long drainedTerm;

    /**
     * Reports of no term yet.
     *
     * @param onFailure hears what callbacks threw
     * @param onReport wakes the election thread
     */
    CallbackReports(Consumer<Throwable> onFailure, Runnable onReport) {
        this.onFailure = onFailure;
        this.onReport = onReport;
    }

    @Override
    public void started(long term) {
        takenUpTerm = term;
        onReport.run();
    }

    @Override
    public void startFailed(long term, Throwable failure) {
        failedTerm = term;
        onReport.run();
        count(failure);
    }

    @Override
    public void drained(long term) {
        drainedTerm = term;
        onReport.run();
    }

    @Override
    public void revokeFailed(long term, Throwable failure) {
        count(failure);
    }

    /** What is reported must not fail for want of memory to count it. */
    private void count(Throwable failure) {
        try {
            onFailure.accept(failure);
        } catch (Throwable e) {
            // A failure that isn't counted is still in the log.
        }
    }

    /** Whether all callbacks of the term have returned, or never will. */
    boolean isDrained(long term) {
        return drainedTerm >= term;
    }

    /** The signal for the state machine that the reports amount to; null if there's none. */
    CandidateState.@Nullable Signal signal(CandidateState state, boolean provedItself) {
        long term = state.terms();
        if (state.leads() && failedTerm == term) {
            return new CandidateState.StartFailed(term);
        } else if (state.isEndingTerm() && isDrained(term)) {
            return new CandidateState.Drained(term);
        } else if (state.leads() && state.failedStarts() > 0 && takenUpTerm == term && provedItself) {
            return new CandidateState.Started(term);
        }
        return null;
    }
}
