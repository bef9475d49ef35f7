package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.LoggerFactory;

/**
 * R15, R16: a process without memory or threads for a moment. An election on its own thread, with callbacks on threads of their
 * own, in which a step of the test's choice fails as it does when there is no heap left.
 */
@Timeout(300)
class ProcessPovertyTest {

    private static final Duration PATIENCE = Duration.ofSeconds(100);
    private static final ElectorOptions OPTIONS = ElectorOptions.builder()
            .retryInterval(Duration.ofMillis(50))
            .healthCheckInterval(Duration.ofMillis(50))
            .revokeTimeout(Duration.ofSeconds(30))
            .leaseDuration(Duration.ofSeconds(120))
            .coolDown(Duration.ofMillis(1))
            .build();

    /** One election, of which the n-th step fails, and so many after it. */
    private static final class Poor implements LeadershipListener {
        final String name;
        final int failsAt;
        final int times;
        final AtomicInteger steps = new AtomicInteger();
        final AtomicBoolean over = new AtomicBoolean();
        final ScriptedSession.Server server = new ScriptedSession.Server();
        final List<ScriptedSession> sessions = new CopyOnWriteArrayList<>();
        final List<String> callbacks = new CopyOnWriteArrayList<>();
        final CommandQueue commands = new CommandQueue();
        final ElectionLoop loop;
        final ElectionThread thread;
        final ElectionRequests requests;
        final Candidate candidate;
        final CandidateRun run = new CandidateRun();

        Poor(int failsAt, int times) {
            this.name = "poor-" + failsAt + "-" + times;
            this.failsAt = failsAt;
            this.times = times;
            Ticker ticker = new Ticker() {
                @Override
                public long nanos() {
                    step();
                    return Ticker.SYSTEM.nanos();
                }

                @Override
                public long wallMillis() {
                    return Ticker.SYSTEM.wallMillis();
                }
            };
            CallbackThreads threads = new CallbackThreads(name);
            Executor executor = task -> {
                step();
                threads.execute(task);
            };
            loop = new ElectionLoop(
                    name,
                    ScriptedElection.INSTANCE,
                    OPTIONS,
                    null,
                    new Surroundings(settings -> open(), ticker, RandomGenerator.getDefault(), Backoff.of(OPTIONS)),
                    commands);
            thread = new ElectionThread(name, loop, commands, Rehearsal::once);
            requests = new ElectionRequests(loop, commands);
            candidate = new Candidate(name, LockKey.of(1), executor, null, commands::wake);
            var unused = candidate.dispatcher.add(this);
            candidate.observers.add(new ElectionObserver() {});
        }

        /** Anything that may need memory. The test's own thread is rich. */
        private void step() {
            if (Thread.currentThread().getName().contains(name)) {
                int step = steps.incrementAndGet();
                if (step >= failsAt && step < failsAt + times) {
                    throw new OutOfMemoryError("scripted: no heap at step " + step);
                }
                if (step >= failsAt + times) {
                    over.set(true);
                }
            }
        }

        private LockSession open() {
            step();
            ScriptedSession session = new ScriptedSession(server, call -> {});
            session.waitsForReal = true;
            session.onRoundTrip = this::step;
            sessions.add(session);
            return session;
        }

        void enter() {
            thread.startWith(() -> loop.admit(candidate, run, false));
        }

        boolean isRich() {
            return over.get() && candidate.leads() && lastIs("elected");
        }

        private boolean lastIs(String what) {
            return !callbacks.isEmpty()
                    && callbacks
                            .get(callbacks.size() - 1)
                            .equals(what + " " + candidate.standing().terms());
        }

        void close() {
            candidate.stop(run);
            requests.signal(
                    candidate, new CandidateState.Close(OPTIONS.revokeTimeout().toNanos()));
        }

        @Override
        public void onElected(Leadership leadership) {
            step();
            callbacks.add("elected " + leadership.term());
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            callbacks.add("revoked " + leadership.term());
            step();
        }

        /** One elected, then its own revoked, and so on; what failed before it was written down is not there. */
        void assertCallbacksInOrder() {
            List<String> wanted = new ArrayList<>();
            long last = 0;
            for (String callback : callbacks) {
                long term = Long.parseLong(callback.substring(callback.indexOf(' ') + 1));
                boolean elected = callback.startsWith("elected");
                assertThat(elected ? term > last : term >= last)
                        .as("%s of %s, %s", callback, callbacks, name)
                        .isTrue();
                if (elected) {
                    wanted.add("revoked " + term);
                }
                last = term;
            }
            assertThat(callbacks)
                    .as("callbacks of %s", name)
                    .containsAll(wanted)
                    .doesNotHaveDuplicates();
        }
    }

    /** Steps go from the first turn to the checks of a leader, its callbacks and its reports. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 5})
    void afterALackOfMemoryAtAnyStepAllGoesOn(int times) throws Exception {
        List<Poor> all = new ArrayList<>();
        for (int step = 1; step <= 90; step += times == 1 ? 1 : 3) {
            all.add(new Poor(step, times));
        }
        all.forEach(Poor::enter);
        for (Poor poor : all) {
            await(poor.name)
                    .atMost(PATIENCE)
                    .pollInterval(Duration.ofMillis(20))
                    .until(poor::isRich);
        }
        for (Poor poor : all) {
            assertThat(poor.sessions)
                    .as("sessions of %s that live", poor.name)
                    .filteredOn(session -> !session.isEnded())
                    .hasSize(1);
            poor.close();
        }
        for (Poor poor : all) {
            poor.run.ended().get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            assertThat(poor.sessions).as("sessions of %s", poor.name).allMatch(ScriptedSession::isEnded);
            await(poor.name).atMost(PATIENCE).untilAsserted(poor::assertCallbacksInOrder);
        }
    }

    /** A full disk, a broken appender. */
    @Test
    void aLoggerThatThrowsHarmsNothing() throws Exception {
        Logger logger = (Logger) LoggerFactory.getLogger("dev.pgleader");
        AppenderBase<ILoggingEvent> broken = new AppenderBase<>() {
            @Override
            public synchronized void doAppend(ILoggingEvent event) {
                throw new OutOfMemoryError("scripted: no heap for a line of the log");
            }

            @Override
            protected void append(ILoggingEvent event) {}
        };
        broken.start();
        logger.addAppender(broken);
        try {
            List<Poor> all = new ArrayList<>();
            for (int step = 10; step <= 60; step += 10) {
                all.add(new Poor(step, 3));
            }
            all.forEach(Poor::enter);
            for (Poor poor : all) {
                await(poor.name).atMost(PATIENCE).until(poor::isRich);
                poor.close();
                poor.run.ended().get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
                await(poor.name).atMost(PATIENCE).untilAsserted(poor::assertCallbacksInOrder);
            }
        } finally {
            logger.detachAppender(broken);
        }
    }

    /** What the exception says is asked for the log, the status and the observers. */
    @Test
    void anExceptionThatThrowsWhateverItIsAskedHarmsNothing() {
        ScriptedElection election = new ScriptedElection();
        ScriptedCandidate candidate = election.candidate(1);
        candidate.failsWith = new Unspeakable();
        election.opens.add(() -> {
            throw new Unspeakable();
        });
        candidate.admit();
        election.run(Duration.ofSeconds(1));
        assertThat(election.journal()).contains("onElected 1", "onRevoked 1 CALLBACK_FAILED");
        candidate.failsWith = null;
        election.run(Duration.ofSeconds(10));
        assertThat(candidate.leads()).isTrue();
    }
}
