package dev.pgleader;

import java.util.concurrent.CompletableFuture;

/** One run of an elector, from its start to the end of its last term. */
final class CandidateRun {

    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private volatile boolean stopping;

    /** From now on no term begins in this run. For any thread. */
    void stop() {
        stopping = true;
    }

    /** Whether it's asked to end: then it never leads again. */
    boolean isStopping() {
        return stopping;
    }

    /** Completed when it takes no part in the election any more and holds no lock. */
    CompletableFuture<Void> ended() {
        return ended;
    }

    static CandidateRun over() {
        CandidateRun run = new CandidateRun();
        run.stopping = true;
        run.ended.complete(null);
        return run;
    }
}
