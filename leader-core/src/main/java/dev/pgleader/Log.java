package dev.pgleader;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A logger that never throws: a broken appender or a full disk is no reason to lose an election. */
final class Log {

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

    private static void guarded(Runnable line) {
        try {
            line.run();
        } catch (Throwable e) {
            // There is nowhere left to tell it.
        }
    }
}
