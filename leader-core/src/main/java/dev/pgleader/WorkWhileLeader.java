package dev.pgleader;

import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Runs {@link LeaderWork} on a thread of its own in each term, and lets a term end only when that thread has. */
final class WorkWhileLeader implements LeadershipListener {

    private static final Logger LOG = LoggerFactory.getLogger(WorkWhileLeader.class);

    private final String electorName;
    private final LeaderWork work;
    private final BiConsumer<Leadership, Throwable> onFailure;
    private @Nullable Thread thread;

    WorkWhileLeader(String electorName, LeaderWork work, BiConsumer<Leadership, Throwable> onFailure) {
        this.electorName = electorName;
        this.work = work;
        this.onFailure = onFailure;
    }

    @Override
    public void onElected(Leadership leadership) {
        Thread started =
                CallbackQueue.daemon(() -> run(leadership), "pg-leader-" + electorName + "-work-" + leadership.term());
        thread = started;
        started.start();
        // Other listeners may be slow to hear of the end; the work is told at once.
        var unused = leadership.revoked().thenRun(started::interrupt);
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {
        Thread running = thread;
        thread = null;
        if (running != null) {
            running.interrupt();
            joinUninterruptibly(running);
        }
    }

    private void run(Leadership leadership) {
        try {
            work.run(leadership);
        } catch (Throwable e) {
            if (leadership.isValid()) {
                LOG.error("[{}] Work of term {} failed; stepping down", electorName, leadership.term(), e);
                onFailure.accept(leadership, e);
            } else {
                LOG.debug(
                        "[{}] Work of term {} ended with an exception after the term",
                        electorName,
                        leadership.term(),
                        e);
            }
        }
    }

    /** A pool's interrupt doesn't mean that the work has stopped, and only that ends the term. */
    private static void joinUninterruptibly(Thread running) {
        boolean interrupted = false;
        while (running.isAlive()) {
            try {
                running.join();
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
