package dev.pgleader.example.lab.supervisor;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Function;

/** The one thread that knows the {@link Lab}. Others tell it what happened, and when; it never waits. Thread-safe. */
final class LabThread implements AutoCloseable {

    /** Something for the lab to know, and when it happened. */
    interface News {
        void tell(Lab lab, long atMillis);
    }

    private final LabClock clock = new LabClock();
    private final Lab lab; // for the thread only
    private final ExecutorService thread = Executors.newSingleThreadExecutor(work -> {
        Thread created = new Thread(work, "lab");
        created.setDaemon(true);
        return created;
    });

    LabThread(Lab lab) {
        this.lab = lab;
    }

    /** The time of the log. */
    long millis() {
        return clock.millis();
    }

    /** It happens now. */
    void tell(News news) {
        tell(clock.millis(), news);
    }

    void tell(long atMillis, News news) {
        try {
            thread.execute(() -> news.tell(lab, atMillis));
        } catch (RejectedExecutionException e) {
            // The lab is closed: nobody wants to know any more.
        }
    }

    /** Waits for the answer, which knows all that was told before. */
    <T> T ask(Function<Lab, T> question) {
        try {
            return thread.submit(() -> question.apply(lab)).get();
        } catch (ExecutionException | RejectedExecutionException e) {
            throw new LabFailure("The lab can't be asked: it is closed", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LabRefusal("Interrupted while asking the lab");
        }
    }

    @Override
    public void close() {
        thread.shutdown();
    }
}
