package dev.pgleader;

import dev.pgleader.ScriptedSession.Answer;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSession.Notification;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.function.BooleanSupplier;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/**
 * An election on scripted sessions and a manual clock, in the test's own thread. Its journal has, in order, what the sessions
 * were asked and what the listeners were told.
 */
final class ScriptedElection {

    static final String INSTANCE = "instance-1";
    static final Duration RECONNECT_STEP = Duration.ofMillis(250);

    final ManualTicker ticker = ManualTicker.beforeOverflow();
    final ScriptedSession.Server server = new ScriptedSession.Server();
    /** How the next attempts to open a session go; when there is none, they succeed. */
    final Queue<Answer<ScriptedSession>> opens = new ArrayDeque<>();

    final HandDrivenExecutor callbacks = new HandDrivenExecutor();
    final ElectorOptions options;
    final CommandQueue commands = new CommandQueue();
    final ElectionLoop loop;
    final ElectionRequests requests;
    private final List<String> journal = new ArrayList<>();
    private final List<ScriptedCandidate> candidates = new ArrayList<>();
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

    ScriptedElection(ElectorOptions options, RandomGenerator random, Backoff backoff) {
        this(options, null, random, backoff);
    }

    ScriptedElection(ElectorOptions options, @Nullable Spread spread, RandomGenerator random) {
        this(options, spread, random, linearBackoff());
    }

    private ScriptedElection(ElectorOptions options, @Nullable Spread spread, RandomGenerator random, Backoff backoff) {
        this.options = options;
        this.loop = new ElectionLoop(
                "test", INSTANCE, options, spread, new Surroundings(this::open, ticker, random, backoff), commands);
        this.requests = new ElectionRequests(loop, commands);
    }

    ScriptedCandidate candidate(long key) {
        return candidate(key, null);
    }

    ScriptedCandidate candidate(long key, @Nullable BooleanSupplier campaignCondition) {
        ScriptedCandidate candidate = new ScriptedCandidate(this, LockKey.of(key), campaignCondition);
        candidates.add(candidate);
        return candidate;
    }

    /** A candidate that leads and whose listener knows it; its journal begins afterwards. */
    ScriptedCandidate leader() {
        ScriptedCandidate leader = candidate(1);
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
    ScriptedCandidate admitFollower(long key) {
        ScriptedCandidate follower = candidate(key);
        server.take(follower.key);
        follower.admit();
        return follower;
    }

    /** A candidate that follows somebody else; its journal begins afterwards. */
    ScriptedCandidate follower() {
        ScriptedCandidate follower = admitFollower(1);
        turn();
        journal.clear();
        return follower;
    }

    private ScriptedSession open(LockSession.Settings settings) throws LockSessionException {
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
        return candidates.stream().anyMatch(ScriptedCandidate::leads);
    }

    /** Writes to the journal. */
    void tell(String entry) {
        journal.add(entry);
    }

    /** Whether that is what happened last. */
    boolean isLastEntry(String entry) {
        return !journal.isEmpty() && journal.get(journal.size() - 1).equals(entry);
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

    /** Has the loop hear notices of another instance, the leader where nothing else is said, while it waits. */
    void hear(String... payloads) {
        hearFrom(ScriptedSession.Server.ELSEWHERE.backendPid(), payloads);
    }

    /** Has the loop hear notices that come from a backend. */
    void hearFrom(int pid, String... payloads) {
        List<Notification> heard = Arrays.stream(payloads)
                .map(payload -> new Notification(pid, payload))
                .toList();
        session().waits.add(() -> heard);
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
            ticker.advanceNanos(loop.isDeserted() ? left : Math.min(wait, left));
        }
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
            public Duration afterFailure(Fault fault) {
                return RECONNECT_STEP.multipliedBy(++failures);
            }

            @Override
            public void reset() {
                failures = 0;
            }
        };
    }
}
