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

    @Test
    void tasksOfAnExecutorThatRefusesRunOnADaemonThreadOfTheirOwn() {
        pool.shutdownNow();
        List<Thread> threads = new CopyOnWriteArrayList<>();
        CallbackQueue queue = new CallbackQueue(pool, "pg-leader-test-callback");
        for (int i = 0; i < 3; i++) {
            int task = i;
            queue.execute(() -> {
                threads.add(Thread.currentThread());
                ran.add("task " + task);
            });
        }
        await().until(() -> ran.size() == 3);
        assertThat(ran).containsExactly("task 0", "task 1", "task 2");
        assertThat(threads).allSatisfy(thread -> {
            assertThat(thread.getName()).isEqualTo("pg-leader-test-callback");
            assertThat(thread.isDaemon()).isTrue();
        });
    }

    @Test
    void anExecutorThatRefusesOnceIsAskedAgain() {
        List<Runnable> accepted = new ArrayList<>();
        boolean[] refuse = {true};
        CallbackQueue queue = new CallbackQueue(
                task -> {
                    if (refuse[0]) {
                        throw new RejectedExecutionException("scripted");
                    }
                    accepted.add(task);
                },
                "test");
        queue.execute(() -> ran.add("refused"));
        await().until(() -> ran.contains("refused"));
        refuse[0] = false;
        // The thread that took over may take some more with it.
        await().until(() -> {
            queue.execute(() -> ran.add("later"));
            return !accepted.isEmpty();
        });
    }

    /** Such as one that can't start a thread. */
    @Test
    void anExecutorThatFailsDoesNotSilenceTheQueue() {
        List<Runnable> accepted = new ArrayList<>();
        boolean[] broken = {true};
        CallbackQueue queue = new CallbackQueue(
                task -> {
                    if (broken[0]) {
                        throw new OutOfMemoryError("scripted: unable to create native thread");
                    }
                    accepted.add(task);
                },
                "test");
        queue.execute(() -> ran.add("first"));
        await().until(() -> ran.contains("first"));
        broken[0] = false;
        await().until(() -> {
            queue.execute(() -> ran.add("later"));
            return !accepted.isEmpty();
        });
    }

    /** It would bring user code to the election thread. */
    @Test
    void anExecutorThatRunsTasksInTheCallingThreadIsNotAllowedTo() {
        List<Thread> threads = new CopyOnWriteArrayList<>();
        CallbackQueue queue = new CallbackQueue(Runnable::run, "test");
        queue.execute(() -> threads.add(Thread.currentThread()));
        await().until(() -> threads.size() == 1);
        assertThat(threads).doesNotContain(Thread.currentThread());
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
