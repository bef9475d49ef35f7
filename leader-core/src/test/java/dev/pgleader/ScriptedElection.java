package dev.pgleader;

import dev.pgleader.ScriptedSession.Answer;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/**
 * An election on scripted sessions and a manual clock, in the test's own thread. Its journal has, in order, what the sessions
 * were asked and what the listeners were told.
 */
final class ScriptedElection {

    /** One elector's part, wired to the loop as {@link LeaderElector} does it, with a listener that writes to the journal. */
    final class Job implements LeadershipListener, ListenerDispatcher.Outcome {

        final LockKey key;
        final Contender contender;
        /** Of the last {@link #admit()}. */
        CompletableFuture<Void> left = new CompletableFuture<>();
        /** Of the last {@link #resign()}. */
        CompletableFuture<Void> released = new CompletableFuture<>();
        /** Of the last {@link #verify()}. */
        CompletableFuture<Boolean> verified = new CompletableFuture<>();
        /** Thrown by each onElected. */
        @Nullable
        Throwable failsWith;

        private Job(LockKey key) {
            this.key = key;
            this.contender = new Contender(key.toString(), key, callbacks, ticker, this);
            var unused = contender.dispatcher.add(this);
        }

        void admit() {
            admit(false);
        }

        void admit(boolean paused) {
            CompletableFuture<Void> leaves = new CompletableFuture<>();
            left = leaves;
            loop.post(() -> loop.admit(contender, paused, leaves));
        }

        void signal(Candidacy.Signal signal) {
            loop.signal(contender, signal);
        }

        /** As {@link LeaderElector#resign()} does it. */
        void resign() {
            CompletableFuture<Void> releases = new CompletableFuture<>();
            released = releases;
            loop.post(() -> {
                contender.untilReleased.add(releases);
                loop.apply(contender, new Candidacy.StepDown(RevocationReason.RESIGNED));
            });
        }

        /** As {@link LeaderElector#verify()} does it. */
        void verify() {
            CompletableFuture<Boolean> verifies = new CompletableFuture<>();
            verified = verifies;
            loop.post(() -> loop.verify(proven -> contender.completeAside(verifies, proven && contender.leads())));
        }

        boolean leads() {
            return contender.leads();
        }

        LeaderStatus.Role role() {
            return contender.standing.role();
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

        @Override
        public void started(long term) {
            signal(new Candidacy.Started(term));
        }

        @Override
        public void startFailed(long term, Throwable failure) {
            signal(new Candidacy.StartFailed(term));
        }

        @Override
        public void drained(long term) {
            signal(new Candidacy.Drained(term));
        }

        @Override
        public void revokeFailed(long term, Throwable failure) {}
    }

    static final String INSTANCE = "instance-1";
    static final Duration RECONNECT_STEP = Duration.ofMillis(250);

    final ManualTicker ticker = ManualTicker.beforeOverflow();
    final ScriptedSession.Server server = new ScriptedSession.Server();
    /** How the next attempts to open a session go; when there is none, they succeed. */
    final Queue<Answer<ScriptedSession>> opens = new ArrayDeque<>();

    final HandDrivenExecutor callbacks = new HandDrivenExecutor();
    final ElectorOptions options;
    final ElectionLoop loop;
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
                new ElectionLoop.Surroundings(this::open, ticker, random, linearBackoff()));
    }

    Job candidate(long key) {
        Job candidate = new Job(LockKey.of(key));
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

    /** Has the loop hear notifications while it waits. */
    void hear(String... payloads) {
        session().waits.add(() -> List.of(payloads));
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
        return candidates.stream().allMatch(candidate -> candidate.contender.candidacy.isClosed());
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
            public Duration afterFailure() {
                return RECONNECT_STEP.multipliedBy(++failures);
            }

            @Override
            public void reset() {
                failures = 0;
            }
        };
    }
}
