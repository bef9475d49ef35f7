package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.PostgresServer.FrozenBackend;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** The contract over connections that are opened directly, on sockets of ours. */
class EmbeddedLockSessionTest extends PostgresLockSessionContract {

    private static final String DATABASE = "embedded_contract";
    private static final PostgresServer SERVER = PostgresServer.shared();

    private final ConnectionSource source = ConnectionSource.of(
            PostgresServer.url(network.port(), DATABASE, Map.of()), SERVER.superuser(), SERVER.superuserPassword());

    @BeforeAll
    static void createDatabase() throws SQLException {
        SERVER.createDatabase(DATABASE);
    }

    @Override
    InetSocketAddress server() {
        return new InetSocketAddress(InetAddress.getLoopbackAddress(), SERVER.port());
    }

    @Override
    Connection connect() throws SQLException {
        return SERVER.connect(DATABASE);
    }

    @Override
    LockSession openSession(Settings settings) throws Exception {
        return LockSession.open(source, settings);
    }

    @Override
    Duration lossIsNoticedWithin() {
        return Duration.ofMillis(500);
    }

    @Test
    @DisplayName("C09, F11: with a frozen backend a check ends in time, and the lock stays taken until it goes on")
    void frozenBackend() throws Exception {
        LockKey key = freshKey();
        LockSession session = open(new Settings("frozen", LEASE, Duration.ofMillis(500), true));
        assertThat(session.attempt(List.of(key)).granted()).containsExactly(key);
        int pid = session.facts().backendPid();
        SERVER.freezeBackend(pid);
        try {
            long start = System.nanoTime();
            assertFault(Fault.TIMEOUT, session::check);
            session.abort();
            assertThat(elapsed(start)).isBetween(Duration.ofMillis(500), Duration.ofSeconds(20));
            assertThat(table.holders(key.bits())).containsExactly(pid);
        } finally {
            SERVER.thawBackend(pid);
        }
        table.awaitFree(key.bits(), Duration.ofSeconds(5));
    }

    @Test
    @DisplayName("A wait that times out in the moment in which it gets the lock tells of the lock, which it has once")
    void grantedAndTimedOut() throws Exception {
        LockKey key = freshKey();
        LockSession holder = open("holder");
        assertThat(holder.attempt(List.of(key)).granted()).containsExactly(key);
        LockSession waiting = open("waiting");
        int pid = waiting.facts().backendPid();
        Duration slice = Duration.ofMillis(500);
        Future<Boolean> granted = executor.submit(() -> waiting.waitInQueue(key, slice));
        await().until(() -> table.advisoryRows().stream().anyMatch(row -> row.pid() == pid && !row.granted()));
        try (FrozenBackend frozen = SERVER.freezeBackend(pid)) {
            await().until(() -> frozen.age().compareTo(slice) > 0);
            holder.release(List.of(key));
            await().until(() -> table.holders(key).contains(pid));
        }
        boolean told = granted.get(20, TimeUnit.SECONDS);
        assertThat(waiting.check()).containsExactly(key);
        assertThat(told).isTrue();
        waiting.release(List.of(key));
        assertThat(waiting.check()).isEmpty();
    }

    @Test
    @DisplayName("N19: a direct connection proves itself by its login, so a role with one connection gets its session")
    void oneConnectionOnly() throws Exception {
        SERVER.createRole("single", "");
        SERVER.execute("ALTER ROLE single CONNECTION LIMIT 1");
        ConnectionSource single = ConnectionSource.of(SERVER.url(DATABASE), "single", "");
        Settings settings = new Settings("single", LEASE, NETWORK_TIMEOUT, true);
        LockSession session = LockSession.open(single, settings);
        assertFault(Fault.UNREACHABLE, () -> LockSession.open(single, settings))
                .hasMessageContaining("too many connections")
                .hasMessageContaining("53300");
        session.close();
    }

    @Test
    @DisplayName("F17, X15: a full lock table is a fault of its own, not a refusal")
    void fullLockTable() throws Exception {
        try (PostgresServer small = PostgresServer.builder()
                .setting("max_locks_per_transaction", "10")
                .setting("max_connections", "10")
                .launch()) {
            ConnectionSource toSmall = ConnectionSource.of(
                    small.url(PostgresServer.DEFAULT_DATABASE), small.superuser(), small.superuserPassword());
            LockSession session = LockSession.open(toSmall, new Settings("greedy", LEASE, NETWORK_TIMEOUT, true));
            List<LockKey> keys =
                    IntStream.range(0, 20_000).mapToObj(i -> freshKey()).toList();
            assertThatThrownBy(() -> session.attempt(keys)).isInstanceOf(LockTableFullException.class);
            assertThat(session.check())
                    .as("what was granted, in a session that is still good")
                    .isNotEmpty();
            session.abort();
        }
    }
}
