package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.time.Instant;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(300)
class WorkWhileLeaderTest {

    private final Lease lease = TestLeases.of(new ManualTicker(0), 1_000);
    private final Leadership term = new Leadership("test", 1, Instant.EPOCH, lease);
    private final List<Throwable> failures = new CopyOnWriteArrayList<>();

    private WorkWhileLeader workWhileLeader(LeaderWork work) {
        CallsInFlight calls = new CallsInFlight(new CallbackReports(failure -> {}, () -> {}));
        return new WorkWhileLeader("test", work, calls, (leadership, failure) -> failures.add(failure));
    }

    @Test
    void worksOnADaemonThreadOfItsOwn() {
        List<Thread> threads = new CopyOnWriteArrayList<>();
        workWhileLeader(leadership -> threads.add(Thread.currentThread())).onElected(term);
        await().until(() -> threads.size() == 1);
        assertThat(threads).doesNotContain(Thread.currentThread()).allMatch(Thread::isDaemon);
        assertThat(threads.get(0).getName()).isEqualTo("pg-leader-test-work-1");
    }

    @Test
    void theEndOfTheTermInterruptsTheWorkAndWaitsForItsEnd() throws Exception {
        CountDownLatch working = new CountDownLatch(1);
        AtomicInteger interrupts = new AtomicInteger();
        boolean[] cleanedUp = {false};
        WorkWhileLeader work = workWhileLeader(leadership -> {
            working.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                interrupts.incrementAndGet();
            }
            cleanedUp[0] = true;
        });
        work.onElected(term);
        working.await();
        lease.revoke();
        work.onRevoked(term, RevocationReason.SESSION_LOST);
        assertThat(interrupts).hasValue(1);
        assertThat(cleanedUp[0]).isTrue();
        assertThat(failures).isEmpty();
    }

    @Test
    void theWorkHearsOfTheEndBeforeItsListenerDoes() throws Exception {
        CountDownLatch working = new CountDownLatch(1);
        CountDownLatch interrupted = new CountDownLatch(1);
        workWhileLeader(leadership -> {
                    working.countDown();
                    try {
                        new CountDownLatch(1).await();
                    } finally {
                        interrupted.countDown();
                    }
                })
                .onElected(term);
        working.await();
        lease.revoke();
        term.completeRevoked(RevocationReason.RESIGNED);
        interrupted.await();
    }

    @Test
    void workThatFailsInItsTermIsAFailureOfTheTerm() {
        workWhileLeader(leadership -> {
                    throw new Exception("scripted");
                })
                .onElected(term);
        await().until(() -> !failures.isEmpty());
        assertThat(failures)
                .singleElement()
                .satisfies(failure -> assertThat(failure).hasMessage("scripted"));
    }

    /** The work's registration was closed: it ends, and the instance goes on to lead. */
    @Test
    void workThatIsEndedInItsTermDoesNotFailIt() throws Exception {
        CountDownLatch working = new CountDownLatch(1);
        WorkWhileLeader work = workWhileLeader(leadership -> {
            working.countDown();
            new CountDownLatch(1).await();
        });
        work.onElected(term);
        working.await();
        work.onRevoked(term, RevocationReason.LISTENER_REMOVED);
        assertThat(failures).isEmpty();
    }

    @Test
    void anInterruptOfTheCallbackThreadDoesNotCutTheWaitShort() throws Exception {
        CountDownLatch working = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        WorkWhileLeader work = workWhileLeader(leadership -> {
            working.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                goOn.await();
            }
        });
        work.onElected(term);
        working.await();
        List<String> events = new CopyOnWriteArrayList<>();
        Thread callback = new Thread(() -> {
            Thread.currentThread().interrupt();
            work.onRevoked(term, RevocationReason.RESIGNED);
            events.add("returned, interrupted: " + Thread.currentThread().isInterrupted());
        });
        callback.start();
        await().until(() -> callback.getState() == Thread.State.TIMED_WAITING || !events.isEmpty());
        assertThat(events).isEmpty();
        goOn.countDown();
        callback.join();
        assertThat(events).containsExactly("returned, interrupted: true");
    }

    @Test
    void eachTermHasWorkOfItsOwn() {
        List<Long> terms = new CopyOnWriteArrayList<>();
        WorkWhileLeader work = workWhileLeader(leadership -> terms.add(leadership.term()));
        for (long number = 1; number <= 3; number++) {
            Leadership each = new Leadership("test", number, Instant.EPOCH, TestLeases.of(new ManualTicker(0), 1_000));
            work.onElected(each);
            work.onRevoked(each, RevocationReason.RESIGNED);
        }
        assertThat(terms).containsExactly(1L, 2L, 3L);
    }
}
