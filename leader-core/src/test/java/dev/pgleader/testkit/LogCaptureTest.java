package dev.pgleader.testkit;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.testkit.LogCapture.Event;
import org.junit.jupiter.api.Test;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

class LogCaptureTest {

    private static final Logger LOGGER = LoggerFactory.getLogger(LogCaptureTest.class);

    @Test
    void keepsWhatIsLoggedFromItsLevelUpUntilItIsClosed() {
        RuntimeException reason = new RuntimeException("reason");
        LogCapture capture = LogCapture.of(LogCaptureTest.class, Level.DEBUG);
        try (capture) {
            LOGGER.trace("too low");
            LOGGER.debug("number {}", 1);
            LOGGER.warn("with a reason", reason);
        }
        LOGGER.warn("too late");
        String name = LogCaptureTest.class.getName();
        assertThat(capture.events())
                .containsExactly(
                        new Event(Level.DEBUG, name, "number 1", null),
                        new Event(Level.WARN, name, "with a reason", reason));
        assertThat(capture.messages(Level.WARN)).containsExactly("with a reason");
    }

    @Test
    void givesTheLoggerItsFormerLevelBack() {
        boolean before = LOGGER.isTraceEnabled();
        LogCapture capture = LogCapture.of("dev.pgleader.testkit", Level.TRACE);
        try (capture) {
            assertThat(LOGGER.isTraceEnabled()).isTrue();
        }
        assertThat(LOGGER.isTraceEnabled()).isEqualTo(before);
    }
}
