package dev.pgleader.testkit;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.classic.spi.IThrowableProxy;
import ch.qos.logback.classic.spi.ThrowableProxy;
import ch.qos.logback.core.AppenderBase;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.jspecify.annotations.Nullable;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

/**
 * Keeps what a logger and those below it log until it is closed, for assertions. Needs Logback as the SLF4J provider.
 *
 * <p>Safe for use by several threads: events may be logged from any thread while another reads them.
 */
public final class LogCapture implements AutoCloseable {

    /** One logged event, its message with the arguments filled in. */
    public record Event(
            Level level,
            String logger,
            String message,
            @Nullable Throwable throwable) {}

    private final Logger logger;
    private final ch.qos.logback.classic.@Nullable Level formerLevel;
    private final Recorder recorder = new Recorder();

    private LogCapture(Logger logger, Level level) {
        this.logger = logger;
        formerLevel = logger.getLevel();
        recorder.setContext(logger.getLoggerContext());
        recorder.start();
        logger.setLevel(ch.qos.logback.classic.Level.convertAnSLF4JLevel(level));
        logger.addAppender(recorder);
    }

    /** Captures what a class logs, from {@code level} up, and sets its logger to that level meanwhile. */
    public static LogCapture of(Class<?> logging, Level level) {
        return of(logging.getName(), level);
    }

    /** Captures what is logged under a name (of a package, for instance), from {@code level} up. */
    public static LogCapture of(String logger, Level level) {
        return new LogCapture((Logger) LoggerFactory.getLogger(logger), level);
    }

    /** Returns the events until now, oldest first. */
    public List<Event> events() {
        return List.copyOf(recorder.events);
    }

    /** Returns the events until now of exactly one level, oldest first. */
    public List<Event> events(Level level) {
        return events().stream().filter(event -> event.level() == level).toList();
    }

    /** Returns the messages until now of exactly one level, oldest first. */
    public List<String> messages(Level level) {
        return events(level).stream().map(Event::message).toList();
    }

    @Override
    public void close() {
        logger.detachAppender(recorder);
        logger.setLevel(formerLevel);
        recorder.stop();
    }

    private static final class Recorder extends AppenderBase<ILoggingEvent> {

        final List<Event> events = new CopyOnWriteArrayList<>();

        @Override
        protected void append(ILoggingEvent event) {
            IThrowableProxy thrown = event.getThrowableProxy();
            events.add(new Event(
                    Level.valueOf(event.getLevel().toString()),
                    event.getLoggerName(),
                    event.getFormattedMessage(),
                    thrown instanceof ThrowableProxy proxy ? proxy.getThrowable() : null));
        }
    }
}
