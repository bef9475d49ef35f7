package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Whatever a user's executor does, callbacks run, and never on the thread that hands them over. */
@Timeout(120)
class UserExecutorTest {

    private final CallbackThreads ours = new CallbackThreads("pg-leader-test-callback");
    private final List<Thread> threads = new CopyOnWriteArrayList<>();
    private final List<Integer> ran = new CopyOnWriteArrayList<>();

    private CallbackQueue queue(Executor users) {
        return new CallbackQueue(new UserExecutor(users, ours), "test");
    }

    private void execute(CallbackQueue queue, int tasks) {
        for (int i = 0; i < tasks; i++) {
            int task = i;
            queue.execute(() -> {
                threads.add(Thread.currentThread());
                ran.add(task);
            });
        }
        await().until(() -> ran.size() >= tasks);
    }

    /** R16, R40. */
    @Test
    void tasksOfAnExecutorThatRefusesRunOnADaemonThreadOfOurs() {
        ExecutorService ended = Executors.newSingleThreadExecutor();
        ended.shutdown();
        for (Executor refusing : List.<Executor>of(
                ended,
                task -> {
                    throw new OutOfMemoryError("scripted: unable to create native thread");
                },
                task -> {
                    throw Sneaky.thrown(new java.io.IOException("scripted"));
                })) {
            ran.clear();
            execute(queue(refusing), 3);
            assertThat(ran).containsExactly(0, 1, 2);
        }
        assertThat(threads).allSatisfy(thread -> {
            assertThat(thread.getName()).startsWith("pg-leader-test-callback-");
            assertThat(thread.isDaemon()).isTrue();
        });
    }

    /** It would bring user code to the election thread. */
    @Test
    void anExecutorThatRunsTasksInTheCallingThreadRunsThemOnAThreadOfOurs() {
        execute(queue(Runnable::run), 1);
        assertThat(threads).doesNotContain(Thread.currentThread());
    }

    /** R16. */
    @Test
    void anExecutorThatBlocksHoldsUpNobodyButItself() {
        CountDownLatch release = new CountDownLatch(1);
        CallbackQueue blocked = queue(task -> {
            try {
                release.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            task.run();
        });
        blocked.execute(() -> ran.add(-1));
        execute(queue(Runnable::run), 2);
        assertThat(ran).containsExactly(0, 1);
        release.countDown();
        await().until(() -> ran.size() == 3);
    }

    @Test
    void anExecutorThatTakesATaskAndThrowsRunsItOnce() {
        CallbackQueue queue = queue(task -> {
            task.run();
            throw new IllegalStateException("scripted");
        });
        execute(queue, 5);
        assertThat(ran).containsExactly(0, 1, 2, 3, 4);
    }
}
