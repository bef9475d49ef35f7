package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One elector's part in an election: its candidacy, which belongs to the election thread, and what it shows the world, which
 * that thread alone writes and any thread reads.
 */
final class Contender {

    private static final Logger LOG = LoggerFactory.getLogger(Contender.class);

    /**
     * What the world sees of a contender.
     *
     * @param leadership the current term; null if it doesn't lead
     * @param lease the lease that {@code isLeader()} asks; never valid without a term
     */
    record Standing(
            LeaderStatus.Role role,
            boolean paused,
            long terms,
            @Nullable Leadership leadership,
            Lease lease,
            @Nullable RevocationReason lastRevocation,
            @Nullable LeaderInfo knownLeader) {}

    final String name;
    final LockKey key;
    final Executor executor;
    final ListenerDispatcher dispatcher;
    private final CallbackQueue observerQueue;
    private final List<ElectionObserver> observers = new CopyOnWriteArrayList<>();
    private final Lease noLease;

    // Of the election thread.
    Candidacy candidacy;
    /** The current term; null exactly if the candidacy doesn't lead. */
    @Nullable
    Leadership leadership;

    @Nullable
    RevocationReason lastRevocation;

    @Nullable
    LeaderInfo knownLeader;

    long termStartedAt;
    /** The last term that all listeners took up; whether their work goes well is still to be seen. Of the callbacks. */
    volatile long takenUpTerm;

    /** Whether the lock was given up in order since it was last seen taken. */
    boolean releasedInOrder;
    /** Asked before each try whether to campaign; null if that needs no asking. */
    private @Nullable BooleanSupplier gate;
    /** What the gate said last. */
    private boolean gateOpen = true;

    private boolean askingGate;
    /** Whether this session has asked who leads. */
    boolean askedWhoLeads;
    /** Completed when the lock isn't held any more. */
    final List<CompletableFuture<Void>> untilReleased = new ArrayList<>();
    /** Completed when a term begins. */
    final List<CompletableFuture<Leadership>> untilElected = new ArrayList<>();
    /** Completed when it takes part no more. */
    CompletableFuture<Void> left = new CompletableFuture<>();

    volatile Standing standing;

    Contender(String name, LockKey key, Executor executor, Ticker ticker, ListenerDispatcher.Outcome outcome) {
        this.name = name;
        this.key = key;
        this.executor = executor;
        this.dispatcher = new ListenerDispatcher(name, executor, outcome);
        this.observerQueue = new CallbackQueue(executor, "pg-leader-" + name + "-observer");
        this.noLease = Lease.ended(ticker);
        this.candidacy = new Candidacy(new Candidacy.Closed(), 0, 0, false, false);
        this.standing = currentStanding();
    }

    void addObserver(ElectionObserver observer) {
        observers.add(observer);
    }

    void observe(Consumer<ElectionObserver> event) {
        if (!observers.isEmpty()) {
            observerQueue.execute(() -> observers.forEach(observer -> tell(observer, event)));
        }
    }

    private void tell(ElectionObserver observer, Consumer<ElectionObserver> event) {
        try {
            event.accept(observer);
        } catch (Throwable e) {
            LOG.error("[{}] The observer {} failed", name, observer, e);
        }
    }

    /** Has the candidate campaign only while {@code condition} holds; before the election begins. */
    void campaignWhen(BooleanSupplier condition) {
        gate = condition;
        gateOpen = false;
    }

    /** Whether it competes now, as far as the gate has said so far. */
    boolean campaigns(long now) {
        return gateOpen && candidacy.wantsLock(now);
    }

    /** Asks the gate anew, if there is one and something to compete for. */
    void askGate(long now, Consumer<Runnable> electionThread, Runnable onOpened) {
        BooleanSupplier asked = gate;
        if (asked == null || askingGate || !candidacy.wantsLock(now)) {
            return;
        }
        askingGate = true;
        runAside(() -> {
            boolean open = ask(asked);
            electionThread.accept(() -> {
                askingGate = false;
                boolean opened = open && !gateOpen;
                gateOpen = open;
                if (opened) {
                    onOpened.run();
                }
            });
        });
    }

    private boolean ask(BooleanSupplier asked) {
        try {
            return asked.getAsBoolean();
        } catch (Throwable e) {
            LOG.error("[{}] The condition to campaign failed, which counts as no", name, e);
            return false;
        }
    }

    /** Shows the world what it is now. */
    void publish() {
        standing = currentStanding();
    }

    private Standing currentStanding() {
        return new Standing(
                role(),
                candidacy.paused(),
                candidacy.terms(),
                leadership,
                leadership == null ? noLease : leadership.lease(),
                lastRevocation,
                knownLeader);
    }

    private LeaderStatus.Role role() {
        Candidacy.Phase phase = candidacy.phase();
        if (phase instanceof Candidacy.Follower) {
            return LeaderStatus.Role.FOLLOWER;
        } else if (phase instanceof Candidacy.TakingOver) {
            return LeaderStatus.Role.TAKING_OVER;
        } else if (phase instanceof Candidacy.Leader) {
            return LeaderStatus.Role.LEADER;
        } else if (phase instanceof Candidacy.Resigning) {
            return LeaderStatus.Role.RESIGNING;
        } else if (phase instanceof Candidacy.Draining) {
            return LeaderStatus.Role.REVOKING;
        }
        return LeaderStatus.Role.STOPPED;
    }

    /** Where {@code isLeader()} looks: true exactly as long as the current term may be trusted. */
    boolean leads() {
        return standing.lease().isValid();
    }

    /** The current term if it may be trusted. */
    Optional<Leadership> trustedLeadership() {
        return Optional.ofNullable(standing.leadership()).filter(Leadership::isValid);
    }

    /** Completes the future at the next term, or now if there is one. */
    void whenElected(CompletableFuture<Leadership> future) {
        untilElected.removeIf(CompletableFuture::isDone);
        trustedLeadership().ifPresentOrElse(term -> completeAside(future, term), () -> untilElected.add(future));
    }

    void completeElected(Leadership leadership) {
        untilElected.forEach(future -> completeAside(future, leadership));
        untilElected.clear();
    }

    void completeReleased() {
        untilReleased.forEach(this::completeAside);
        untilReleased.clear();
    }

    // User code may hang on a future, so none is completed on the election thread.

    <T> void completeAside(CompletableFuture<T> future, T value) {
        runAside(() -> future.complete(value));
    }

    void completeAside(CompletableFuture<Void> future) {
        runAside(() -> future.complete(null));
    }

    void failAside(CompletableFuture<?> future, Throwable failure) {
        runAside(() -> future.completeExceptionally(failure));
    }

    void completeRevoked(Leadership ended, RevocationReason reason) {
        runAside(() -> ended.completeRevoked(reason));
    }

    void completeLeft() {
        left.complete(null);
    }

    private void runAside(Runnable task) {
        new CallbackQueue(executor, "pg-leader-" + name + "-future").execute(task);
    }

    Duration termAge(long now) {
        return Duration.ofNanos(now - termStartedAt);
    }
}
