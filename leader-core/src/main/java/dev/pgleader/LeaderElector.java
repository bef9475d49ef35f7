package dev.pgleader;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;

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
 * <p>From {@link #start()} on it competes for ever, through any outage, until it's stopped or closed. The {@linkplain
 * dev.pgleader package description} says what it guarantees and what it doesn't; above all, being the leader is no fencing token.
 *
 * <p>Thread-safe. No method waits for the database but {@link #stop()}, {@link #close()} and, as long as it is told to,
 * {@link #awaitLeadership}. All of its threads are daemons: an elector keeps no process alive.
 */
public final class LeaderElector implements AutoCloseable {

    private static final Log LOG = Log.of(LeaderElector.class);

    enum State {
        STOPPED,
        STARTED,
        CLOSED
    }

    private final LeaderElectorGroup group;
    private final ElectionRequests requests;
    private final Candidate candidate;

    private final Object lifecycle = new Object();
    private volatile State state = State.STOPPED;
    private boolean paused;
    private volatile CandidateRun run = CandidateRun.over();

    LeaderElector(ElectorBuilder<?> builder, LeaderElectorGroup group, String name, LockKey key) {
        this.group = group;
        this.requests = group.requests();
        this.candidate = group.newCandidate(name, key, builder.campaignCondition());
        builder.listeners().forEach(this::addListener);
        builder.observers().forEach(this::addObserver);
        this.paused = builder.isPaused();
    }

    /** A builder that needs a connection source and a key; for many electors on one connection see {@link LeaderElectorGroup}. */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Begins to compete for the leadership, and returns at once. Does nothing if it has begun already.
     *
     * @throws IllegalStateException if the elector is closed
     * @throws OutOfMemoryError if the system has no thread for the election; then it may be tried again
     */
    public void start() {
        synchronized (lifecycle) {
            if (state == State.CLOSED) {
                throw new IllegalStateException("The elector " + name() + " is closed; build a new one");
            }
            if (state == State.STARTED) {
                return;
            }
            begin();
            LOG.info(
                    "[{}] Starting as {} for {} on {}: {}",
                    name(),
                    group.instanceId(),
                    key(),
                    group.connectionDescription(),
                    group.options());
        }
    }

    /** Counts as started before it enters the election, so that nobody takes the election for deserted. */
    private void begin() {
        CandidateRun before = run;
        CandidateRun next = new CandidateRun();
        State stateBefore = state;
        state = State.STARTED;
        run = next;
        boolean begun = false;
        try {
            if (before.ended().isDone()) {
                enter(next);
            } else {
                var unused = before.ended().thenRun(() -> enterLater(next));
            }
            begun = true;
        } finally {
            if (!begun) {
                state = stateBefore;
                run = before;
            }
        }
    }

    /** Begins a run when the one before has ended, unless it was called off in the meantime. */
    private void enter(CandidateRun entering) {
        synchronized (lifecycle) {
            if (entering.isStopping()) {
                entering.ended().complete(null);
            } else {
                group.enter(candidate, entering, paused);
            }
        }
    }

    /** The same after {@link #start()} has returned, when nobody is there to hear of a failure. */
    private void enterLater(CandidateRun entering) {
        try {
            enter(entering);
        } catch (Throwable e) {
            state = State.STOPPED;
            entering.ended().complete(null);
            LOG.error(
                    "[{}] The elector couldn't be started again, and takes no part until start() is called", name(), e);
        }
    }

    /**
     * Leaves the election until it's started again. If this instance leads, {@link #isLeader()} is false from now on,
     * listeners hear {@link RevocationReason#CLOSED}, and when they have returned, at the latest after {@link
     * ElectorOptions#revokeTimeout()}, the lock is released. No term begins once this method was called.
     *
     * <p>Waits for all that, at most for {@link ElectorOptions#closeTimeout()}; called {@linkplain #isInCallback() in a callback} of this elector, or if the
     * calling thread is interrupted, it doesn't wait.
     */
    public void stop() {
        leave(State.STOPPED, options().closeTimeout());
    }

    /** {@link #stop() Stops} for good. Closing twice does no harm. */
    @Override
    public void close() {
        close(options().closeTimeout());
    }

    /**
     * {@link #close() Closes} within the budget: callbacks have less time than {@link ElectorOptions#revokeTimeout()} if the budget
     * demands it, and at its end the session is aborted, which frees the lock, unless other electors of the group need it.
     *
     * @throws IllegalArgumentException if the budget is negative
     */
    public void close(Duration budget) {
        if (budget.isNegative()) {
            throw new IllegalArgumentException("The budget of close must not be negative, but is " + budget);
        }
        leave(State.CLOSED, budget);
    }

    private void leave(State next, Duration budget) {
        beginToLeave(next, budget);
        group.awaitLeaving(List.of(this), budget);
    }

    /** Revokes the leadership in the calling thread; the rest is done by the election thread. */
    void beginToLeave(State next, Duration budget) {
        CandidateRun leaving;
        synchronized (lifecycle) {
            leaving = run;
            candidate.stop(leaving);
            // Also if it's stopping already: the later call may have less time.
            if (!leaving.ended().isDone()) {
                requests.signal(
                        candidate,
                        new CandidateState.Close(
                                group.revokeTimeoutWithin(budget).toNanos()));
            }
            if (state != State.CLOSED) {
                state = next;
            }
        }
        if (next == State.CLOSED) {
            var unused = leaving.ended().thenRun(this::depart);
        }
    }

    private void depart() {
        if (group.remove(this)) {
            candidate.observers.tellClosed();
        }
    }

    /** Has the first run begin when that of {@code other} has ended; before anyone else knows of this elector. */
    void succeed(LeaderElector other) {
        run = other.run;
    }

    /** Completed when the last run has ended. */
    CompletableFuture<Void> left() {
        return run.ended();
    }

    boolean isStopped() {
        return state != State.STARTED;
    }

    /** Whether it was closed, and so never leads again. */
    public boolean isClosed() {
        return state == State.CLOSED;
    }

    Candidate candidate() {
        return candidate;
    }

    /**
     * Whether this instance is the leader now. It is true only between the time at which a check has proved it and the end
     * of the {@linkplain ElectorOptions#trustWindow() trust window} of the last good check; it turns false by itself, even
     * if the election thread or the whole process was stopped in between. Never blocks, and asks nobody.
     */
    public boolean isLeader() {
        return candidate.leads();
    }

    /** The current term, if this instance is the leader now. */
    public Optional<Leadership> leadership() {
        return candidate.trustedLeadership();
    }

    /** What the elector is now; without asking the database. */
    public LeaderStatus status() {
        return group.status(candidate, state == State.STARTED);
    }

    /** Adds a listener. If this instance leads, the listener hears so. */
    public Registration addListener(LeadershipListener listener) {
        return candidate.dispatcher.add(Objects.requireNonNull(listener, "listener"))::run;
    }

    /** Adds an observer, which hears of what happens from now on. */
    public Registration addObserver(ElectionObserver observer) {
        candidate.observers.add(Objects.requireNonNull(observer, "observer"));
        return () -> candidate.observers.remove(observer);
    }

    /**
     * Runs the work on a thread of its own whenever this instance leads, and interrupts it when the term is revoked. A term
     * counts as revoked, and this process doesn't compete again, only when the work has ended: two runs never overlap in
     * one process. If the work throws while the term is valid, the elector steps down with {@link
     * RevocationReason#CALLBACK_FAILED}; if it returns, this instance goes on to lead and the work runs again in the next
     * term. Closing the registration ends the work like a revocation.
     */
    public Registration runWhileLeader(LeaderWork work) {
        return addListener(new WorkWhileLeader(
                name(),
                Objects.requireNonNull(work, "work"),
                candidate.calls,
                (leadership, failure) -> candidate.calls.reports().startFailed(leadership.term(), failure)));
    }

    /**
     * Runs the work in the calling thread if this instance is the leader now, as a {@linkplain #beginCall call} that isn't
     * interrupted. When leadership ends meanwhile the work runs on: it may ask the term that it's given.
     *
     * @return whether the work was run
     */
    public boolean runIfLeader(Consumer<Leadership> work) {
        Optional<LeaderCall> begun =
                beginCall("runIfLeader in thread " + Thread.currentThread().getName(), false);
        if (begun.isEmpty()) {
            return false;
        }
        try (LeaderCall call = begun.get()) {
            work.accept(call.leadership());
        }
        return true;
    }

    /**
     * Begins a call that is made only if this instance is the leader now, and that belongs to its term until it's {@linkplain
     * LeaderCall#close() closed}:
     *
     * <ul>
     *   <li>Once {@link #isLeader()} is false, no call begins.
     *   <li>When leadership is given up (resigned, paused, stopped, closed), the lock stays taken, and is checked, until the listeners'
     *       {@code onRevoked} has returned and then the calls have ended, at most for {@link ElectorOptions#revokeTimeout()}.
     *   <li>When it is lost there is nothing to hold, but this process doesn't compete again before they have ended.
     *   <li>Those that still run when the lock is gone are named in the log and told to {@link ElectionObserver#callsCutOff}.
     * </ul>
     *
     * <p>A call may call any method of the elector; {@link #stop()} and {@link #close()} don't wait if it does. If it waits for the
     * future of {@link #resign()} or {@link #pause()}, it waits for itself: the future is completed after the revoke timeout.
     *
     * @param callName what to name in the log, such as {@code Billing.nightly}
     * @param interruptible whether to interrupt the calling thread when the term ends before the call, once
     * @return empty if this instance isn't the leader
     */
    public Optional<LeaderCall> beginCall(String callName, boolean interruptible) {
        return leadership().flatMap(leadership -> candidate.calls.begin(callName, leadership, interruptible));
    }

    /**
     * Whether the calling code runs in a callback of this elector, or in a {@linkplain #beginCall call} that was begun in this thread:
     * whoever waits there for the end of a term waits for itself.
     */
    public boolean isInCallback() {
        return candidate.isWaitedFor();
    }

    /**
     * Waits until this instance leads.
     *
     * @return the term; empty if the time was over first
     * @throws InterruptedException if the calling thread is interrupted while it waits
     * @throws IllegalStateException if the elector is closed
     */
    public Optional<Leadership> awaitLeadership(Duration timeout) throws InterruptedException {
        if (isClosed()) {
            throw new IllegalStateException("The elector " + name() + " is closed and never leads again");
        }
        CompletableFuture<Leadership> elected = new CompletableFuture<>();
        candidate.futures.completeWhenElected(elected);
        try {
            Optional<Leadership> current = leadership();
            return current.isPresent() ? current : Optional.of(elected.get(timeout.toNanos(), TimeUnit.NANOSECONDS));
        } catch (TimeoutException e) {
            return leadership();
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        } finally {
            candidate.futures.forget(elected);
        }
    }

    /**
     * Gives leadership up, if this instance has it, in the order that {@link LeadershipListener} tells, and lets others go
     * first for the {@linkplain ElectorOptions#coolDown() cool-down}. It remains a candidate.
     *
     * @return completed when this instance doesn't hold the lock any more
     */
    public CompletableFuture<Void> resign() {
        return ifStarted(
                () -> requests.signalUntilReleased(candidate, new CandidateState.StepDown(RevocationReason.RESIGNED)));
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
            return ifStarted(() -> requests.signalUntilReleased(candidate, new CandidateState.Pause()));
        }
    }

    /** Competes again after a {@link #pause()}. */
    public void resume() {
        synchronized (lifecycle) {
            paused = false;
            if (state == State.STARTED) {
                requests.signal(candidate, new CandidateState.Resume());
            }
        }
    }

    /**
     * Asks whichever instance leads to resign. It does so if this session's database role is its own, or a superuser, and unless
     * it's told not to by {@link ElectorOptions#remoteResignation()}.
     *
     * @return completed when the request was sent; exceptionally with a {@link dev.pgleader.lock.LockSessionException} if it
     *     couldn't be, and then it isn't sent later
     */
    public CompletableFuture<Void> requestResignation() {
        return ifStarted(() -> requests.requestResignation(candidate));
    }

    /**
     * Has the database asked now, before a critical step, whether this instance still leads.
     *
     * @return completed with true if a check that began after this call proved it; never exceptionally for a lost session
     */
    public CompletableFuture<Boolean> verify() {
        return ifStarted(() -> requests.verify(candidate));
    }

    /**
     * Asks the database who leads now.
     *
     * @return completed with the holder of the lock, empty if it's free; exceptionally with a {@link
     *     dev.pgleader.lock.LockSessionException} if the database can't be asked
     */
    public CompletableFuture<Optional<LeaderInfo>> currentLeader() {
        return ifStarted(() -> requests.findLeader(candidate));
    }

    /** Posts the request if there is an election to take it up; if there's none, the future fails. */
    private <T> CompletableFuture<T> ifStarted(Supplier<CompletableFuture<T>> request) {
        synchronized (lifecycle) {
            return state == State.STARTED
                    ? request.get()
                    : CompletableFuture.failedFuture(
                            new IllegalStateException("The elector " + name() + " isn't started"));
        }
    }

    /** What the elector is called in logs and metrics. */
    public String name() {
        return candidate.name;
    }

    /** What it competes for. */
    public LockKey key() {
        return candidate.key;
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
        return "LeaderElector[" + name() + ", " + candidate.standing().role() + "]";
    }

    /** Collects what an elector with a connection of its own needs. Not thread-safe. */
    public static final class Builder extends ElectorBuilder<Builder> {

        private final LeaderElectorGroup.Builder ownGroup = LeaderElectorGroup.builder();

        Builder() {}

        @Override
        Builder self() {
            return this;
        }

        /** Where the connection comes from that holds the lock. Required. */
        public Builder connectTo(ConnectionSource value) {
            ownGroup.connectTo(value);
            return this;
        }

        /** See {@link LeaderElectorGroup.Builder#instanceId}. */
        public Builder instanceId(String value) {
            ownGroup.instanceId(value);
            return this;
        }

        /** How the elector behaves; by default {@link ElectorOptions#defaults()}. */
        public Builder options(ElectorOptions value) {
            ownGroup.options(value);
            return this;
        }

        /** See {@link LeaderElectorGroup.Builder#callbackExecutor}. */
        public Builder callbackExecutor(Executor value) {
            ownGroup.callbackExecutor(value);
            return this;
        }

        @Override
        LeaderElectorGroup group(String electorName) {
            return ownGroup.build(electorName);
        }
    }
}
