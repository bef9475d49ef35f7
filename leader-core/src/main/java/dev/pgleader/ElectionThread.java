package dev.pgleader;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The one thread of an election: it takes the turns of an {@link ElectionLoop} for as long as there are candidates. Nothing
 * else ends it; after a defect it goes on with a new session.
 */
final class ElectionThread {

    private static final Log LOG = Log.of(ElectionThread.class);
    private static final Duration PAUSE_AFTER_DEFECT = Duration.ofMillis(500);
    private static final long PAUSE_NANOS = PAUSE_AFTER_DEFECT.toNanos();

    private final String name;
    private final Runnable before;
    private final ElectionLoop loop;
    private final CommandQueue commands;
    private final Object starting = new Object();
    private volatile @Nullable Thread thread;
    /** How often somebody began to take part; guarded by {@link #starting}. */
    private long entries;

    /**
     * @param before what the thread does first of all
     */
    ElectionThread(String name, ElectionLoop loop, CommandQueue commands, Runnable before) {
        this.name = name;
        this.before = before;
        this.loop = loop;
        this.commands = commands;
        commands.onPost(this::wake);
    }

    /**
     * Has a command run on the election thread, which is started if there is none.
     *
     * @throws Error if no thread can be started; then the command isn't run
     */
    void startWith(Runnable command) {
        synchronized (starting) {
            if (thread == null) {
                Thread started = CallbackThreads.daemon(this::run, "pg-leader-" + name);
                started.start();
                thread = started;
            }
            commands.post(command);
            entries++;
        }
    }

    /** How often somebody began to take part; for {@link #breakOff}. */
    long entries() {
        synchronized (starting) {
            return entries;
        }
    }

    private void wake() {
        loop.wake();
        LockSupport.unpark(thread);
    }

    /**
     * Breaks off what the election thread waits for, and with it the session, unless somebody began to take part since {@code
     * entriesSeen}, who may lead by now: nobody may end the session of a leader before its term.
     */
    void breakOff(long entriesSeen) {
        synchronized (starting) {
            if (entries == entriesSeen) {
                loop.abortSession();
                Thread running = thread;
                if (running != null) {
                    running.interrupt();
                }
            }
        }
    }

    private void run() {
        before.run();
        boolean goesOn = true;
        while (goesOn) {
            try {
                goesOn = takeTurn();
            } catch (Throwable defect) {
                recover(defect);
            }
        }
    }

    /** Returns false if nobody takes part any more, so that the thread ends. */
    private boolean takeTurn() {
        // Only breakOff() interrupts this thread, and what it was to end has ended.
        Thread.interrupted();
        long waitNanos = loop.step();
        if (loop.isDeserted()) {
            return !endIfIdle();
        }
        if (!commands.isCalling()) {
            loop.await(waitNanos);
        }
        return true;
    }

    /** Throws nothing, whatever happens: where there is no memory, even a line of the log may be too much. */
    private void recover(Throwable defect) {
        try {
            loop.loseSession(defect, PAUSE_AFTER_DEFECT);
            LOG.error("[{}] Defect in the election; it goes on with a new session", name, defect);
        } catch (Throwable again) {
            // The next turn takes back what is still to be taken back: it finds that there is no session.
            logQuietly(again);
        }
        LockSupport.parkNanos(this, PAUSE_NANOS);
    }

    private void logQuietly(Throwable again) {
        try {
            LOG.error("[{}] Defect while giving the session up", name, again);
        } catch (Throwable e) {
            // There is nowhere left to tell it.
        }
    }

    private boolean endIfIdle() {
        synchronized (starting) {
            if (!commands.isEmpty()) {
                return false;
            }
            thread = null;
            return true;
        }
    }
}
