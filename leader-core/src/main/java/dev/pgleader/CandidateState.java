package dev.pgleader;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The state of one candidate, and the pure function that changes it: from a state and a {@link Signal} to the next state and
 * the {@link Effect}s to carry out. It reads no clock; all times are readings of the election's {@link Ticker}.
 *
 * @param phase what the candidate is now, named as {@link LeaderStatus.Role} names it
 * @param terms how many terms it has led so far
 * @param failedStarts how many terms in a row ended because the leader's work couldn't start
 * @param paused whether it doesn't compete until it's resumed
 * @param closing whether it stops as soon as it may
 */
record CandidateState(Phase phase, long terms, int failedStarts, boolean paused, boolean closing) {

    /** A candidate whose work can't start waits for at most 32 times the cool-down. */
    private static final int MOST_COOL_DOWN_DOUBLINGS = 5;

    sealed interface Phase {}

    /** Doesn't hold the lock; competes for it from {@code notBefore} on. */
    record Follower(long notBefore) implements Phase {}

    /** Holds the lock; leads from {@code actFrom} on. */
    record TakingOver(long actFrom) implements Phase {}

    /** Holds the lock and leads. */
    record Leader() implements Phase {}

    /** Holds the lock until {@code onRevoked} has returned, at the longest until {@code releaseBy}. */
    record Resigning(long releaseBy) implements Phase {}

    /**
     * No longer holds the lock; waits for {@code onRevoked} to return.
     *
     * @param giveUpBy for how long, if it is closing
     * @param coolsDown whether it lets others go first then, because it gave way of its own accord
     */
    record Revoking(long giveUpBy, boolean coolsDown) implements Phase {}

    /** Takes no part in the election. */
    record Stopped() implements Phase {}

    sealed interface Signal {}

    /** The lock was granted and a check has shown it. */
    record LockTaken(long actFrom) implements Signal {}

    /** The lock isn't held any more, or can't be trusted to be. */
    record LockLost(RevocationReason reason) implements Signal {}

    /** Somebody wants this instance to give way, and to compete again after its cool-down. */
    record StepDown(RevocationReason reason) implements Signal {}

    /** The leader's work of a term couldn't start. */
    record StartFailed(long term) implements Signal {}

    /** The leader's work of a term has started, and gone on for the longest cool-down: earlier failures are forgotten. */
    record Started(long term) implements Signal {}

    /** All callbacks of a term have returned. */
    record Drained(long term) implements Signal {}

    record Pause() implements Signal {}

    record Resume() implements Signal {}

    /**
     * The candidate is to stop.
     *
     * @param revokeTimeout how long the lock is kept for the callbacks at the most; not longer than {@link Times#revokeTimeout}
     */
    record Close(long revokeTimeout) implements Signal {}

    /** Nothing happened but that time went by. */
    record Tick() implements Signal {}

    sealed interface Effect {}

    /** A term begins: publish it, then tell the listeners. */
    record BeginTerm(long term) implements Effect {}

    /** The current term ends: end its lease, publish that, then tell the listeners. */
    record EndTerm(RevocationReason reason) implements Effect {}

    /** Release the lock. */
    record ReleaseLock() implements Effect {}

    record Transition(CandidateState next, List<Effect> effects) {}

    /**
     * The times that a transition depends on, in nanoseconds.
     *
     * @param coolDown how long to let others go first
     * @param revokeTimeout how long a voluntary exit waits for the callbacks
     */
    record Times(long coolDown, long revokeTimeout) {}

    /** How long a candidate waits at the most when its work can't start again and again. */
    static long longestCoolDown(Times times) {
        return times.coolDown() << MOST_COOL_DOWN_DOUBLINGS;
    }

    /** A candidate before its first start. */
    static CandidateState stopped() {
        return new CandidateState(new Stopped(), 0, 0, false, false);
    }

    /**
     * A candidate that has led {@code terms} terms before and competes at once, or as soon as the callbacks of the last one have
     * returned.
     */
    static CandidateState start(long terms, boolean paused, boolean drained, long now) {
        return new CandidateState(drained ? new Follower(now) : new Revoking(now, false), terms, 0, paused, false);
    }

    boolean holdsLock() {
        return phase instanceof TakingOver || phase instanceof Leader || phase instanceof Resigning;
    }

    boolean leads() {
        return phase instanceof Leader;
    }

    /** Whether its term is over and the callbacks of that term haven't all returned. */
    boolean isEndingTerm() {
        return phase instanceof Resigning || phase instanceof Revoking;
    }

    boolean isStopped() {
        return phase instanceof Stopped;
    }

    /** Whether it competes for the lock now. */
    boolean wantsLock(long now) {
        return !paused && phase instanceof Follower follower && now - follower.notBefore() >= 0;
    }

    /** When a {@link Tick} will change something or the lock will be wanted; null if only another signal will. */
    @Nullable
    Long dueAt() {
        if (phase instanceof Follower follower) {
            return paused ? null : (Long) follower.notBefore();
        } else if (phase instanceof TakingOver takingOver) {
            return takingOver.actFrom();
        } else if (phase instanceof Resigning resigning) {
            return resigning.releaseBy();
        } else if (phase instanceof Revoking revoking) {
            return closing ? (Long) revoking.giveUpBy() : null;
        }
        return null;
    }

    Transition on(Signal signal, long now, Times times) {
        if (signal instanceof LockTaken taken) {
            return onLockTaken(taken, now);
        } else if (signal instanceof LockLost lost) {
            return onLockLost(lost.reason(), now, times);
        } else if (signal instanceof StepDown stepDown) {
            return onStepDown(stepDown.reason(), times.coolDown(), now, times);
        } else if (signal instanceof StartFailed failed) {
            return onStartFailed(failed, now, times);
        } else if (signal instanceof Started started) {
            return leads() && started.term() == terms ? stay(withFailedStarts(0)) : stay(this);
        } else if (signal instanceof Drained drained) {
            return drained.term() == terms ? onDrained(now, times) : stay(this);
        } else if (signal instanceof Pause) {
            return withPaused(true).onStepDown(RevocationReason.RESIGNED, 0, now, times);
        } else if (signal instanceof Resume) {
            return stay(withPaused(false));
        } else if (signal instanceof Close close) {
            return onClose(now, new Times(times.coolDown(), Math.min(close.revokeTimeout(), times.revokeTimeout())));
        }
        return onTick(now);
    }

    private Transition onLockTaken(LockTaken taken, long now) {
        if (!(phase instanceof Follower)) {
            throw new IllegalStateException("Took a lock as " + this);
        }
        return taken.actFrom() - now > 0 ? stay(with(new TakingOver(taken.actFrom()))) : beginTerm();
    }

    private Transition beginTerm() {
        long term = terms + 1;
        return new Transition(
                new CandidateState(new Leader(), term, failedStarts, paused, closing), List.of(new BeginTerm(term)));
    }

    private Transition onLockLost(RevocationReason reason, long now, Times times) {
        if (phase instanceof Leader) {
            return new Transition(with(new Revoking(now + times.revokeTimeout(), false)), List.of(new EndTerm(reason)));
        } else if (phase instanceof Resigning resigning) {
            return stay(with(new Revoking(resigning.releaseBy(), true)));
        } else if (phase instanceof TakingOver) {
            return stay(with(new Follower(now)));
        }
        return stay(this);
    }

    private Transition onStepDown(RevocationReason reason, long coolDown, long now, Times times) {
        if (phase instanceof Leader) {
            return new Transition(with(new Resigning(now + times.revokeTimeout())), List.of(new EndTerm(reason)));
        } else if (phase instanceof TakingOver) {
            return new Transition(with(new Follower(now + coolDown)), List.of(new ReleaseLock()));
        } else if (phase instanceof Follower follower) {
            return stay(with(new Follower(Math.max(follower.notBefore() - now, coolDown) + now)));
        }
        return stay(this);
    }

    private Transition onStartFailed(StartFailed failed, long now, Times times) {
        return leads() && failed.term() == terms
                ? withFailedStarts(failedStarts + 1)
                        .onStepDown(RevocationReason.CALLBACK_FAILED, times.coolDown(), now, times)
                : stay(this);
    }

    private Transition onDrained(long now, Times times) {
        if (phase instanceof Resigning) {
            return new Transition(afterTerm(now + coolDownAfterTerm(times)), List.of(new ReleaseLock()));
        } else if (phase instanceof Revoking revoking) {
            return stay(afterTerm(revoking.coolsDown() ? now + coolDownAfterTerm(times) : now));
        }
        return stay(this);
    }

    private CandidateState afterTerm(long notBefore) {
        return with(closing ? new Stopped() : new Follower(notBefore));
    }

    private long coolDownAfterTerm(Times times) {
        int doublings = Math.min(MOST_COOL_DOWN_DOUBLINGS, Math.max(0, failedStarts - 1));
        return times.coolDown() << doublings;
    }

    private Transition onClose(long now, Times times) {
        CandidateState leaving = new CandidateState(phase, terms, failedStarts, paused, true);
        if (phase instanceof Leader) {
            return leaving.onStepDown(RevocationReason.CLOSED, 0, now, times);
        } else if (phase instanceof TakingOver) {
            return new Transition(leaving.with(new Stopped()), List.of(new ReleaseLock()));
        } else if (phase instanceof Follower) {
            return stay(leaving.with(new Stopped()));
        } else if (phase instanceof Resigning resigning) {
            long releaseIn = Math.min(resigning.releaseBy() - now, times.revokeTimeout());
            return stay(leaving.with(new Resigning(now + releaseIn)));
        } else if (phase instanceof Revoking revoking) {
            long giveUpIn = Math.min(revoking.giveUpBy() - now, times.revokeTimeout());
            return stay(leaving.with(new Revoking(now + giveUpIn, revoking.coolsDown())));
        }
        return stay(leaving);
    }

    private Transition onTick(long now) {
        if (phase instanceof TakingOver takingOver && now - takingOver.actFrom() >= 0) {
            return beginTerm();
        } else if (phase instanceof Resigning resigning && now - resigning.releaseBy() >= 0) {
            Phase next = closing ? new Stopped() : new Revoking(now, true);
            return new Transition(with(next), List.of(new ReleaseLock()));
        } else if (closing && phase instanceof Revoking revoking && now - revoking.giveUpBy() >= 0) {
            return stay(with(new Stopped()));
        }
        return stay(this);
    }

    private CandidateState with(Phase next) {
        return new CandidateState(next, terms, failedStarts, paused, closing);
    }

    private CandidateState withFailedStarts(int count) {
        return new CandidateState(phase, terms, count, paused, closing);
    }

    private CandidateState withPaused(boolean value) {
        return new CandidateState(phase, terms, failedStarts, value, closing);
    }

    private static Transition stay(CandidateState same) {
        return new Transition(same, List.of());
    }
}
