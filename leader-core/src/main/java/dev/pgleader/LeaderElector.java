package dev.pgleader;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes part in the election of one leader among all processes that use the same {@linkplain LockKey key} in the same
 * PostgreSQL database.
 *
 * <pre>{@code
 * LeaderElector elector = LeaderElector.builder()
 *         .connectTo(ConnectionSource.of("jdbc:postgresql://db/app", "app", password))
 *         .key("billing/nightly-run")
 *         .listener(listener)
 *         .build();
 * elector.start();
 * }</pre>
 *
 * <p>From {@link #start()} on it competes for ever, through any outage, until it's stopped or closed. What it guarantees and
 * what it doesn't stands at {@link dev.pgleader this package}; above all, being the leader is no fencing token.
 *
 * <p>Thread-safe. No method waits for the database but {@link #stop()}, {@link #close()} and, as long as it is told to,
 * {@link #awaitLeadership}. All of its threads are daemons: an elector keeps no process alive.
 */
public final class LeaderElector implements AutoCloseable {

    private static final Logger LOG = LoggerFactory.getLogger(LeaderElector.class);

    enum State {
        STOPPED,
        STARTED,
        CLOSED
    }

    /** Something to do on the election thread. */
    private interface Command {
        void run() throws Exception;
    }

    private final LeaderElectorGroup group;
    private final ElectionLoop loop;
    private final String name;
    private final LockKey key;
    private final Contender contender;

    private final Object lifecycle = new Object();
    private volatile State state = State.STOPPED;
    private boolean paused;
    private volatile CompletableFuture<Void> left = CompletableFuture.completedFuture(null);

    private LeaderElector(Builder builder, LeaderElectorGroup group, String name, LockKey key) {
        this.group = group;
        this.loop = group.loop();
        this.name = name;
        this.key = key;
        this.contender = new Contender(name, key, group.executor(), group.ticker(), new CallbackOutcome());
        if (builder.campaignCondition != null) {
            contender.campaignWhen(builder.campaignCondition);
        }
        builder.listeners.forEach(this::addListener);
        builder.observers.forEach(this::addObserver);
        this.paused = builder.paused;
    }

    /** A builder that needs a connection source and a key; for many electors on one connection see {@link LeaderElectorGroup}. */
    public static Builder builder() {
        return new Builder(null);
    }

    /**
     * Begins to compete for the leadership, and returns at once. Does nothing if it has begun already.
     *
     * @throws IllegalStateException if the elector is closed
     */
    public void start() {
        synchronized (lifecycle) {
            if (state == State.CLOSED) {
                throw new IllegalStateException("The elector " + name + " is closed; build a new one");
            }
            if (state == State.STARTED) {
                return;
            }
            state = State.STARTED;
            LOG.info(
                    "[{}] Starting as {} for {} on {}: {}",
                    name,
                    group.instanceId(),
                    key,
                    group.connectionDescription(),
                    group.options());
            CompletableFuture<Void> leaving = left;
            CompletableFuture<Void> leavesNext = new CompletableFuture<>();
            left = leavesNext;
            var unused = leaving.thenRun(() -> enter(leavesNext));
        }
    }

    /** Begins a run when the one before has ended, unless it was called off in the meantime. */
    private void enter(CompletableFuture<Void> leaves) {
        synchronized (lifecycle) {
            if (state == State.STARTED && left == leaves) {
                loop.enter(contender, paused, leaves);
            } else {
                leaves.complete(null);
            }
        }
    }

    /**
     * Takes no part any more, until it's started again. If this instance leads, {@link #isLeader()} is false at once,
     * listeners hear {@link RevocationReason#CLOSED}, and when they have returned, at the latest after {@link
     * ElectorOptions#revokeTimeout()}, the lock is released.
     *
     * <p>Waits for all that, at most for the revoke timeout and four times {@link ElectorOptions#healthCheckTimeout()};
     * called in a callback of this elector, or if the calling thread is interrupted, it doesn't wait.
     */
    public void stop() {
        leave(State.STOPPED);
    }

    /** {@link #stop() Stops} for good. Closing twice does no harm. */
    @Override
    public void close() {
        leave(State.CLOSED);
    }

    private void leave(State next) {
        beginToLeave(next);
        group.awaitLeaving(List.of(this));
    }

    void beginToLeave(State next) {
        synchronized (lifecycle) {
            if (state == State.STARTED) {
                loop.signal(contender, new Candidacy.Close());
            }
            if (state != State.CLOSED) {
                state = next;
            }
        }
        if (next == State.CLOSED) {
            var unused = left.thenRun(() -> group.remove(this));
        }
    }

    /** Has the first run begin when {@code others} has ended; before anyone else knows of this elector. */
    void succeed(CompletableFuture<Void> others) {
        left = others;
    }

    /** Completed when the last run has ended. */
    CompletableFuture<Void> left() {
        return left;
    }

    boolean isStopped() {
        return state != State.STARTED;
    }

    boolean isClosed() {
        return state == State.CLOSED;
    }

    boolean isInCallback() {
        return contender.dispatcher.isInCallback();
    }

    boolean isInTerm() {
        return contender.standing.role() != LeaderStatus.Role.FOLLOWER;
    }

    /**
     * Whether this instance is the leader now. It is true only between the time at which a check has proved it and the end
     * of the {@linkplain ElectorOptions#trustWindow() trust window} of the last good check; it turns false by itself, even
     * if the election thread or the whole process was stopped in between. Never blocks, and asks nobody.
     */
    public boolean isLeader() {
        return contender.leads();
    }

    /** The current term, if this instance is the leader now. */
    public Optional<Leadership> leadership() {
        return contender.trustedLeadership();
    }

    /** What the elector is now; without asking the database. */
    public LeaderStatus status() {
        Contender.Standing standing = contender.standing;
        SessionKeeper.View view = loop.view();
        long now = group.ticker().nanos();
        LockSession.Facts facts = view.facts();
        boolean wantsLock = standing.role() == LeaderStatus.Role.FOLLOWER;
        Outage problem = view.outage() == null && wantsLock ? loop.shortage() : view.outage();
        boolean trusted = standing.lease().isValid();
        LeaderStatus.Role role =
                standing.role() == LeaderStatus.Role.LEADER && !trusted ? LeaderStatus.Role.REVOKING : standing.role();
        return new LeaderStatus(
                name,
                key,
                group.instanceId(),
                role,
                standing.paused(),
                standing.terms(),
                Optional.ofNullable(standing.leadership())
                        .filter(term -> trusted)
                        .map(Leadership::since),
                Optional.ofNullable(standing.lastRevocation()),
                Optional.ofNullable(standing.knownLeader()),
                Optional.ofNullable(facts)
                        .map(f -> new LeaderStatus.Session(
                                f.backendPid(), f.database(), f.serverVersion(), f.leaseEnforced())),
                Optional.ofNullable(view.lastCheckAt()).map(at -> Duration.ofNanos(now - at)),
                Optional.ofNullable(loop.lastAttemptAt()).map(at -> Duration.ofNanos(now - at)),
                Optional.ofNullable(problem)
                        .map(o -> new LeaderStatus.Problem(o.fault(), o.message(), Duration.ofNanos(now - o.since()))));
    }

    /** Adds a listener. If this instance leads, the listener hears so. */
    public Registration addListener(LeadershipListener listener) {
        return contender.dispatcher.add(Objects.requireNonNull(listener, "listener"))::run;
    }

    /** Adds an observer, which hears of what happens from now on. */
    public void addObserver(ElectionObserver observer) {
        contender.addObserver(Objects.requireNonNull(observer, "observer"));
    }

    /**
     * Runs the work on a thread of its own whenever this instance leads, and interrupts it when the term is revoked. A term
     * counts as revoked, and this process doesn't compete again, only when the work has ended: two runs never overlap in
     * one process. If the work throws while the term is valid, the elector steps down with {@link
     * RevocationReason#CALLBACK_FAILED}; if it returns, this instance goes on to lead and the work runs again in the next
     * term. Closing the registration ends the work like a revocation.
     */
    public Registration runWhileLeader(LeaderWork work) {
        return addListener(new WorkWhileLeader(name, Objects.requireNonNull(work, "work"), (leadership, failure) -> {
            contender.observe(observer -> observer.callbackFailed(failure));
            loop.signal(contender, new Candidacy.StartFailed(leadership.term()));
        }));
    }

    /**
     * Runs the work in the calling thread if this instance is the leader now. Nothing stops it when leadership is lost
     * meanwhile: it may ask the term that it's given.
     *
     * @return whether the work was run
     */
    public boolean runIfLeader(Consumer<Leadership> work) {
        Optional<Leadership> current = leadership();
        current.ifPresent(work);
        return current.isPresent();
    }

    /**
     * Waits until this instance leads.
     *
     * @return the term; empty if the time was over first
     * @throws InterruptedException if the calling thread is interrupted while it waits
     */
    public Optional<Leadership> awaitLeadership(Duration timeout) throws InterruptedException {
        Optional<Leadership> current = leadership();
        if (current.isPresent()) {
            return current;
        }
        CompletableFuture<Leadership> elected = new CompletableFuture<>();
        loop.post(() -> contender.whenElected(elected));
        try {
            return Optional.of(elected.get(TimeUnit.NANOSECONDS.convert(timeout), TimeUnit.NANOSECONDS));
        } catch (TimeoutException e) {
            return leadership();
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        } finally {
            elected.cancel(false);
        }
    }

    /**
     * Gives leadership up, if this instance has it, in the order that {@link LeadershipListener} tells, and lets others go
     * first for the {@linkplain ElectorOptions#coolDown() cool-down}. It remains a candidate.
     *
     * @return completed when this instance doesn't hold the lock any more
     */
    public CompletableFuture<Void> resign() {
        return giveWay(new Candidacy.StepDown(RevocationReason.RESIGNED));
    }

    /**
     * Gives leadership up like {@link #resign()}, and doesn't compete until {@link #resume()}, also not after a stop and a
     * start.
     *
     * @return completed when this instance doesn't hold the lock any more
     */
    public CompletableFuture<Void> pause() {
        synchronized (lifecycle) {
            paused = true;
        }
        return giveWay(new Candidacy.Pause());
    }

    /** Competes again after a {@link #pause()}. */
    public void resume() {
        synchronized (lifecycle) {
            paused = false;
        }
        loop.signal(contender, new Candidacy.Resume());
    }

    private CompletableFuture<Void> giveWay(Candidacy.Signal signal) {
        CompletableFuture<Void> released = new CompletableFuture<>();
        onElection(released, () -> {
            contender.untilReleased.add(released);
            loop.apply(contender, signal);
        });
        return released;
    }

    /**
     * Asks whichever instance leads to resign.
     *
     * @return completed when the request is on its way; exceptionally if there is no session to send it on
     */
    public CompletableFuture<Void> requestResign() {
        CompletableFuture<Void> sent = new CompletableFuture<>();
        onElection(sent, () -> {
            if (!loop.requestResignation(contender)) {
                throw new IllegalStateException("There is no session to send the request on");
            }
            contender.completeAside(sent);
        });
        return sent;
    }

    /**
     * Has the database asked now, before a critical step, whether this instance still leads.
     *
     * @return completed with true if a check that began after this call proved it; never exceptionally for a lost session
     */
    public CompletableFuture<Boolean> verify() {
        CompletableFuture<Boolean> verified = new CompletableFuture<>();
        onElection(verified, () -> {
            loop.verify(proven -> contender.completeAside(verified, proven && contender.leads()));
        });
        return verified;
    }

    /**
     * Asks the database who leads now.
     *
     * @return completed with the holder of the lock, empty if it's free; exceptionally with a {@link
     *     dev.pgleader.lock.LockSessionException} if the database can't be asked
     */
    public CompletableFuture<Optional<LeaderInfo>> currentLeader() {
        CompletableFuture<Optional<LeaderInfo>> found = new CompletableFuture<>();
        onElection(found, () -> {
            contender.completeAside(found, loop.findLeader(contender));
        });
        return found;
    }

    /** Runs the command on the election thread; if it throws, or there is no election, the future fails. */
    private void onElection(CompletableFuture<?> future, Command command) {
        synchronized (lifecycle) {
            if (state != State.STARTED) {
                future.completeExceptionally(new IllegalStateException("The elector " + name + " isn't started"));
                return;
            }
            loop.post(() -> {
                try {
                    command.run();
                } catch (Exception e) {
                    contender.failAside(future, e);
                }
            });
        }
    }

    /** What the elector is called in logs and metrics. */
    public String name() {
        return name;
    }

    /** What it competes for. */
    public LockKey key() {
        return key;
    }

    /** Who this instance is among the candidates. */
    public String instanceId() {
        return group.instanceId();
    }

    /** The options in effect. */
    public ElectorOptions options() {
        return group.options();
    }

    @Override
    public String toString() {
        return "LeaderElector[" + name + ", " + contender.standing.role() + "]";
    }

    private final class CallbackOutcome implements ListenerDispatcher.Outcome {

        @Override
        public void started(long term) {
            contender.takenUpTerm = term;
        }

        @Override
        public void startFailed(long term, Throwable failure) {
            contender.observe(observer -> observer.callbackFailed(failure));
            loop.signal(contender, new Candidacy.StartFailed(term));
        }

        @Override
        public void drained(long term) {
            loop.signal(contender, new Candidacy.Drained(term));
        }

        @Override
        public void revokeFailed(long term, Throwable failure) {
            contender.observe(observer -> observer.callbackFailed(failure));
        }
    }

    /** Collects what an elector needs. Not thread-safe. */
    public static final class Builder {

        private final @Nullable LeaderElectorGroup group;
        private final LeaderElectorGroup.Builder ownGroup = LeaderElectorGroup.builder();
        private @Nullable LockKey key;
        private @Nullable String name;
        private boolean paused;
        private @Nullable BooleanSupplier campaignCondition;
        private final List<LeadershipListener> listeners = new ArrayList<>();
        private final List<ElectionObserver> observers = new ArrayList<>();

        /** An elector of {@code group}, or else with a connection of its own. */
        Builder(@Nullable LeaderElectorGroup group) {
            this.group = group;
        }

        /**
         * Where the connection comes from that holds the lock. Required.
         *
         * @throws IllegalStateException if the elector belongs to a group
         */
        public Builder connectTo(ConnectionSource value) {
            ownGroup("connectTo").connectTo(value);
            return this;
        }

        /** What to compete for, by {@linkplain LockKey#named(String) name}. Required, or {@link #key(LockKey)}. */
        public Builder key(String lockName) {
            return key(LockKey.named(lockName));
        }

        /** What to compete for. */
        public Builder key(LockKey value) {
            key = value;
            return this;
        }

        /** What the elector is called in logs and metrics; by default the name of the key. */
        public Builder name(String value) {
            if (value.isBlank()) {
                throw new IllegalArgumentException("The name of an elector must not be blank");
            }
            name = value;
            return this;
        }

        /**
         * Who this instance is among the candidates, as shown in {@code pg_stat_activity.application_name}; by default made
         * of host name, process id and a random number. Should be unique.
         *
         * @throws IllegalArgumentException if it isn't 1 to 53 printable ASCII characters without space
         * @throws IllegalStateException if the elector belongs to a group
         */
        public Builder instanceId(String value) {
            ownGroup("instanceId").instanceId(value);
            return this;
        }

        /**
         * How the elector behaves; by default {@link ElectorOptions#defaults()}.
         *
         * @throws IllegalStateException if the elector belongs to a group
         */
        public Builder options(ElectorOptions value) {
            ownGroup("options").options(value);
            return this;
        }

        /** Adds a listener. */
        public Builder listener(LeadershipListener value) {
            listeners.add(value);
            return this;
        }

        /** Adds an observer. */
        public Builder observer(ElectionObserver value) {
            observers.add(value);
            return this;
        }

        /**
         * Where callbacks run; by default on daemon threads of the elector's own. Callbacks of one elector run one at a time
         * whatever the executor does. If it refuses a task, the callback runs on a thread of its own; but it must not
         * accept a task and drop it: an elector whose callbacks never return doesn't compete again.
         *
         * @throws IllegalStateException if the elector belongs to a group
         */
        public Builder callbackExecutor(Executor value) {
            ownGroup("callbackExecutor").callbackExecutor(value);
            return this;
        }

        /**
         * Has this instance compete only while the condition holds, such as that its caches are warm. It is asked on the
         * callback executor, about once a {@link ElectorOptions#retryInterval()} while there is something to compete for;
         * if it throws, it doesn't hold. A leader isn't asked: to give leadership up, {@link LeaderElector#resign()}.
         */
        public Builder campaignWhen(BooleanSupplier condition) {
            campaignCondition = condition;
            return this;
        }

        /** Whether the elector sits the election out until {@link LeaderElector#resume()}. */
        public Builder paused(boolean value) {
            paused = value;
            return this;
        }

        private LeaderElectorGroup.Builder ownGroup(String property) {
            if (group != null) {
                throw new IllegalStateException(
                        property + " is common to all electors of a group: set it on the builder of " + group.name()
                                + ", the group");
            }
            return ownGroup;
        }

        /**
         * The elector; it does nothing before {@link LeaderElector#start()}.
         *
         * @throws IllegalStateException if connection source or key is missing, or the group is closed
         * @throws IllegalArgumentException if the group has an elector with this key or name already
         */
        public LeaderElector build() {
            if (key == null) {
                throw new IllegalStateException(
                        "key(...) is missing: name what the instances compete for, such as \"billing/nightly-run\"");
            }
            String electorName = name == null ? key.name().orElseGet(key::toString) : name;
            LeaderElectorGroup joined = group == null ? ownGroup.build(electorName) : group;
            LeaderElector elector = new LeaderElector(this, joined, electorName, key);
            joined.add(elector);
            return elector;
        }
    }
}
