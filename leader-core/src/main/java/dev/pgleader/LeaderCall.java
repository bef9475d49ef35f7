package dev.pgleader;

import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A call that is made because this instance leads, from {@link LeaderElector#beginCall} to {@link #close()}. It is a part of its
 * term: when leadership is given up, the lock stays taken until the call has ended, at most {@link
 * ElectorOptions#revokeTimeout()}; when leadership is lost, this process doesn't compete again before the call has ended.
 *
 * <p>Thread-safe: it may be closed by another thread than that which began it.
 */
public final class LeaderCall implements AutoCloseable {

    private final String name;
    private final Leadership leadership;
    private final boolean interruptible;
    private final Consumer<LeaderCall> atEnd;
    private @Nullable Thread thread = Thread.currentThread();
    private boolean interrupted;

    LeaderCall(String name, Leadership leadership, boolean interruptible, Consumer<LeaderCall> atEnd) {
        this.name = name;
        this.leadership = leadership;
        this.interruptible = interruptible;
        this.atEnd = atEnd;
    }

    /** What the call is named in the log. */
    public String name() {
        return name;
    }

    /** The term that the call belongs to. */
    public Leadership leadership() {
        return leadership;
    }

    /**
     * The thread that began the call is done with it, and what the call has begun goes on elsewhere, until {@link #close()}: from now on
     * that thread isn't interrupted.
     */
    public synchronized void detach() {
        if (interrupted && thread == Thread.currentThread()) {
            // It was meant for the call, not for what the thread does next.
            Thread.interrupted();
        }
        thread = null;
        interrupted = false;
    }

    /** The call has ended. Closing twice does no harm. */
    @Override
    public void close() {
        detach();
        atEnd.accept(this);
    }

    /** Interrupts the call's thread if it is to be, once. */
    synchronized void tellRevoked() {
        if (interruptible && thread != null && !interrupted) {
            interrupted = true;
            thread.interrupt();
        }
    }

    /** The thread in which the call runs; null if it has detached itself from it. */
    synchronized @Nullable Thread thread() {
        return thread;
    }

    @Override
    public String toString() {
        return name;
    }
}
