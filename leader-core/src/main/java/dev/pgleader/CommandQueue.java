package dev.pgleader;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;

/** Commands for the election thread: any thread posts them, the election thread runs them in its turn, in order. */
final class CommandQueue {

    private final Queue<Runnable> commands = new ConcurrentLinkedQueue<>();
    /** Whether somebody has woken the election thread since it last looked. */
    private final AtomicBoolean woken = new AtomicBoolean();

    private volatile Runnable alarm = () -> {};

    /** How to wake the election thread from its wait; called by any thread. */
    void onPost(Runnable action) {
        alarm = action;
    }

    void post(Runnable command) {
        commands.add(command);
        wake();
    }

    /** Has the election thread take a turn. Needs no memory. */
    void wake() {
        if (woken.compareAndSet(false, true)) {
            boolean rang = false;
            try {
                alarm.run();
                rang = true;
            } finally {
                if (!rang) {
                    woken.set(false);
                }
            }
        }
    }

    /** Whether there is a reason to take the next turn at once. */
    boolean isCalling() {
        return woken.get() || !commands.isEmpty();
    }

    boolean isEmpty() {
        return commands.isEmpty();
    }

    /** Runs the commands that are there now. Those that are posted meanwhile wait for the next turn. */
    void runAll() {
        woken.set(false);
        for (int left = commands.size(); left > 0; left--) {
            Runnable command = commands.peek();
            if (command == null) {
                return;
            }
            run(command);
        }
        if (!commands.isEmpty()) {
            woken.set(true);
        }
    }

    /** A command that there was no memory for stays the first, and is run again in the next turn. */
    private void run(Runnable command) {
        boolean done = true;
        try {
            command.run();
        } catch (OutOfMemoryError e) {
            done = false;
            throw e;
        } finally {
            if (done) {
                commands.poll();
            }
        }
    }
}
