package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LogCapture;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.event.Level;

/** With the election's own thread and the system's clock. */
@Timeout(120)
class ElectionThreadTest {

    private static final Duration LONG = Duration.ofMinutes(1);

    private final ScriptedSession.Server server = new ScriptedSession.Server();
    private final BlockingQueue<ScriptedSession.Answer<LockSession>> opens = new LinkedBlockingQueue<>();
    private CommandQueue commands = new CommandQueue();
    private ElectionLoop loop;
    private ElectionThread thread;
    private ElectionRequests requests;
    private Candidate candidate;
    private CandidateRun run = CandidateRun.over();

    ElectionThreadTest() {
        use(ElectorOptions.builder());
    }

    private void use(ElectorOptions.Builder builder) {
        ElectorOptions options = builder.build();
        commands = new CommandQueue();
        loop = new ElectionLoop(
                "test",
                ScriptedElection.INSTANCE,
                options,
                null,
                new Surroundings(
                        settings ->
                                opens.isEmpty() ? newSession() : opens.remove().give(),
                        Ticker.SYSTEM,
                        RandomGenerator.getDefault(),
                        Backoff.of(options)),
                commands);
        thread = new ElectionThread("test", loop, commands, Rehearsal::once);
        requests = new ElectionRequests(loop, commands);
        candidate = new Candidate("test", LockKey.of(1), new CallbackThreads("test-callback"), null, commands::wake);
    }

    private ScriptedSession newSession() {
        ScriptedSession session = new ScriptedSession(server, call -> {});
        session.waitsForReal = true;
        return session;
    }

    private void enter() {
        CandidateRun entering = new CandidateRun();
        run = entering;
        thread.startWith(() -> loop.admit(candidate, entering, false));
    }

    private void awaitLeadership(long term) {
        await().atMost(LONG)
                .until(() -> candidate.leads() && candidate.standing().terms() == term);
    }

    private void close() {
        candidate.stop(run);
        requests.signal(
                candidate, new CandidateState.Close(Duration.ofSeconds(10).toNanos()));
    }

    @AfterEach
    void leave() throws Exception {
        close();
        run.ended().get(60, TimeUnit.SECONDS);
    }

    @Test
    void aDefectOfASessionEndsTheTermAndTheSessionButNotTheElection() {
        ScriptedSession defective = newSession();
        opens.add(() -> {
            throw new IllegalStateException("scripted: no session");
        });
        opens.add(() -> defective);
        enter();
        awaitLeadership(1);
        try (LogCapture log = LogCapture.of(ElectionThread.class, Level.ERROR)) {
            defective.waits.add(() -> {
                throw new AssertionError("scripted: a bad wait");
            });
            commands.post(() -> {});
            awaitLeadership(2);
            assertThat(log.events())
                    .singleElement()
                    .satisfies(event -> assertThat(event.throwable()).hasMessage("scripted: a bad wait"));
        }
        assertThat(defective.isEnded()).isTrue();
    }

    @Test
    void aCommandThatThrowsDoesNotEndTheElection() {
        enter();
        awaitLeadership(1);
        commands.post(() -> {
            throw new IllegalStateException("scripted: a bad command");
        });
        awaitLeadership(2);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aCommandEndsTheWait(boolean withSession) throws Exception {
        use(ElectorOptions.builder()
                .leaseDuration(LONG.multipliedBy(5))
                .healthCheckInterval(LONG)
                .retryInterval(LONG.multipliedBy(3))
                .maxReconnectDelay(LONG.multipliedBy(3)));
        if (!withSession) {
            opens.add(fault(Fault.UNREACHABLE));
        }
        enter();
        await().until(() -> withSession ? candidate.leads() : loop.view().problem() != null);
        for (int i = 0; i < 200; i++) {
            CountDownLatch ran = new CountDownLatch(1);
            commands.post(ran::countDown);
            assertThat(ran.await(30, TimeUnit.SECONDS)).isTrue();
        }
    }

    @Test
    void itsThreadIsADaemonThatEndsWhenAllHaveLeftAndAnotherOneStartsForWhoeverComesBack() throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int term = 1; term <= 3; term++) {
            enter();
            CompletableFuture<Thread> runner = new CompletableFuture<>();
            commands.post(() -> runner.complete(Thread.currentThread()));
            threads.add(runner.get(30, TimeUnit.SECONDS));
            awaitLeadership(term);
            leave();
        }
        assertThat(threads).allSatisfy(each -> {
            assertThat(each.isDaemon()).isTrue();
            assertThat(each.getName()).isEqualTo("pg-leader-test");
            await().until(() -> !each.isAlive());
        });
    }

    @Test
    void whateverItWaitsForCanBeBrokenOff() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch aborted = new CountDownLatch(1);
        ScriptedSession hanging = new ScriptedSession(server, call -> {
            if (call.equals("abort")) {
                aborted.countDown();
            }
        });
        hanging.waitsForReal = true;
        hanging.tries.add(() -> {
            asked.countDown();
            try {
                aborted.await();
            } catch (InterruptedException e) {
                // The session's socket doesn't care; only its abort ends the wait.
                throw new AssertionError("interrupted before it was aborted", e);
            }
            throw new LockSessionException(Fault.CONNECTION_LOST, "aborted");
        });
        opens.add(() -> hanging);
        enter();
        asked.await();
        close();
        thread.breakOff(thread.entries());
        run.ended().get(60, TimeUnit.SECONDS);
        assertThat(hanging.isEnded()).isTrue();
    }

    /** An elector that was started while others left may lead: two would, if its session were ended first. */
    @Test
    void aSessionIsNotBrokenOffIfSomebodyHasBegunToTakePart() throws Exception {
        CountDownLatch granted = new CountDownLatch(1);
        ScriptedSession leading = new ScriptedSession(server, call -> {
            if (call.startsWith("try")) {
                granted.countDown();
            }
        });
        leading.waitsForReal = true;
        opens.add(() -> leading);
        long before = thread.entries();
        enter();
        granted.await();
        thread.breakOff(before);
        assertThat(leading.isEnded()).isFalse();
        close();
        thread.breakOff(thread.entries());
        run.ended().get(60, TimeUnit.SECONDS);
    }
}
