package dev.pgleader;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Any number of electors on one connection and one election thread.
 *
 * <pre>{@code
 * LeaderElectorGroup group = LeaderElectorGroup.builder()
 *         .connectTo(ConnectionSource.of("jdbc:postgresql://db/app", "app", password))
 *         .build();
 * LeaderElector billing = group.elector("billing/nightly-run").listener(billingListener).build();
 * LeaderElector reports = group.elector("reports/mailer").listener(reportsListener).build();
 * group.start();
 * }</pre>
 *
 * <p>Each elector has a leader of its own and is used like any other {@link LeaderElector}; electors may be added and closed
 * while others run. What they share is the session: one try and one check serve all keys, and if the session is lost, so is
 * the leadership of all of them. Callbacks of one elector run one at a time; those of different electors run independently, so
 * that one that hangs holds up no other.
 *
 * <p>PostgreSQL keeps each lock in a table in shared memory with room for about {@code max_locks_per_transaction *
 * max_connections} locks of all sessions. When it's full, electors that didn't get a lock report {@code LOCK_TABLE_FULL} in
 * their status and try again; leaderships that the group has are kept.
 *
 * <p>Thread-safe. No method waits for the database but {@link #stop()} and {@link #close()}.
 */
public final class LeaderElectorGroup implements AutoCloseable {

    private static final Log LOG = Log.of(LeaderElectorGroup.class);

    /** How long a stop waits at a time before it looks whether what it waits for can still come. */
    private static final Duration LOOK_INTERVAL = Duration.ofMillis(200);

    private final String name;
    private final String instanceId;
    private final ElectorOptions options;
    private final String connectionDescription;
    private final Executor executor;
    private final CommandQueue commands = new CommandQueue();
    private final ElectionLoop loop;
    private final ElectionThread thread;
    private final ElectionRequests requests;

    private final Map<LockKey, LeaderElector> electors = new LinkedHashMap<>();
    private final Map<String, LeaderElector> electorsByName = new HashMap<>();
    private boolean closed;

    private LeaderElectorGroup(
            Builder builder, LockSession.Opener sessions, String connectionDescription, String name) {
        this.name = name;
        this.instanceId = builder.instanceId == null ? InstanceId.ofThisProcess() : builder.instanceId;
        this.options = builder.options;
        this.connectionDescription = connectionDescription;
        CallbackThreads threads = new CallbackThreads("pg-leader-" + name + "-callback");
        this.executor =
                builder.callbackExecutor == null ? threads : new UserExecutor(builder.callbackExecutor, threads);
        this.loop = new ElectionLoop(
                name,
                instanceId,
                options,
                builder.spread,
                new Surroundings(sessions, builder.ticker, new SplittableRandom(), Backoff.of(options)),
                commands);
        this.thread = new ElectionThread(name, loop, commands, Rehearsal::once);
        this.requests = new ElectionRequests(loop, commands);
    }

    /** A builder that needs a connection source. */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Begins an elector of this group that competes for {@code lockName}, see {@link LockKey#named(String)}.
     *
     * @see #elector(LockKey)
     */
    public MemberBuilder elector(String lockName) {
        return elector(LockKey.named(lockName));
    }

    /**
     * Begins an elector of this group, whose connection, instance id, options and callback executor are those of the group. When
     * it's built, a second elector with the same key or name is refused, unless the first is closed. Building starts nothing.
     */
    public MemberBuilder elector(LockKey key) {
        return new MemberBuilder(this).key(key);
    }

    /** Starts all electors that the group has now. */
    public void start() {
        electors().forEach(LeaderElector::start);
    }

    /**
     * Stops all electors that the group has now, all at the same time, and waits like {@link LeaderElector#stop()}.
     */
    public void stop() {
        leave(LeaderElector.State.STOPPED, options.closeTimeout());
    }

    /** {@link #stop() Stops} for good; no elector can be added any more. Closing twice does no harm. */
    @Override
    public void close() {
        close(options.closeTimeout());
    }

    /** Closes all electors within the budget, like {@link LeaderElector#close(Duration)}. */
    public void close(Duration budget) {
        synchronized (electors) {
            closed = true;
        }
        leave(LeaderElector.State.CLOSED, budget);
    }

    private void leave(LeaderElector.State next, Duration budget) {
        List<LeaderElector> leaving = electors();
        leaving.forEach(elector -> elector.beginToLeave(next, budget));
        awaitLeaving(leaving, budget);
    }

    /** The electors that haven't been closed and left, in the order in which they were built; a copy. */
    public List<LeaderElector> electors() {
        synchronized (electors) {
            // One that has just left may not have been removed yet: who waited for it may be faster.
            return electors.values().stream()
                    .filter(elector -> !elector.isClosed() || !elector.left().isDone())
                    .toList();
        }
    }

    /** What the group is called in logs and threads. */
    public String name() {
        return name;
    }

    /** Who this instance is among the candidates. */
    public String instanceId() {
        return instanceId;
    }

    /** The options in effect for all electors. */
    public ElectorOptions options() {
        return options;
    }

    @Override
    public String toString() {
        return "LeaderElectorGroup[" + name + ", " + electors().size() + " electors]";
    }

    // ---- for its electors

    ElectionRequests requests() {
        return requests;
    }

    Candidate newCandidate(String electorName, LockKey key, @Nullable BooleanSupplier campaignCondition) {
        return new Candidate(electorName, key, executor, campaignCondition, commands::wake);
    }

    /** Lets a candidate take part from now on; starts the election thread if nobody took part so far. */
    void enter(Candidate candidate, CandidateRun run, boolean paused) {
        thread.startWith(() -> loop.admit(candidate, run, paused));
    }

    LeaderStatus status(Candidate candidate, boolean isStarted) {
        return StatusReport.of(candidate, instanceId, isStarted, loop);
    }

    String connectionDescription() {
        return connectionDescription;
    }

    /** Takes an elector in, which begins when a closed one with the same key has left. */
    void add(LeaderElector added) {
        synchronized (electors) {
            if (closed) {
                throw new IllegalStateException("The group " + name + " is closed; build a new one");
            }
            LeaderElector sameKey = electors.get(added.key());
            if (sameKey != null && !sameKey.isClosed()) {
                throw new IllegalArgumentException("The group " + name + " has an elector for " + added.key()
                        + " already: " + sameKey.name() + "; close it first");
            }
            LeaderElector sameName = electorsByName.get(added.name());
            if (sameName != null && !sameName.isClosed()) {
                throw new IllegalArgumentException("The group " + name + " has an elector named " + added.name()
                        + " already, for " + sameName.key() + "; give this one another name");
            }
            if (sameKey != null) {
                added.succeed(sameKey);
            }
            electors.put(added.key(), added);
            electorsByName.put(added.name(), added);
        }
    }

    /** Forgets an elector that has left; returns false if that happened before. */
    boolean remove(LeaderElector left) {
        synchronized (electors) {
            electors.remove(left.key(), left);
            return electorsByName.remove(left.name(), left);
        }
    }

    /** How long callbacks may take if closing has this budget: the rest is for the round trips that follow them. */
    Duration revokeTimeoutWithin(Duration budget) {
        Duration left = budget.minus(reserve(budget).multipliedBy(2));
        return left.compareTo(options.revokeTimeout()) < 0 ? left : options.revokeTimeout();
    }

    /** The time to leave for one round trip: its bound, but no more than a quarter of the budget. */
    private Duration reserve(Duration budget) {
        Duration quarter = budget.dividedBy(4);
        return quarter.compareTo(options.healthCheckTimeout()) < 0 ? quarter : options.healthCheckTimeout();
    }

    /** Waits for electors that have begun to leave, unless that would be for the calling callback to return. */
    void awaitLeaving(Collection<LeaderElector> leaving, Duration budget) {
        if (leaving.stream().anyMatch(elector -> elector.candidate().isWaitedFor())) {
            return;
        }
        CompletableFuture<?>[] departures =
                leaving.stream().map(LeaderElector::left).toArray(CompletableFuture<?>[]::new);
        try {
            await(CompletableFuture.allOf(departures), leaving, budget);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void await(CompletableFuture<Void> left, Collection<LeaderElector> leaving, Duration budget)
            throws InterruptedException {
        long entries = thread.entries();
        boolean allLeave = electors().stream().allMatch(LeaderElector::isStopped);
        if (allLeave) {
            loop.breakOffQueueing();
        }
        Duration roundTrip = options.healthCheckTimeout();
        boolean inTerm = leaving.stream().anyMatch(elector -> isInTerm(elector.candidate()));
        Duration orderly = budget.minus(reserve(budget));
        Duration patience = inTerm || orderly.compareTo(roundTrip) < 0 ? orderly : roundTrip;
        if (isDone(left, leaving, patience)) {
            return;
        }
        if (allLeave) {
            thread.breakOff(entries);
        }
        if (!isDone(left, leaving, reserve(budget))) {
            LOG.warn(
                    "[{}] {} of {} electors haven't ended within {} ms; they don't lead, and end later",
                    name,
                    leaving.stream().filter(elector -> !elector.left().isDone()).count(),
                    leaving.size(),
                    budget.toMillis());
        }
    }

    private static boolean isInTerm(Candidate candidate) {
        return switch (candidate.standing().role()) {
            case LEADER, RESIGNING, REVOKING -> true;
            case STOPPED, FOLLOWER, TAKING_OVER -> false;
        };
    }

    /** Waits for the future, but not for callbacks that never return since they wait for the end of the JVM. */
    private static boolean isDone(CompletableFuture<Void> future, Collection<LeaderElector> leaving, Duration within)
            throws InterruptedException {
        long deadline = Ticker.SYSTEM.nanos() + within.toNanos();
        while (true) {
            long leftNanos = deadline - Ticker.SYSTEM.nanos();
            try {
                future.get(Math.min(Math.max(leftNanos, 0), LOOK_INTERVAL.toNanos()), TimeUnit.NANOSECONDS);
                return true;
            } catch (TimeoutException e) {
                if (leftNanos <= LOOK_INTERVAL.toNanos()) {
                    return false;
                }
                leaving.forEach(elector -> elector.candidate().abandonExitingCallbacks());
            } catch (ExecutionException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** Collects what an elector of a group needs. Not thread-safe. */
    public static final class MemberBuilder extends ElectorBuilder<MemberBuilder> {

        private final LeaderElectorGroup group;

        MemberBuilder(LeaderElectorGroup group) {
            this.group = group;
        }

        @Override
        MemberBuilder self() {
            return this;
        }

        @Override
        LeaderElectorGroup group(String electorName) {
            return group;
        }
    }

    /** Collects what a group needs. Not thread-safe. */
    public static final class Builder {

        private @Nullable ConnectionSource source;
        private LockSession.@Nullable Opener sessions;
        private @Nullable String name;
        private @Nullable String instanceId;
        private @Nullable Executor callbackExecutor;
        private @Nullable Spread spread;
        private ElectorOptions options = ElectorOptions.defaults();
        private Ticker ticker = Ticker.SYSTEM;

        Builder() {}

        /** Where the connection comes from that holds the locks. Required, but for a test with {@link #sessions}. */
        public Builder connectTo(ConnectionSource value) {
            source = value;
            return this;
        }

        /**
         * Takes sessions from here, in place of those on a connection: for tests whose sessions have no database behind
         * them. All that the electors promise rests on what the sessions do.
         */
        public Builder sessions(LockSession.Opener value) {
            sessions = value;
            return this;
        }

        /** What the group is called in logs and threads; by default {@code group}. */
        public Builder name(String value) {
            if (value.isBlank()) {
                throw new IllegalArgumentException("The name of a group must not be blank, but is \"" + value + "\"");
            }
            name = value;
            return this;
        }

        /**
         * Who this instance is among the candidates, as shown in {@code pg_stat_activity.application_name}; by default made
         * of host name, process id and a random number. Should be unique.
         *
         * @throws IllegalArgumentException if it isn't 1 to 53 printable ASCII characters without space
         */
        public Builder instanceId(String value) {
            if (value.isEmpty()
                    || value.length() > InstanceId.LONGEST
                    || !value.chars().allMatch(c -> c > ' ' && c < 0x7f)) {
                throw new IllegalArgumentException("An instance id must be 1 to " + InstanceId.LONGEST
                        + " printable ASCII characters without space, to fit into application_name, but is \"" + value
                        + "\"");
            }
            instanceId = value;
            return this;
        }

        /** How the electors behave; by default {@link ElectorOptions#defaults()}. */
        public Builder options(ElectorOptions value) {
            options = value;
            return this;
        }

        /**
         * Where callbacks run; by default on daemon threads of the group's own: a few, and one more whenever all of them
         * are held up. If the executor refuses a task, the callback runs on a thread of its own; but it must not accept a
         * task and drop it: an elector whose callbacks never return doesn't compete again.
         */
        public Builder callbackExecutor(Executor value) {
            callbackExecutor = value;
            return this;
        }

        /** Has the leaderships settle evenly over the instances; by default the first instance that comes takes all. */
        public Builder spread(Spread value) {
            spread = value;
            return this;
        }

        /** For tests of what a suspended machine does: the clocks of the election. */
        Builder ticker(Ticker value) {
            ticker = value;
            return this;
        }

        /**
         * The group; it has no electors yet.
         *
         * @throws IllegalStateException if the connection source is missing
         */
        public LeaderElectorGroup build() {
            return build(name == null ? "group" : name);
        }

        /** The group of a single elector, which lends it its name. */
        LeaderElectorGroup build(String defaultName) {
            if (spread != null && options.acquisitionMode() == AcquisitionMode.QUEUE) {
                throw new IllegalStateException("acquisitionMode QUEUE takes a key as soon as it's free, which a "
                        + spread + " forbids: choose one of them");
            }
            String groupName = name == null ? defaultName : name;
            if (sessions != null) {
                return new LeaderElectorGroup(this, sessions, sessions.toString(), groupName);
            }
            ConnectionSource database = source;
            if (database == null) {
                throw new IllegalStateException(
                        "connectTo(...) is missing: name the database, as in connectTo(ConnectionSource.of(url))");
            }
            return new LeaderElectorGroup(
                    this, settings -> LockSession.open(database, settings), database.toString(), groupName);
        }
    }
}
