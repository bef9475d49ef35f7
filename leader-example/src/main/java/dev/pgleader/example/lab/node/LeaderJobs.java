package dev.pgleader.example.lab.node;

import dev.pgleader.LeaderWork;
import dev.pgleader.Leadership;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** What a leader does: round by round, a mail and a database job side by side, and between rounds what was asked for. */
final class LeaderJobs implements LeaderWork {

    private final MailJob mail;
    private final DatabaseJob database;
    private final LongRun longRun;
    private final Duration rest;
    private long rounds; // by the work's thread only, and there is one at a time

    LeaderJobs(MailJob mail, DatabaseJob database, LongRun longRun, Duration rest) {
        this.mail = mail;
        this.database = database;
        this.longRun = longRun;
        this.rest = rest;
    }

    @Override
    public void run(Leadership leadership) throws Exception {
        CompletableFuture<?> end = leadership.revoked().toCompletableFuture();
        while (leadership.isValid()) {
            longRun.runIfRequested(leadership);
            if (!leadership.isValid()) {
                return;
            }
            long round = ++rounds;
            CompletableFuture<Void> entry = CompletableFuture.runAsync(() -> database.run(round));
            mail.run(round, leadership);
            entry.join();
            restUnless(end);
        }
    }

    private void restUnless(CompletableFuture<?> end) throws InterruptedException, ExecutionException {
        try {
            end.get(rest.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            // On to the next round.
        }
    }

    @Override
    public String toString() {
        return "mails and entries";
    }
}
