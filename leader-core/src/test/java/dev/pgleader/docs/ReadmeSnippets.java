package dev.pgleader.docs;

import dev.pgleader.LeaderElector;
import dev.pgleader.lock.ConnectionSource;
import java.util.concurrent.CountDownLatch;

/** What the README shows. */
final class ReadmeSnippets {

    private final CountDownLatch warmed = new CountDownLatch(1);

    LeaderElector start(String url, String user, String password) {
        LeaderElector elector = LeaderElector.builder()
                .connectTo(ConnectionSource.of(url, user, password))
                .key("billing/nightly-run")
                .build();
        elector.runWhileLeader(leadership -> {
            while (leadership.isValid()) { // interrupted when leadership is lost
                warmTheCache();
            }
        });
        elector.start(); // returns at once, competes for ever
        return elector;
    }

    @SuppressWarnings({"ReturnValueIgnored", "CheckReturnValue"})
    static void end(LeaderElector elector) {
        elector.isLeader(); // never blocks; turns false by itself
        elector.status(); // for the health page
        elector.close(); // work has ended before the lock is free
    }

    private void warmTheCache() throws InterruptedException {
        warmed.countDown();
        new CountDownLatch(1).await();
    }

    CountDownLatch warmed() {
        return warmed;
    }
}
