package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@Timeout(300)
class CallbackQueueTest {

    private final ExecutorService pool = Executors.newFixedThreadPool(4);
    private final HandDrivenExecutor byHand = new HandDrivenExecutor();
    private final List<String> ran = new CopyOnWriteArrayList<>();

    @AfterEach
    void endPool() {
        pool.shutdownNow();
    }

    @Test
    void runsOneTaskAtATimeInTheOrderGivenWhateverTheExecutorDoes() {
        CallbackQueue queue = new CallbackQueue(pool, "test");
        AtomicInteger atATime = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        List<Integer> order = new ArrayList<>(); // Not thread-safe: each task must see what the one before it did.
        int tasks = 20_000;
        IntStream.range(0, tasks)
                .forEach(i -> queue.execute(() -> {
                    most.accumulateAndGet(atATime.incrementAndGet(), Math::max);
                    order.add(i);
                    atATime.decrementAndGet();
                }));
        runToTheEnd(queue);
        assertThat(most).hasValue(1);
        assertThat(order)
                .containsExactlyElementsOf(IntStream.range(0, tasks).boxed().toList());
    }

    @Test
    void losesNoTaskOfManyThreads() throws Exception {
        CallbackQueue queue = new CallbackQueue(pool, "test");
        int[] count = {0}; // Unsynchronized: see above.
        List<Thread> senders = IntStream.range(0, 4)
                .mapToObj(i -> new Thread(() -> {
                    for (int task = 0; task < 5_000; task++) {
                        queue.execute(() -> count[0]++);
                    }
                }))
                .toList();
        senders.forEach(Thread::start);
        for (Thread sender : senders) {
            sender.join();
        }
        runToTheEnd(queue);
        assertThat(count[0]).isEqualTo(20_000);
    }

    @Test
    void aTaskThatThrowsDoesNotKeepTheNextFromRunning() {
        CallbackQueue queue = new CallbackQueue(byHand, "test");
        queue.execute(() -> {
            throw new IllegalStateException("scripted");
        });
        queue.execute(() -> {
            throw new AssertionError("scripted");
        });
        queue.execute(() -> ran.add("third"));
        byHand.runAll();
        assertThat(ran).containsExactly("third");
    }

    @Test
    void anInterruptThatATaskLeavesBehindIsClearedBeforeTheNextAndForTheExecutor() {
        CallbackQueue queue = new CallbackQueue(byHand, "test");
        queue.execute(() -> Thread.currentThread().interrupt());
        queue.execute(() -> {
            ran.add("interrupted: " + Thread.currentThread().isInterrupted());
            Thread.currentThread().interrupt();
        });
        queue.execute(() -> ran.add("interrupted: " + Thread.currentThread().isInterrupted()));
        byHand.runAll();
        byHand.execute(() -> ran.add("interrupted: " + Thread.currentThread().isInterrupted()));
        byHand.runAll();
        assertThat(ran).hasSize(3).containsOnly("interrupted: false");
    }

    @Test
    void aTaskGivenByATaskRunsAfterIt() {
        for (Executor executor : List.of(byHand, (Executor) Runnable::run)) {
            ran.clear();
            CallbackQueue queue = new CallbackQueue(executor, "test");
            queue.execute(() -> {
                queue.execute(() -> ran.add("inner"));
                ran.add("outer");
            });
            byHand.runAll();
            await().until(() -> ran.size() == 2);
            assertThat(ran).containsExactly("outer", "inner");
        }
    }

    /** R16: an executor that has no thread for a moment. */
    @ParameterizedTest
    @EnumSource(Refusal.class)
    void tasksThatTheExecutorRefusesWaitForARetryAndRunInOrder(Refusal refusal) {
        boolean[] refuse = {true};
        CallbackQueue queue = new CallbackQueue(
                task -> {
                    if (refuse[0]) {
                        throw refusal.failure();
                    }
                    byHand.execute(task);
                },
                "test");
        for (int i = 0; i < 3; i++) {
            int task = i;
            queue.execute(() -> ran.add("task " + task));
            assertThat(queue.retry()).as("retry while it refuses").isFalse();
        }
        assertThat(ran).isEmpty();
        refuse[0] = false;
        assertThat(queue.retry()).isTrue();
        assertThat(queue.retry()).as("a retry that finds them handed over").isTrue();
        byHand.runAll();
        assertThat(ran).containsExactly("task 0", "task 1", "task 2");
        assertThat(queue.retry()).as("a retry with nothing to do").isTrue();
        assertThat(byHand.isIdle()).isTrue();
    }

    enum Refusal {
        REJECTED,
        NO_THREAD,
        CHECKED;

        RuntimeException failure() {
            return switch (this) {
                case REJECTED -> new RejectedExecutionException("scripted");
                case NO_THREAD -> throw new OutOfMemoryError("scripted: unable to create native thread");
                case CHECKED -> throw Sneaky.thrown(new java.io.IOException("scripted")); // R40
            };
        }
    }

    /** R16: a pool may take a task and fail all the same, such as one that can't start the thread for it. */
    @Test
    void aTaskThatTheExecutorTookAndThrewAllTheSameRunsOnce() {
        boolean[] broken = {true};
        CallbackQueue queue = new CallbackQueue(
                task -> {
                    byHand.execute(task);
                    if (broken[0]) {
                        throw new OutOfMemoryError("scripted: unable to create native thread");
                    }
                },
                "test");
        queue.execute(() -> ran.add("first"));
        queue.execute(() -> ran.add("second"));
        broken[0] = false;
        queue.retry();
        byHand.runAll();
        assertThat(ran).containsExactly("first", "second");
    }

    @Test
    void aTaskThatAnExecutorRanBeforeItThrewIsDoneWith() {
        CallbackQueue queue = new CallbackQueue(
                task -> {
                    task.run();
                    throw new IllegalStateException("scripted");
                },
                "test");
        queue.execute(() -> ran.add("first"));
        queue.execute(() -> ran.add("second"));
        assertThat(ran).containsExactly("first", "second");
        assertThat(queue.retry()).isTrue();
    }

    /** R15: the log is the last that an exception meets. */
    @Test
    void anExceptionThatCanNotBeToldDoesNotKeepTheNextTaskFromRunning() {
        CallbackQueue queue = new CallbackQueue(byHand, "test");
        queue.execute(() -> {
            throw new Unspeakable();
        });
        queue.execute(() -> ran.add("second"));
        byHand.runAll();
        assertThat(ran).containsExactly("second");
    }

    /** As on the thread of a user interface, which hands a task to itself for later. */
    @Test
    void anExecutorMayRunATaskLaterInTheThreadThatGaveIt() {
        List<Runnable> later = new ArrayList<>();
        List<Thread> threads = new CopyOnWriteArrayList<>();
        CallbackQueue queue = new CallbackQueue(later::add, "test");
        queue.execute(() -> threads.add(Thread.currentThread()));
        later.get(0).run();
        assertThat(threads).containsExactly(Thread.currentThread());
    }

    @Test
    void knowsItsOwnTasksThread() throws Exception {
        CallbackQueue queue = new CallbackQueue(pool, "test");
        CallbackQueue other = new CallbackQueue(byHand, "other");
        queue.execute(
                () -> ran.add("in a task " + queue.isCurrentThread() + ", of the other " + other.isCurrentThread()));
        runToTheEnd(queue);
        assertThat(ran).containsExactly("in a task true, of the other false");
        assertThat(queue.isCurrentThread()).isFalse();
        other.execute(() -> {});
        byHand.runAll();
        assertThat(other.isCurrentThread()).as("after its task").isFalse();
    }

    @Test
    void noLockIsHeldWhileATaskRuns() throws Exception {
        CallbackQueue queue = new CallbackQueue(pool, "test");
        CountDownLatch running = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        queue.execute(() -> {
            running.countDown();
            awaitUninterruptibly(goOn);
        });
        running.await();
        queue.execute(() -> ran.add("second")); // Would hang here.
        assertThat(ran).isEmpty();
        goOn.countDown();
        await().until(() -> ran.contains("second"));
    }

    private static void awaitUninterruptibly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void runToTheEnd(CallbackQueue queue) {
        CountDownLatch end = new CountDownLatch(1);
        queue.execute(end::countDown);
        awaitUninterruptibly(end);
    }
}
