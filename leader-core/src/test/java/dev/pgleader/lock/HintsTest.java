package dev.pgleader.lock;

import static dev.pgleader.lock.LockSessionContract.elapsed;
import static dev.pgleader.lock.LockSessionContract.payloads;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.NotificationQueue;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A server that can't take a notification, for reasons that lie in another database. */
@Timeout(60)
class HintsTest {

    private static final LockKey KEY = LockKey.of(5);
    private static final Duration NETWORK_TIMEOUT = Duration.ofSeconds(4);
    private static final Settings SETTINGS = new Settings("hints", Duration.ofSeconds(20), NETWORK_TIMEOUT, true);

    @AutoClose
    private final PostgresServer server = PostgresServer.launch();

    private LockSession open() throws LockSessionException {
        return LockSession.open(
                ConnectionSource.of(
                        server.url(PostgresServer.DEFAULT_DATABASE), server.superuser(), server.superuserPassword()),
                SETTINGS);
    }

    /** A session that was opened before works on, and so does one that is opened now. */
    private static void assertWorksButTellsNothing(LockSession session, NotificationQueue queue, Duration atMost)
            throws Exception {
        assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
        assertThat(session.check()).containsExactly(KEY);
        long start = System.nanoTime();
        assertThat(session.tell(List.of("lost"))).as("told while %s", queue).isFalse();
        assertThat(elapsed(start)).isLessThan(atMost);
        assertThat(session.check()).containsExactly(KEY);
        session.release(List.of(KEY));
        assertThat(session.check()).isEmpty();
        assertThat(session.awaitNotifications(0)).isEmpty();
    }

    @Test
    @DisplayName("N01: while the notification queue is full, telling says no, and all else works; later it works again")
    void fullQueue() throws Exception {
        assumeTrue(NotificationQueue.shrink(server), NotificationQueue.TOO_LARGE);
        LockSession before = open();
        LockSession during;
        try (NotificationQueue full = NotificationQueue.full(server)) {
            assertWorksButTellsNothing(before, full, NETWORK_TIMEOUT);
            during = open();
            assertWorksButTellsNothing(during, full, NETWORK_TIMEOUT);
        }
        assertTellsAgain(before, during);
    }

    @Test
    @DisplayName("N01: while a commit hangs in another database with the queue in its hands, telling gives up in time")
    void hangingCommit() throws Exception {
        LockSession before = open();
        LockSession during;
        try (NotificationQueue heldUp = NotificationQueue.heldUp(server)) {
            assertWorksButTellsNothing(before, heldUp, NETWORK_TIMEOUT.dividedBy(2));
            during = open();
            assertWorksButTellsNothing(during, heldUp, NETWORK_TIMEOUT.dividedBy(2));
        }
        assertTellsAgain(before, during);
    }

    private static void assertTellsAgain(LockSession speaker, LockSession listener) throws Exception {
        await().until(() -> speaker.tell(List.of("told")));
        assertThat(payloads(listener, Duration.ofSeconds(10))).containsExactly("told");
        speaker.close();
        listener.close();
    }
}
