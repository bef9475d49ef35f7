package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockSession.Facts;
import dev.pgleader.lock.LockSession.Holder;
import dev.pgleader.lock.LockSession.Notification;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.Sql;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Direction;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.net.InetSocketAddress;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** What a {@link LockSession} on PostgreSQL promises in addition, over a network that fails on demand. */
abstract class PostgresLockSessionContract extends LockSessionContract {

    private static final Duration SHORT_NETWORK_TIMEOUT = Duration.ofMillis(700);

    /** Much longer than anything takes that doesn't wait for it, on a loaded machine, too. */
    private static final Duration LONG_NETWORK_TIMEOUT = Duration.ofSeconds(30);

    /** One call of a session. */
    interface Call {
        void on(LockSession session) throws Exception;
    }

    final TcpProxy network = new TcpProxy(server());
    final LockTable table = new LockTable(this::connect);

    abstract InetSocketAddress server();

    /** A connection of the superuser's, past the {@link #network}. */
    abstract Connection connect() throws SQLException;

    /** How soon a session that waits learns that its backend was terminated. */
    abstract Duration lossIsNoticedWithin();

    @AfterEach
    void closeNetwork() throws SQLException {
        table.close();
        network.close();
    }

    @Test
    void factsAreThoseOfTheServer() throws Exception {
        Facts facts = open("facts").facts();
        try (Connection connection = connect()) {
            assertThat(table.session(facts.backendPid())).isPresent();
            assertThat(facts.database()).isEqualTo(Sql.text(connection, "SELECT current_database()"));
            assertThat(Sql.text(connection, "SHOW server_version")).startsWith(facts.serverVersion());
            assertThat(facts.server().timeline())
                    .isEqualTo(
                            Integer.parseInt(Sql.text(connection, "SELECT timeline_id FROM pg_control_checkpoint()")));
            long uptimeMillis = Long.parseLong(Sql.text(
                    connection,
                    "SELECT (extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * 1000)::bigint"));
            assertThat(facts.serverUptime())
                    .isBetween(Duration.ofMillis(uptimeMillis - 60_000), Duration.ofMillis(uptimeMillis + 1));
            assertThat(facts.leaseEnforced()).isTrue();
        }
    }

    @Test
    void eachCallTakesOneRoundTrip() throws Exception {
        List<LockKey> keys = IntStream.range(0, 2_000).mapToObj(i -> freshKey()).toList();
        LockKey group = freshKey();
        LockSession session = open("one-trip");
        Map<String, Call> calls = new LinkedHashMap<>();
        calls.put("attempt", s -> assertThat(s.attempt(keys).granted()).hasSize(keys.size()));
        calls.put("check", s -> assertThat(s.check()).hasSize(keys.size()));
        calls.put("countMembers", s -> assertThat(s.countMembers(freshKey())).isZero());
        calls.put(
                "waitInQueue",
                s -> assertThat(s.waitInQueue(freshKey(), Duration.ofMillis(50)))
                        .isTrue());
        calls.put("release", s -> s.release(List.of(keys.get(0))));
        calls.put("tell", s -> s.tell(List.of("a", "b")));
        calls.put("findHolders", s -> assertThat(s.findHolders(keys)).hasSize(keys.size() - 1));
        calls.put(
                "findCommanders", s -> assertThat(s.findCommanders(List.of(0))).isEmpty());
        calls.put("join", s -> assertThat(s.join(group)).isTrue());
        calls.put("leave", s -> s.leave(group));
        for (Map.Entry<String, Call> call : calls.entrySet()) {
            int before = network.requests();
            call.getValue().on(session);
            assertThat(network.requests() - before).as(call.getKey()).isEqualTo(1);
        }
    }

    @Test
    void aKeyThatIsFreeIsGrantedWithoutWaiting() throws Exception {
        LockSession session = open("queue-free");
        for (LockKey key : List.of(freshKey(), LockKey.of(-7, 3), LockKey.of(7, -3), LockKey.of(Long.MIN_VALUE))) {
            assertThat(session.waitInQueue(key, Duration.ofSeconds(1))).isTrue();
            assertThat(session.check()).containsExactly(key);
            session.release(List.of(key));
        }
    }

    @Test
    void aKeyThatIsTakenIsWaitedForUntilTheTimeIsOver() throws Exception {
        LockKey key = freshKey();
        LockKey kept = freshKey();
        LockSession holder = open("queue-holder");
        assertThat(holder.attempt(List.of(key)).granted()).containsExactly(key);
        LockSession waiting = open("queue-waiting");
        assertThat(waiting.attempt(List.of(kept)).granted()).containsExactly(kept);
        long start = System.nanoTime();
        assertThat(waiting.waitInQueue(key, Duration.ofMillis(300))).isFalse();
        assertThat(elapsed(start)).as("the server counts it").isBetween(Duration.ofMillis(150), Duration.ofSeconds(20));
        assertThat(waiting.check()).containsExactly(kept);
        assertThat(waiting.attempt(List.of(key)).granted()).isEmpty();
    }

    @Test
    void aKeyIsGrantedToTheOneThatWaitsWhenItsHolderEnds() throws Exception {
        LockKey key = freshKey();
        LockSession holder = open("queue-ending");
        assertThat(holder.attempt(List.of(key)).granted()).containsExactly(key);
        LockSession waiting = open("queue-waiting");
        Future<Boolean> granted = executor.submit(() -> waiting.waitInQueue(key, Duration.ofSeconds(5)));
        await().until(() -> table.advisoryRows().stream()
                .anyMatch(row -> row.pid() == waiting.facts().backendPid() && !row.granted()));
        holder.abort();
        assertThat(granted.get(20, TimeUnit.SECONDS)).isTrue();
        assertThat(waiting.check()).containsExactly(key);
    }

    @Test
    void whatIsToldWhileASessionWaitsInTheQueueIsHeardAfterwards() throws Exception {
        LockKey key = freshKey();
        LockSession holder = open("queue-telling");
        assertThat(holder.attempt(List.of(key)).granted()).containsExactly(key);
        LockSession waiting = open("queue-waiting");
        holder.tell(List.of("told"));
        assertThat(waiting.waitInQueue(key, Duration.ofMillis(50))).isFalse();
        await().until(() -> payloads(waiting, Duration.ZERO).contains("told"));
    }

    @Test
    void aServerThatDoesNotAnswerTheQueueIsNotWaitedForMuchLonger() throws Exception {
        LockSession session = open(new Settings("queue-swallowed", LEASE, SHORT_NETWORK_TIMEOUT, true));
        network.existing().flow(Direction.SERVER_TO_CLIENT, Flow.SWALLOW);
        long start = System.nanoTime();
        LockSessionException e = catchThrowableOfType(
                LockSessionException.class, () -> session.waitInQueue(freshKey(), Duration.ofMillis(300)));
        assertThat(e.fault()).isEqualTo(Fault.TIMEOUT);
        assertThat(elapsed(start)).isBetween(Duration.ofMillis(950), Duration.ofSeconds(20));
    }

    @Test
    void eachHolderIsToldOfItsKeys() throws Exception {
        LockKey own = freshKey();
        LockKey others = freshKey();
        LockKey pair = LockKey.of(12, 34);
        LockSession session = open("looking");
        assertThat(session.attempt(List.of(own)).granted()).hasSize(1);
        LockSession holding = open("holding");
        assertThat(holding.attempt(List.of(others, pair)).granted()).hasSize(2);
        Holder holder = new Holder(holding.facts().backendPid(), "pg-leader/holding");
        assertThat(session.findHolders(List.of(own, others, pair, freshKey(), LockKey.of(12, 35))))
                .isEqualTo(Map.of(
                        own, new Holder(session.facts().backendPid(), "pg-leader/looking"),
                        others, holder,
                        pair, holder));
        assertThat(session.findHolders(List.of())).isEmpty();
    }

    @Test
    void aGroupCountsTheSessionsThatJoinedItAndAreStillThere() throws Exception {
        LockKey group = freshKey();
        LockSession first = open("member-1");
        LockSession second = open("member-2");
        assertThat(first.join(group)).isTrue();
        assertThat(second.join(group)).isTrue();
        assertThat(first.countMembers(group)).isEqualTo(2);
        assertThat(first.check()).as("what the session holds exclusively").isEmpty();
        second.abort();
        await().until(() -> first.countMembers(group) == 1);
        LockSession stranger = open("stranger");
        LockKey taken = freshKey();
        assertThat(stranger.attempt(List.of(taken)).granted()).hasSize(1);
        assertThat(first.join(taken)).isFalse();
        assertThat(first.countMembers(taken)).isZero();
    }

    @Test
    void releasedKeysAreFree() throws Exception {
        LockSession session = open("releasing");
        List<LockKey> keys = List.of(freshKey(), freshKey(), LockKey.of(56, -78));
        LockKey kept = freshKey();
        assertThat(session.attempt(keys).granted()).hasSize(3);
        assertThat(session.attempt(List.of(kept)).granted()).hasSize(1);
        session.release(keys);
        assertThat(session.check()).containsExactly(kept);
        assertThat(open("next").attempt(keys).granted()).hasSize(3);
        LockSessionException e =
                catchThrowableOfType(LockSessionException.class, () -> session.release(List.of(freshKey())));
        assertThat(e.fault()).isEqualTo(Fault.LOCK_LOST);
    }

    @Test
    @DisplayName("C13: a session that waits learns at once that its backend was terminated, and why")
    void terminated() throws Exception {
        List<Duration> latencies = new ArrayList<>();
        for (int round = 0; round < 5; round++) {
            LockSession session = open("victim");
            CountDownLatch waiting = new CountDownLatch(1);
            Future<Long> noticed = executor.submit(() -> {
                waiting.countDown();
                assertLost(
                        () -> session.awaitNotifications(Duration.ofSeconds(30).toNanos()),
                        "57P01",
                        "administrator command");
                return System.nanoTime();
            });
            waiting.await();
            long start = System.nanoTime();
            terminate(session.facts().backendPid());
            latencies.add(Duration.ofNanos(noticed.get(20, TimeUnit.SECONDS) - start));
        }
        // The shortest: a pause of the machine says nothing, and one that polls would be late each time.
        assertThat(Collections.min(latencies)).as("%s", latencies).isLessThan(lossIsNoticedWithin());
    }

    @Test
    @DisplayName("F12, C13: each call on a terminated session fails, and says that the connection is lost")
    void calledAfterTermination() throws Exception {
        for (Map.Entry<String, Call> call : calls().entrySet()) {
            LockSession session = open("victim");
            int pid = session.facts().backendPid();
            terminate(pid);
            await().until(() -> table.session(pid).isEmpty());
            assertFault(
                    call.getKey(), Fault.CONNECTION_LOST, () -> call.getValue().on(session));
        }
    }

    @Test
    @DisplayName(
            "C12, C26: a session that is silent for its lease is ended, which frees its lock and is told with 57P05")
    void silentForTheLease() throws Exception {
        Duration lease = Duration.ofSeconds(1);
        LockKey key = freshKey();
        LockSession session = open(new Settings("silent", lease, NETWORK_TIMEOUT, true));
        LockSession other = open("other");
        long start = System.nanoTime();
        assertThat(session.attempt(List.of(key)).granted()).containsExactly(key);
        await().pollInterval(Duration.ofMillis(20))
                .atMost(Duration.ofSeconds(20))
                .until(() -> !other.attempt(List.of(key)).granted().isEmpty());
        assertThat(elapsed(start)).as("the server counts it").isGreaterThan(lease.dividedBy(2));
        assertLost(() -> session.awaitNotifications(Duration.ofSeconds(5).toNanos()), "57P05", "idle-session timeout");
    }

    @Test
    @DisplayName("C26: checks renew the lease, and nothing that others say does")
    void checksRenewTheLease() throws Exception {
        Duration lease = Duration.ofSeconds(3);
        LockKey key = freshKey();
        LockSession session = open(new Settings("alive", lease, NETWORK_TIMEOUT, true));
        LockSession silent = open(new Settings("silent", lease, NETWORK_TIMEOUT, true));
        LockSession other = open("other");
        assertThat(session.attempt(List.of(key)).granted()).containsExactly(key);
        await("the silent session ends").until(() -> {
            assertThat(session.awaitNotifications(Duration.ofMillis(200).toNanos()))
                    .allMatch(each -> each.payload().equals("noise"));
            assertThat(session.check()).containsExactly(key);
            other.tell(List.of("noise"));
            return table.session(silent.facts().backendPid()).isEmpty();
        });
        assertThat(session.check()).containsExactly(key);
    }

    @Test
    @DisplayName("C22: a session is idle, without transaction and snapshot, after each call and while it waits")
    void idle() throws Exception {
        try (Connection connection = connect()) {
            Sql.execute(connection, "ALTER ROLE CURRENT_USER SET idle_in_transaction_session_timeout = '200ms'");
        }
        try {
            LockSession session = open("modest");
            assertIdle(session);
            for (Map.Entry<String, Call> call : calls().entrySet()) {
                call.getValue().on(session);
                assertIdle(session);
            }
            Future<List<Notification>> waiting = executor.submit(
                    () -> session.awaitNotifications(Duration.ofMillis(500).toNanos()));
            while (!waiting.isDone()) {
                assertIdle(session);
            }
            assertThat(waiting.get()).isEmpty();
        } finally {
            try (Connection connection = connect()) {
                Sql.execute(connection, "ALTER ROLE CURRENT_USER RESET idle_in_transaction_session_timeout");
            }
        }
    }

    @Test
    @DisplayName("C09, C10, F11: behind a dead network each call ends within the network timeout")
    void bounded() throws Exception {
        List<Future<Duration>> durations = new ArrayList<>();
        Map<String, Call> calls = calls();
        Map<String, LockSession> sessions = new LinkedHashMap<>();
        for (String call : calls.keySet()) {
            sessions.put(call, open(new Settings(call, LEASE, SHORT_NETWORK_TIMEOUT, true)));
        }
        network.existing().flow(Flow.SWALLOW);
        sessions.forEach((name, session) -> durations.add(executor.submit(() -> {
            long start = System.nanoTime();
            assertFault(name, Fault.TIMEOUT, () -> calls.get(name).on(session));
            session.abort();
            return elapsed(start);
        })));
        for (Future<Duration> duration : durations) {
            assertThat(duration.get(40, TimeUnit.SECONDS))
                    .isBetween(SHORT_NETWORK_TIMEOUT, SHORT_NETWORK_TIMEOUT.plusSeconds(20));
        }
    }

    @Test
    @DisplayName(
            "C09, C11: a network that dies in the middle of a notification ends the wait in time, with no message made up")
    void halfANotification() throws Exception {
        LockSession listener = open(new Settings("listener", LEASE, SHORT_NETWORK_TIMEOUT, true));
        // The first chunk passes; it ends somewhere within a notification.
        network.onNext(
                Direction.SERVER_TO_CLIENT,
                TcpProxy.containing("a notification"),
                first -> network.onNext(
                        Direction.SERVER_TO_CLIENT,
                        TcpProxy.anything(),
                        second -> second.flow(Direction.SERVER_TO_CLIENT, Flow.HOLD)));
        Future<Duration> lost = executor.submit(() -> {
            long start = System.nanoTime();
            LockSessionException failure = catchThrowableOfType(LockSessionException.class, () -> {
                while (elapsed(start).compareTo(Duration.ofSeconds(40)) < 0) {
                    assertThat(listener.awaitNotifications(
                                    Duration.ofMillis(300).toNanos()))
                            .allMatch(each -> each.payload().startsWith("a notification"));
                }
            });
            assertThat(failure.fault()).isIn(Fault.TIMEOUT, Fault.CONNECTION_LOST);
            assertThat(failure).hasMessageNotContaining("Unknown Response Type");
            return elapsed(start);
        });
        try (Connection announcing = connect()) {
            Sql.execute(
                    announcing,
                    "SELECT pg_notify('pgleader', 'a notification ' || repeat(chr(96 + n), 7900))"
                            + " FROM generate_series(1, 26) AS n");
        }
        assertThat(lost.get(50, TimeUnit.SECONDS)).isLessThan(Duration.ofSeconds(20));
    }

    @Test
    @DisplayName("C09, C10: behind a dead network, close and abort wait for nobody")
    void closedBehindADeadNetwork() throws Exception {
        LockSession closed = open(patient("closed"));
        LockSession aborted = open(patient("aborted"));
        network.existing().flow(Flow.STALL);
        long start = System.nanoTime();
        closed.close();
        aborted.abort();
        assertThat(elapsed(start)).isLessThan(LONG_NETWORK_TIMEOUT.dividedBy(2));
    }

    @Test
    @DisplayName("C09: an abort from another thread ends a call that the network blocks, at once and for good")
    void abortedWhileBlocked() throws Exception {
        for (Map.Entry<String, Call> call : calls().entrySet()) {
            LockSession session = open(patient("blocked"));
            TcpProxy.Trigger sent = network.onNext(
                    Direction.CLIENT_TO_SERVER, TcpProxy.anything(), connection -> connection.flow(Flow.SWALLOW));
            Future<?> blocked = executor.submit(() -> assertFault(
                    call.getKey(), Fault.CONNECTION_LOST, () -> call.getValue().on(session)));
            sent.await(Duration.ofSeconds(20));
            long start = System.nanoTime();
            session.abort();
            blocked.get(20, TimeUnit.SECONDS);
            assertThat(elapsed(start)).isLessThan(LONG_NETWORK_TIMEOUT.dividedBy(2));
        }
    }

    @Test
    void anAbortFromAnotherThreadEndsAnAwait() throws Exception {
        LockSession session = open("waiting");
        CountDownLatch begun = new CountDownLatch(1);
        Future<?> waiting = executor.submit(() -> {
            begun.countDown();
            return assertFault(Fault.CONNECTION_LOST, () -> {
                while (true) {
                    assertThat(session.awaitNotifications(Duration.ofSeconds(30).toNanos()))
                            .isEmpty();
                }
            });
        });
        begun.await();
        long start = System.nanoTime();
        session.abort();
        waiting.get(20, TimeUnit.SECONDS);
        assertThat(elapsed(start)).isLessThan(Duration.ofSeconds(15));
    }

    @Test
    void aResetConnectionIsNoticedWhileWaiting() throws Exception {
        LockSession session = open("reset");
        Future<?> waiting = executor.submit(() -> assertFault(
                Fault.CONNECTION_LOST,
                () -> session.awaitNotifications(Duration.ofSeconds(30).toNanos())));
        long start = System.nanoTime();
        network.reset();
        waiting.get(20, TimeUnit.SECONDS);
        assertThat(elapsed(start)).isLessThan(Duration.ofSeconds(15));
    }

    @Test
    void anInterruptedThreadWaitsForNothing() throws Exception {
        LockSession session = open("interrupted");
        CountDownLatch begun = new CountDownLatch(1);
        Future<?> waiting = executor.submit(() -> {
            begun.countDown();
            return assertFault(
                    Fault.CONNECTION_LOST,
                    () -> session.awaitNotifications(Duration.ofSeconds(30).toNanos()));
        });
        begun.await();
        executor.shutdownNow();
        waiting.get(20, TimeUnit.SECONDS);
    }

    private static Settings patient(String instanceId) {
        return new Settings(instanceId, LONG_NETWORK_TIMEOUT.multipliedBy(2), LONG_NETWORK_TIMEOUT, true);
    }

    private void assertIdle(LockSession session) {
        int pid = session.facts().backendPid();
        // A session that has answered becomes idle a moment later.
        await().pollInterval(Duration.ofMillis(5))
                .untilAsserted(() -> assertThat(table.session(pid)).hasValueSatisfying(seen -> {
                    assertThat(seen.state()).isEqualTo("idle");
                    assertThat(seen.transactionStart()).isNull();
                    assertThat(seen.backendXmin()).isNull();
                    assertThat(seen.applicationName()).isEqualTo("pg-leader/modest");
                }));
    }

    static Map<String, Call> calls() {
        Map<String, Call> calls = new LinkedHashMap<>();
        calls.put(
                "attempt",
                session -> assertThat(session.attempt(List.of(freshKey())).granted())
                        .hasSize(1));
        calls.put("check", LockSession::check);
        calls.put("findHolders", session -> session.findHolders(List.of(freshKey())));
        calls.put("findCommanders", session -> session.findCommanders(List.of(1)));
        calls.put("tell", session -> session.tell(List.of()));
        calls.put("countMembers", session -> session.countMembers(freshKey()));
        calls.put("join", session -> assertThat(session.join(freshKey())).isTrue());
        calls.put(
                "waitInQueue",
                session -> assertThat(session.waitInQueue(freshKey(), Duration.ofMillis(50)))
                        .isTrue());
        calls.put("release", session -> {
            LockKey key = freshKey();
            assertThat(session.attempt(List.of(key)).granted()).hasSize(1);
            session.release(List.of(key));
        });
        return calls;
    }

    static void assertLost(Callable<?> call, String sqlState, String reason) {
        LockSessionException lost = catchThrowableOfType(LockSessionException.class, call::call);
        assertThat(lost.fault()).isEqualTo(Fault.CONNECTION_LOST);
        assertThat(lost).hasMessageContaining(reason).hasMessageContaining(sqlState);
        assertThat(lost.getCause())
                .isInstanceOfSatisfying(
                        SQLException.class, e -> assertThat(e.getSQLState()).isEqualTo(sqlState));
    }

    final void terminate(int pid) throws SQLException {
        try (Connection connection = connect()) {
            assertThat(Sql.truth(connection, "SELECT pg_terminate_backend(?)", pid))
                    .isTrue();
        }
    }
}
