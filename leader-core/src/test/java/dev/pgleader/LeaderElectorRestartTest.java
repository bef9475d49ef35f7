package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.Credentials;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** An elector that is stopped, started and more while its election thread hangs in a login. */
@Timeout(300)
class LeaderElectorRestartTest {

    private final CountDownLatch asked = new CountDownLatch(1);
    private final CountDownLatch answered = new CountDownLatch(1);
    private final AtomicInteger logins = new AtomicInteger();
    private final LeaderElector elector = LeaderElector.builder()
            .connectTo(ConnectionSource.of("jdbc:postgresql://127.0.0.1:1/nowhere", this::credentials))
            .key("test")
            .build();

    private Credentials credentials() {
        logins.incrementAndGet();
        asked.countDown();
        try {
            answered.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return new Credentials("nobody", "nothing");
    }

    @BeforeEach
    void stopWhileItLogsIn() throws Exception {
        elector.start();
        asked.await();
        withoutWaiting(elector::stop);
    }

    @AfterEach
    void end() {
        answered.countDown();
        elector.close();
    }

    private static void withoutWaiting(Runnable action) {
        Thread.currentThread().interrupt();
        action.run();
        assertThat(Thread.interrupted()).isTrue();
    }

    private LeaderStatus.Role role() {
        return elector.status().role();
    }

    @Test
    void competesAgainWhenItIsStartedAgain() {
        elector.start();
        answered.countDown();
        await().until(() -> role() == LeaderStatus.Role.FOLLOWER && logins.get() > 1);
    }

    @Test
    void staysOutWhenItIsClosedAfterAll() { // C34
        elector.start();
        withoutWaiting(elector::close);
        answered.countDown();
        elector.close(); // Waits until it has left.
        assertThat(role()).isEqualTo(LeaderStatus.Role.STOPPED);
        assertThat(logins).hasValue(1);
    }

    @Test
    void staysOutWhenItIsStoppedAfterAllAndComesBackWhenItIsStarted() {
        elector.start();
        withoutWaiting(elector::stop);
        answered.countDown();
        elector.stop();
        assertThat(role()).isEqualTo(LeaderStatus.Role.STOPPED);
        elector.start();
        await().until(() -> role() == LeaderStatus.Role.FOLLOWER);
    }

    @Test
    void isPausedWhenItIsPausedBeforeItComesBack() {
        elector.start();
        var unused = elector.pause();
        answered.countDown();
        await().until(() -> role() == LeaderStatus.Role.FOLLOWER && logins.get() > 1);
        assertThat(elector.status().paused()).isTrue();
    }
}
