package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.util.Collection;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(300)
class CallbackThreadsTest {

    private final CallbackThreads threads = new CallbackThreads("pg-leader-test");
    private final CountDownLatch release = new CountDownLatch(1);
    private final Collection<Thread> used = ConcurrentHashMap.newKeySet();

    @AfterEach
    void letGo() {
        release.countDown();
    }

    @Test
    void theThreadsAreNamedDaemons() {
        threads.execute(() -> used.add(Thread.currentThread()));
        await().until(() -> !used.isEmpty());
        assertThat(used).allMatch(Thread::isDaemon).extracting(Thread::getName).containsExactly("pg-leader-test-1");
    }

    @Test
    void shortTasksShareAFewThreadsHoweverManyTheyAre() throws Exception {
        CountDownLatch done = new CountDownLatch(10_000);
        for (int i = 0; i < 10_000; i++) {
            threads.execute(() -> {
                used.add(Thread.currentThread());
                done.countDown();
            });
        }
        assertThat(done.await(30, TimeUnit.SECONDS)).isTrue();
        // A machine that stands still for a moment looks like tasks that are held up.
        assertThat(used).hasSizeLessThanOrEqualTo(4 * CallbackThreads.FEW);
    }

    @Test
    void aTaskRunsThoughHundredBeforeItHang() {
        Set<Integer> hanging = ConcurrentHashMap.newKeySet();
        for (int i = 0; i < 100; i++) {
            int task = i;
            threads.execute(() -> {
                hanging.add(task);
                awaitRelease();
            });
        }
        CountDownLatch ran = new CountDownLatch(1);
        threads.execute(ran::countDown);
        await().until(() -> ran.getCount() == 0);
        assertThat(hanging).hasSize(100);
    }

    @Test
    void aTaskRunsThoughThreadsOfAnEarlierTimeStillHang() {
        CountDownLatch hanging = new CountDownLatch(2 * CallbackThreads.FEW);
        for (int i = 0; i < 2 * CallbackThreads.FEW; i++) {
            threads.execute(() -> {
                hanging.countDown();
                awaitRelease();
            });
        }
        await().until(() -> hanging.getCount() == 0);
        await().until(() -> Thread.getAllStackTraces().keySet().stream()
                .noneMatch(thread -> thread.getName().equals("pg-leader-test-watch")));
        CountDownLatch ran = new CountDownLatch(1);
        threads.execute(ran::countDown);
        await().until(() -> ran.getCount() == 0);
    }

    private void awaitRelease() {
        try {
            release.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
