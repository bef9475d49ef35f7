package dev.pgleader;

import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/** Runs {@link LeaderWork} on a thread of its own in each term, and lets a term end only when that thread has. */
final class WorkWhileLeader implements LeadershipListener {

    private static final Log LOG = Log.of(WorkWhileLeader.class);
    private static final long LOOK_FOR_EXIT_MILLIS = 200;

    private final String electorName;
    private final LeaderWork work;
    private final CallsInFlight calls;
    private final BiConsumer<Leadership, Throwable> onFailure;
    private @Nullable Run current;

    WorkWhileLeader(
            String electorName, LeaderWork work, CallsInFlight calls, BiConsumer<Leadership, Throwable> onFailure) {
        this.electorName = electorName;
        this.work = work;
        this.calls = calls;
        this.onFailure = onFailure;
    }

    /** The work of one term, which is interrupted once, so that it can clean up in peace. */
    private final class Run {
        private final Leadership leadership;
        private final Thread thread;
        private final AtomicBoolean ended = new AtomicBoolean();

        Run(Leadership leadership) {
            this.leadership = leadership;
            this.thread =
                    CallbackThreads.daemon(this::doWork, "pg-leader-" + electorName + "-work-" + leadership.term());
        }

        void end() {
            if (ended.compareAndSet(false, true)) {
                thread.interrupt();
            }
        }

        private void doWork() {
            try {
                Optional<LeaderCall> begun = calls.begin("work " + work, leadership, false);
                if (begun.isPresent()) {
                    try (LeaderCall call = begun.get()) {
                        work.run(call.leadership());
                    }
                }
            } catch (Throwable e) {
                if (leadership.isValid() && !ended.get()) {
                    LOG.error("[{}] Work of term {} failed; stepping down", electorName, leadership.term(), e);
                    onFailure.accept(leadership, e);
                } else {
                    LOG.debug("[{}] Work of term {} ended with an exception", electorName, leadership.term(), e);
                }
            }
        }
    }

    @Override
    public void onElected(Leadership leadership) {
        Run run = new Run(leadership);
        current = run;
        run.thread.start();
        // Other listeners may be slow to hear of the end; the work is told at once.
        var unused = leadership.revoked().thenRun(run::end);
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {
        Run run = current;
        current = null;
        if (run != null) {
            run.end();
            joinUninterruptibly(run.thread);
        }
    }

    /**
     * A pool's interrupt doesn't mean that the work has stopped, and only that ends the term. Work that has called {@link
     * System#exit} has ended, too: it waits for the shutdown hooks, one of which may wait here.
     */
    private static void joinUninterruptibly(Thread running) {
        boolean interrupted = false;
        while (running.isAlive() && !JvmExit.isCalledBy(running)) {
            try {
                running.join(LOOK_FOR_EXIT_MILLIS);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public String toString() {
        return "work " + work;
    }
}
