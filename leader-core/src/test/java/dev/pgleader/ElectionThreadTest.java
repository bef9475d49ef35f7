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

/** The election's own thread, with the system's clocks and scripted sessions. */
@Timeout(60)
class ElectionThreadTest {

    private static final Duration LONG = Duration.ofMinutes(1);

    private final ScriptedSession.Server server = new ScriptedSession.Server();
    private final BlockingQueue<ScriptedSession.Answer<LockSession>> opens = new LinkedBlockingQueue<>();
    private final Mailbox mailbox = new Mailbox();
    private final Candidate candidate =
            new Candidate("test", LockKey.of(1), new CallbackThreads("test-callback"), null, mailbox::wake);
    private ElectionLoop loop = loop(ElectorOptions.builder());
    private ElectionThread thread = new ElectionThread("test", loop, mailbox);
    private CandidateRun run = CandidateRun.over();

    private ElectionLoop loop(ElectorOptions.Builder builder) {
        ElectorOptions options = builder.build();
        return new ElectionLoop(
                "test",
                ScriptedElection.INSTANCE,
                options,
                null,
                new ElectionLoop.Surroundings(
                        settings ->
                                opens.isEmpty() ? newSession() : opens.remove().give(),
                        Ticker.SYSTEM,
                        RandomGenerator.getDefault(),
                        Backoff.of(options)),
                mailbox);
    }

    private ScriptedSession newSession() {
        ScriptedSession session = new ScriptedSession(server, call -> {});
        session.waitsForReal = true;
        return session;
    }

    private void enter() {
        CandidateRun next = new CandidateRun();
        run = next;
        thread.startWith(() -> loop.admit(candidate, next, false));
    }

    private void awaitLeadership(long term) {
        await().until(() -> candidate.leads() && candidate.standing().terms() == term);
    }

    @AfterEach
    void leave() throws Exception {
        candidate.stop(run);
        mailbox.wake();
        run.ended().get(20, TimeUnit.SECONDS);
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
            mailbox.post(() -> {});
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
        mailbox.post(() -> {
            throw new IllegalStateException("scripted: a bad command");
        });
        awaitLeadership(2);
    }

    /** R15: an error of which nothing can be said, since even asking it fails. */
    @Test
    void aDefectThatCannotBeToldDoesNotEndTheElection() {
        enter();
        awaitLeadership(1);
        mailbox.post(() -> {
            throw new UnspeakableError();
        });
        awaitLeadership(2);
    }

    private static final class UnspeakableError extends Error {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new OutOfMemoryError("scripted");
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aCommandEndsTheWait(boolean withSession) throws Exception {
        loop = loop(ElectorOptions.builder()
                .leaseDuration(LONG.multipliedBy(5))
                .healthCheckInterval(LONG)
                .retryInterval(LONG.multipliedBy(3))
                .maxReconnectDelay(LONG.multipliedBy(3)));
        thread = new ElectionThread("test", loop, mailbox);
        if (!withSession) {
            opens.add(fault(Fault.UNREACHABLE));
        }
        enter();
        await().until(() -> withSession ? candidate.leads() : loop.view().problem() != null);
        for (int i = 0; i < 200; i++) {
            CountDownLatch ran = new CountDownLatch(1);
            mailbox.post(ran::countDown);
            assertThat(ran.await(10, TimeUnit.SECONDS)).isTrue();
        }
    }

    @Test
    void itIsADaemonThatEndsWhenAllHaveLeftAndAnotherOneStartsForWhoeverComesBack() throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int term = 1; term <= 3; term++) {
            enter();
            CompletableFuture<Thread> current = new CompletableFuture<>();
            mailbox.post(() -> current.complete(Thread.currentThread()));
            threads.add(current.get(10, TimeUnit.SECONDS));
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
        candidate.stop(run);
        thread.breakOff();
        run.ended().get(20, TimeUnit.SECONDS);
        assertThat(hanging.isEnded()).isTrue();
    }

    /** R17: a login takes a while; who is stopped meanwhile never leads. */
    @Test
    void noTermBeginsOnceItWasStopped() throws Exception {
        CountDownLatch opening = new CountDownLatch(1);
        CountDownLatch stopped = new CountDownLatch(1);
        List<String> told = new ArrayList<>();
        var unused = candidate.dispatcher.add(new LeadershipListener() {
            @Override
            public void onElected(Leadership leadership) {
                told.add("elected");
            }

            @Override
            public void onRevoked(Leadership leadership, RevocationReason reason) {}
        });
        opens.add(() -> {
            opening.countDown();
            try {
                stopped.await();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            return newSession();
        });
        enter();
        opening.await();
        candidate.stop(run);
        stopped.countDown();
        run.ended().get(20, TimeUnit.SECONDS);
        assertThat(candidate.standing().terms()).isZero();
        assertThat(told).isEmpty();
    }
}
