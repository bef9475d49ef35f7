package dev.pgleader;

import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A logger that never throws: a broken appender or a full disk is no reason to lose an election. */
final class Log {

    private static volatile @Nullable Thread muted;

    private final Logger logger;

    private Log(Logger logger) {
        this.logger = logger;
    }

    static Log of(Class<?> owner) {
        return new Log(LoggerFactory.getLogger(owner));
    }

    void error(String format, Object... arguments) {
        guarded(() -> logger.error(format, arguments));
    }

    void warn(String format, Object... arguments) {
        guarded(() -> logger.warn(format, arguments));
    }

    void info(String format, Object... arguments) {
        guarded(() -> logger.info(format, arguments));
    }

    void debug(String format, Object... arguments) {
        guarded(() -> logger.debug(format, arguments));
    }

    /** Runs the work, and logs nothing of what it does on this thread; for one thread at a time. */
    static void withoutLog(Runnable work) {
        muted = Thread.currentThread();
        try {
            work.run();
        } finally {
            muted = null;
        }
    }

    private static void guarded(Runnable line) {
        try {
            if (muted != Thread.currentThread()) {
                line.run();
            }
        } catch (Throwable e) {
            // There is nowhere left to tell it.
        }
    }
}
