package dev.pgleader;

import dev.pgleader.ScriptedSession.Answer;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession.Notification;
import dev.pgleader.lock.LockSessionException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/**
 * An election on scripted sessions and a manual clock, in the test's own thread. Its journal has, in order, what the sessions
 * were asked and what the listeners were told.
 */
final class ScriptedElection {

    /** One elector's part, with a listener that writes to the journal. */
    final class Job implements LeadershipListener {

        final LockKey key;
        final Candidate candidate;
        /** Of the last {@link #admit()}. */
        CandidateRun run = CandidateRun.over();
        /** Of the last {@link #resign()}. */
        CompletableFuture<Void> released = new CompletableFuture<>();
        /** Of the last {@link #verify()}. */
        CompletableFuture<Boolean> verified = new CompletableFuture<>();
        /** Thrown by each onElected. */
        @Nullable
        Throwable failsWith;

        private Job(LockKey key, @Nullable BooleanSupplier campaignCondition) {
            this.key = key;
            this.candidate = new Candidate(key.toString(), key, callbacks, campaignCondition, mailbox::wake);
            var unused = candidate.dispatcher.add(this);
        }

        void admit() {
            admit(false);
        }

        void admit(boolean paused) {
            CandidateRun next = new CandidateRun();
            run = next;
            mailbox.post(() -> loop.admit(candidate, next, paused));
        }

        CompletableFuture<Void> left() {
            return run.ended();
        }

        void signal(CandidateState.Signal signal) {
            requests.signal(candidate, signal);
        }

        /** As {@link LeaderElector#close()} does it. */
        void close() {
            candidate.stop(run);
            signal(new CandidateState.Close(options.revokeTimeout().toNanos()));
        }

        void resign() {
            released = requests.signalUntilReleased(candidate, new CandidateState.StepDown(RevocationReason.RESIGNED));
        }

        void verify() {
            verified = requests.verify(candidate);
        }

        boolean leads() {
            return candidate.leads();
        }

        LeaderStatus.Role role() {
            return candidate.standing().role();
        }

        @Override
        public void onElected(Leadership leadership) throws Exception {
            journal.add("onElected " + leadership.term());
            if (failsWith instanceof Exception exception) {
                throw exception;
            } else if (failsWith instanceof Error error) {
                throw error;
            }
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            journal.add("onRevoked " + leadership.term() + " " + reason);
        }
    }

    static final String INSTANCE = "instance-1";
    static final Duration RECONNECT_STEP = Duration.ofMillis(250);

    final ManualTicker ticker = ManualTicker.beforeOverflow();
    final ScriptedSession.Server server = new ScriptedSession.Server();
    /** How the next attempts to open a session go; when there is none, they succeed. */
    final Queue<Answer<ScriptedSession>> opens = new ArrayDeque<>();

    final HandDrivenExecutor callbacks = new HandDrivenExecutor();
    final ElectorOptions options;
    final Mailbox mailbox = new Mailbox();
    final ElectionLoop loop;
    final ElectionRequests requests;
    private final List<String> journal = new ArrayList<>();
    private final List<Job> candidates = new ArrayList<>();
    private @Nullable ScriptedSession latest;

    ScriptedElection() {
        this(ElectorOptions.defaults());
    }

    ScriptedElection(ElectorOptions options) {
        // Without jitter: the middle of all random numbers.
        this(options, () -> Long.MIN_VALUE);
    }

    ScriptedElection(ElectorOptions options, RandomGenerator random) {
        this(options, null, random);
    }

    ScriptedElection(ElectorOptions options, @Nullable Spread spread, RandomGenerator random) {
        this.options = options;
        this.loop = new ElectionLoop(
                "test",
                INSTANCE,
                options,
                spread,
                new ElectionLoop.Surroundings(settings -> open(), ticker, random, linearBackoff()),
                mailbox);
        this.requests = new ElectionRequests(loop, mailbox);
    }

    Job candidate(long key) {
        return candidate(key, null);
    }

    Job candidate(long key, @Nullable BooleanSupplier campaignCondition) {
        Job candidate = new Job(LockKey.of(key), campaignCondition);
        candidates.add(candidate);
        return candidate;
    }

    /** A candidate that leads and whose listener knows it; its journal begins afterwards. */
    Job leader() {
        Job leader = candidate(1);
        leader.admit();
        turn();
        callbacks.runAll();
        turn();
        if (!leader.leads()) {
            throw new AssertionError("Doesn't lead: " + journal);
        }
        journal.clear();
        return leader;
    }

    /** A candidate for a key that somebody else holds, which takes part from the next turn on. */
    Job admitFollower(long key) {
        Job follower = candidate(key);
        server.takenByOthers.add(follower.key);
        follower.admit();
        return follower;
    }

    /** A candidate that follows somebody else; its journal begins afterwards. */
    Job follower() {
        Job follower = admitFollower(1);
        turn();
        journal.clear();
        return follower;
    }

    private ScriptedSession open() throws LockSessionException {
        journal.add("open");
        Answer<ScriptedSession> scripted = opens.poll();
        latest = scripted == null ? newSession() : scripted.give();
        return latest;
    }

    ScriptedSession newSession() {
        return new ScriptedSession(server, call -> journal.add(isAnyoneLeading() ? call : call + onGivingAway(call)));
    }

    private static String onGivingAway(String call) {
        return call.equals("abort") || call.startsWith("release") ? ", nobody leading" : "";
    }

    private boolean isAnyoneLeading() {
        return candidates.stream().anyMatch(Job::leads);
    }

    /** The session that was opened last. */
    ScriptedSession session() {
        if (latest == null) {
            throw new AssertionError("No session was opened");
        }
        return latest;
    }

    /** One turn; returns for how long the loop then means to wait. */
    Duration turn() {
        return Duration.ofNanos(loop.step());
    }

    /** One turn after some time. */
    Duration turnAfter(Duration duration) {
        ticker.advance(duration);
        return turn();
    }

    /** Has the loop hear notifications of the others' leader while it waits. */
    void hear(String... payloads) {
        hearFrom(ScriptedSession.OTHER.backendPid(), payloads);
    }

    /** Has the loop hear notifications of a backend while it waits. */
    void hearFrom(int pid, String... payloads) {
        List<Notification> notifications = Arrays.stream(payloads)
                .map(payload -> new Notification(pid, payload))
                .toList();
        session().waits.add(() -> notifications);
        loop.await(0);
    }

    /**
     * Has the loop take its turns, each exactly when it asked for it, and a last one when the time is over. Callbacks run at
     * once.
     */
    void run(Duration duration) {
        long end = ticker.nanos() + duration.toNanos();
        int turnsInOneMoment = 0;
        while (true) {
            callbacks.runAll();
            long wait = loop.step();
            long left = end - ticker.nanos();
            if (!callbacks.isIdle()) {
                continue;
            }
            if (left <= 0) {
                return;
            }
            turnsInOneMoment = wait == 0 ? turnsInOneMoment + 1 : 0;
            if (turnsInOneMoment > 100) {
                throw new AssertionError("The loop spins: " + journal);
            }
            // An election in which nobody takes part has nothing to wait for: its thread ends.
            ticker.advanceNanos(isDeserted() ? left : Math.min(wait, left));
        }
    }

    private boolean isDeserted() {
        return candidates.stream()
                .allMatch(candidate -> candidate.candidate.state().isStopped());
    }

    /** What happened since the last call. */
    List<String> journal() {
        List<String> news = List.copyOf(journal);
        journal.clear();
        return news;
    }

    /** Grows by {@link #RECONNECT_STEP} with each failure. */
    private static Backoff linearBackoff() {
        return new Backoff() {
            private int failures;

            @Override
            public Duration afterFailure(LockSessionException.Fault fault) {
                return RECONNECT_STEP.multipliedBy(++failures);
            }

            @Override
            public void reset() {
                failures = 0;
            }
        };
    }
}
