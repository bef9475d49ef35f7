package dev.pgleader;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Simulated time, in nanoseconds, and the order in which things happen.
 *
 * <p>A process (a turn of an election thread, a callback) may {@linkplain #block block} in the middle of unchanged library
 * code. As long as only network and servers have something to do meanwhile, the blocked stack does that itself; when
 * another process has to run, it is given a stack (a thread) of its own. Exactly one of these threads runs at a time, so a
 * history depends on nothing but its seed.
 */
final class SimulatedWorld implements AutoCloseable {

    /** Ends a process that was killed in the middle of something. */
    static final class ProcessDied extends Error {
        private static final long serialVersionUID = 1L;

        ProcessDied() {
            super("The process died", null, false, false);
        }
    }

    private record Event(
            long time,
            long order,
            @Nullable SimulatedHost host,
            Runnable action,
            boolean isProcess,
            @Nullable Stack notOn)
            implements Comparable<Event> {

        Event postponed(long newTime, long newOrder) {
            return new Event(newTime, newOrder, host, action, isProcess, notOn);
        }

        @Override
        public int compareTo(Event other) {
            return time == other.time ? Long.compare(order, other.order) : Long.compare(time, other.time);
        }
    }

    /** A stack that waits until something is done or until a time, and longer if its host is frozen. */
    private record Waiter(Stack stack, @Nullable SimulatedHost host, long until, BooleanSupplier done) {
        long readyAt() {
            if (host != null && host.down) {
                return 0;
            }
            return Math.max(done.getAsBoolean() ? 0 : until, host == null ? 0 : host.frozenUntil());
        }
    }

    private static final ExecutorService THREADS = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "simulated-stack");
        thread.setDaemon(true);
        return thread;
    });

    private final Runnable observer;
    private final PriorityQueue<Event> events = new PriorityQueue<>();
    private final List<Waiter> waiting = new ArrayList<>();
    private final Deque<Stack> spare = new ArrayDeque<>();
    private final Stack main = new Stack();
    private Stack current = main;
    private boolean inProcess;
    private long now;
    private long order;
    private @Nullable Error failure;

    /** @param observer looks at the state of each instant, after all that happened in it */
    SimulatedWorld(Runnable observer) {
        this.observer = observer;
    }

    long now() {
        return now;
    }

    /** Whether the running code may {@link #block}. */
    boolean isInProcess() {
        return inProcess;
    }

    /** Does something at a time that takes no time itself; not before the host thaws, and not at all if it is down then. */
    void at(long time, @Nullable SimulatedHost host, Runnable action) {
        events.add(new Event(Math.max(time, now), order++, host, action, false, null));
    }

    /** Like {@link #at}, for something that may {@link #block}. */
    void processAt(long time, SimulatedHost host, Runnable process) {
        events.add(new Event(Math.max(time, now), order++, host, process, true, null));
    }

    /** Like {@link #processAt}, as an executor does it: on another thread than the one that asks for it. */
    void executeAt(long time, SimulatedHost host, Runnable process) {
        events.add(new Event(Math.max(time, now), order++, host, process, true, current));
    }

    /** Lets the world go on until something is done, or until a time, and at least until the host thaws. */
    void block(SimulatedHost host, long until, BooleanSupplier done) {
        enter(new Waiter(current, host, until, done));
        inProcess = true;
        if (host.down) {
            throw new ProcessDied();
        }
    }

    /** Lets the world go on until a time. For the thread that made the world. */
    void run(long until) {
        enter(new Waiter(main, null, until, () -> false));
        inProcess = false;
    }

    /** Ends the simulation with a failure: the first one counts, wherever in the library it is caught. */
    Error fail(Throwable cause) {
        if (failure == null) {
            failure = cause instanceof Error error ? error : new AssertionError(cause);
        }
        return failure;
    }

    /** Unwinds all processes that are still in the middle of something. */
    @Override
    public void close() {
        fail(new ProcessDied());
        for (Waiter waiter : List.copyOf(waiting)) {
            if (waiter.stack != main) {
                giveTurn(waiter.stack);
                main.turn.acquireUninterruptibly();
            }
        }
        spare.forEach(stack -> stack.turn.release());
    }

    private void enter(Waiter mine) {
        waiting.add(mine);
        try {
            goOn(mine.stack, mine);
        } finally {
            waiting.remove(mine);
        }
    }

    /** Lets the world go on until it's the waiter's turn; without a waiter, until the turn has gone to another stack. */
    private void goOn(Stack me, @Nullable Waiter mine) {
        while (true) {
            throwFailure();
            Waiter ready = firstReady();
            Event event = events.peek();
            if (event == null || (ready != null && ready.readyAt() < event.time)) {
                if (ready == null) {
                    throw new IllegalStateException("Nothing will ever happen any more");
                }
                advance(ready.readyAt());
                if (ready.stack != me) {
                    handOver(ready.stack, me, mine);
                }
                return;
            }
            events.remove();
            advance(event.time);
            SimulatedHost host = event.host;
            boolean lost = host != null && host.down;
            if (!lost && host != null && host.frozenUntil() > now) {
                events.add(event.postponed(host.frozenUntil(), order++));
            } else if (!lost && !event.isProcess) {
                inProcess = false;
                event.action.run();
            } else if (!lost && mine == null && event.notOn != me) {
                runProcess(event.action);
            } else if (!lost) {
                Stack other = spareStack(event.notOn);
                other.process = event.action;
                handOver(other, me, mine);
                return;
            }
        }
    }

    private @Nullable Waiter firstReady() {
        Waiter first = null;
        for (Waiter waiter : waiting) {
            if (first == null || waiter.readyAt() < first.readyAt()) {
                first = waiter;
            }
        }
        return first;
    }

    private void advance(long time) {
        if (time > now) {
            inProcess = false;
            observer.run();
            now = time;
        }
    }

    private void runProcess(Runnable process) {
        inProcess = true;
        try {
            process.run();
        } catch (ProcessDied e) {
            throwFailure();
        }
        inProcess = false;
    }

    /** Gives the turn to another stack; one that itself waits for its turn gets it back here. */
    private void handOver(Stack to, Stack me, @Nullable Waiter mine) {
        if (mine == null) {
            spare.push(me);
            giveTurn(to);
        } else {
            giveTurn(to);
            me.turn.acquireUninterruptibly();
            throwFailure();
        }
    }

    private void giveTurn(Stack to) {
        current = to;
        to.turn.release();
    }

    private void throwFailure() {
        if (failure != null) {
            throw failure;
        }
    }

    private Stack spareStack(@Nullable Stack but) {
        for (Stack stack : spare) {
            if (stack != but) {
                spare.remove(stack);
                return stack;
            }
        }
        Stack stack = new Stack();
        THREADS.execute(stack);
        return stack;
    }

    /** A thread's stack. */
    private final class Stack implements Runnable {
        final Semaphore turn = new Semaphore(0);

        @Nullable
        Runnable process;

        @Override
        public void run() {
            while (true) {
                turn.acquireUninterruptibly();
                Runnable next = process;
                process = null;
                if (next == null) {
                    return;
                }
                try {
                    runProcess(next);
                    goOn(this, null);
                } catch (Throwable e) {
                    fail(e);
                    spare.push(this);
                    giveTurn(main);
                }
            }
        }
    }
}
