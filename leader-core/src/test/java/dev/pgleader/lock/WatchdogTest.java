package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.awaitility.Awaitility.await;

import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.lang.reflect.Modifier;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.postgresql.PGConnection;

@Timeout(60)
class WatchdogTest {

    private static final LockKey KEY = LockKey.named("watchdog-test");
    private static final Duration NETWORK_TIMEOUT = Duration.ofMillis(1500);
    private static final Duration SOON = Duration.ofMillis(50);

    @AutoClose
    private static final PostgresServer SERVER = PostgresServer.launch();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    @BeforeAll
    static void createTable() throws Exception {
        SERVER.execute("create table written (n int)");
    }

    @DisplayName("R27: a wait that nothing ends is ended by an interrupt, and none is left behind")
    @Test
    void interrupts() {
        CountDownLatch never = new CountDownLatch(1);
        CountDownLatch ended = new CountDownLatch(1);

        assertThatExceptionOfType(SQLException.class)
                .isThrownBy(() -> Watchdog.watch(SOON, ended::countDown, () -> {
                    try {
                        never.await();
                        return true;
                    } catch (InterruptedException e) {
                        throw new SQLException("interrupted", e);
                    }
                }))
                .withMessageContaining("didn't answer within the network timeout")
                .extracting(SQLException::getSQLState)
                .isEqualTo("08006");
        assertThat(Thread.currentThread().isInterrupted()).isFalse();
        await().until(() -> ended.getCount() == 0);
    }

    @DisplayName("R27: a round trip in time is left alone, whatever it returns or throws, for as long as one likes")
    @Test
    void inTime() throws SQLException {
        AtomicInteger ends = new AtomicInteger();
        SQLException failure = new SQLException("its own");
        for (int round = 0; round < 20; round++) {
            int n = round;
            assertThat(Watchdog.watch(Duration.ofSeconds(30), ends::incrementAndGet, () -> n))
                    .isEqualTo(n);
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> Watchdog.watch(Duration.ofSeconds(30), ends::incrementAndGet, () -> {
                        throw failure;
                    }))
                    .isSameAs(failure);
        }
        assertThat(ends).hasValue(0);
    }

    @DisplayName("R27: one thread watches over all, however many round trips there are")
    @Test
    void oneThread() throws Exception {
        AdvisoryLocks locks = AdvisoryLocks.on(SERVER.dataSource());
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Future<Boolean>> runs = Stream.<LockKey>of(
                        LockKey.of(3, 1), LockKey.of(3, 2), LockKey.of(3, 3), LockKey.of(3, 4))
                .map(key -> threads.submit(() -> {
                    for (int round = 0; round < 10; round++) {
                        locks.tryRunLocked(key, connection -> {
                            assertThat(watchdogs()).isLessThanOrEqualTo(1);
                            return true;
                        });
                    }
                    return true;
                }))
                .toList();
        for (Future<Boolean> run : runs) {
            assertThat(run.get(30, TimeUnit.SECONDS)).isTrue();
        }
        threads.shutdown();
    }

    private static long watchdogs() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("pg-leader-watchdog"))
                .count();
    }

    @DisplayName("R27: a COPY that the work left open is ended within the network timeout, and the key is free")
    @Test
    void openCopy() throws Exception {
        long startNanos = System.nanoTime();
        assertThatExceptionOfType(LockLostException.class)
                .isThrownBy(() -> AdvisoryLocks.on(SERVER.dataSource(), NETWORK_TIMEOUT)
                        .tryRunLocked(
                                KEY,
                                connection -> connection
                                        .unwrap(PGConnection.class)
                                        .getCopyAPI()
                                        .copyIn("copy written from stdin")))
                .withRootCauseInstanceOf(InterruptedException.class);
        assertThat(Duration.ofNanos(System.nanoTime() - startNanos)).isLessThan(NETWORK_TIMEOUT.plusSeconds(20));
        await().until(() -> LOCKS.isFree(KEY));
        assertThat(Thread.currentThread().isInterrupted()).isFalse();
    }

    @DisplayName("R27, R41: isHeld leaves a COPY alone that the work is busy with, and says so in time")
    @Test
    void isHeldDuringCopy() throws Exception {
        try (HeldLock lock =
                AdvisoryLocks.on(SERVER.dataSource(), NETWORK_TIMEOUT).acquire(KEY, Duration.ZERO)) {
            var copy = lock.connection().unwrap(PGConnection.class).getCopyAPI().copyIn("copy written from stdin");
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(lock::isHeld)
                    .extracting(SQLException::getSQLState)
                    .isEqualTo("55006");
            copy.writeToCopy(new byte[] {'7', '\n'}, 0, 2);
            assertThat(copy.endCopy()).isEqualTo(1);
            assertThat(lock.isHeld()).isTrue();
        }
    }

    @DisplayName("R41: isHeld leaves a statement alone that the work runs on another thread, and says so in time")
    @Test
    void isHeldDuringStatement() throws Exception {
        ExecutorService other = Executors.newSingleThreadExecutor();
        try (HeldLock lock =
                AdvisoryLocks.on(SERVER.dataSource(), NETWORK_TIMEOUT).acquire(KEY, Duration.ZERO)) {
            Future<Boolean> statement = other.submit(() -> {
                Sql.execute(lock.connection(), "select pg_sleep(5)");
                return true;
            });
            await().until(() ->
                    LOCKS.session(lock.backendPid()).orElseThrow().state().equals("active"));
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(lock::isHeld)
                    .withMessageContaining("has been using the connection")
                    .extracting(SQLException::getSQLState)
                    .isEqualTo("55006");
            assertThat(statement.get(30, TimeUnit.SECONDS)).isTrue();
            assertThat(lock.isHeld()).isTrue();
        } finally {
            other.shutdownNow();
        }
    }

    @DisplayName(
            "R27, R41: close ends a statement that the work left running on another thread, within the network timeout")
    @Test
    void closeDuringStatement() throws Exception {
        ExecutorService other = Executors.newSingleThreadExecutor();
        try {
            HeldLock lock =
                    AdvisoryLocks.on(SERVER.dataSource(), NETWORK_TIMEOUT).acquire(KEY, Duration.ZERO);
            Future<Boolean> statement = other.submit(() -> {
                Sql.execute(lock.connection(), "select pg_sleep(600)");
                return true;
            });
            await().until(() ->
                    LOCKS.session(lock.backendPid()).orElseThrow().state().equals("active"));
            assertThatExceptionOfType(LockLostException.class).isThrownBy(lock::close);
            assertThat(statement).failsWithin(Duration.ofSeconds(20));
            SERVER.endBackend(lock.backendPid());
        } finally {
            other.shutdownNow();
        }
    }

    @DisplayName("R41: nothing that asks the database holds a monitor, which would pin a virtual thread")
    @Test
    void noMonitors() {
        for (Class<?> type : List.of(HeldLock.class, LockedTransaction.class, PinnedConnection.class)) {
            assertThat(Arrays.stream(type.getDeclaredMethods())
                            .filter(method -> Modifier.isSynchronized(method.getModifiers())))
                    .isEmpty();
        }
    }
}
