package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.event.Level;

/** What the sessions of electors are to the server and to a pool. */
@Timeout(300)
class SessionHygieneTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final int SAMPLES = 50;

    private final long bits = freshKeyBits();
    private final LockKey key = LockKey.of(bits);

    private static HikariDataSource pool(int size, Consumer<HikariConfig> adjustment) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(SERVER.url(PostgresServer.DEFAULT_DATABASE));
        config.setUsername(SERVER.superuser());
        config.setPassword(SERVER.superuserPassword());
        config.setMaximumPoolSize(size);
        config.setMinimumIdle(1);
        adjustment.accept(config);
        return new HikariDataSource(config);
    }

    private static void inTransactions(HikariConfig config) {
        config.setAutoCommit(false);
        config.setTransactionIsolation("TRANSACTION_REPEATABLE_READ");
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void leaderAndFollowerAreIdleWithoutTransactionOrSnapshot(boolean pooled) throws Exception { // C22
        SERVER.execute("ALTER ROLE postgres SET idle_in_transaction_session_timeout = '500ms'");
        try (HikariDataSource pool = pool(4, SessionHygieneTest::inTransactions);
                LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE)) {
            ConnectionSource source = pooled ? ConnectionSource.of(pool) : direct(SERVER);
            try (TestCandidate leader = TestCandidate.startLeader("leader-" + bits, source, key);
                    TestCandidate follower = TestCandidate.start("follower-" + bits, source, key)) {
                for (TestCandidate candidate : List.of(leader, follower)) {
                    int pid = candidate.backendPid();
                    List<LockTable.Session> samples = new ArrayList<>();
                    await().atMost(PATIENCE).pollInterval(Duration.ofMillis(20)).until(() -> {
                        LockTable.Session sample = locks.session(pid).orElseThrow();
                        // In the moment of a statement the session is active, with the snapshot of that statement.
                        if (!"active".equals(sample.state())) {
                            samples.add(sample);
                        }
                        return samples.size() == SAMPLES;
                    });
                    assertThat(samples).allSatisfy(sample -> {
                        assertThat(sample.state()).isEqualTo("idle");
                        assertThat(sample.transactionStart()).isNull();
                        assertThat(sample.backendXmin()).isNull();
                    });
                }
                assertThat(leader.events()).hasSize(1);
            }
        } finally {
            SERVER.execute("ALTER ROLE postgres RESET idle_in_transaction_session_timeout");
        }
    }

    @Test
    void aPoolGetsNoSessionBackThatHoldsALock() throws Exception { // C01, F14
        try (HikariDataSource pool = pool(1, config -> {});
                LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE)) {
            int electorPid;
            try (TestCandidate candidate = TestCandidate.startLeader("pooled", ConnectionSource.of(pool), key)) {
                electorPid = candidate.backendPid();
            }
            locks.awaitFree(bits, Duration.ofSeconds(1));
            try (Connection next = pool.getConnection()) {
                assertThat(Sql.backendPid(next)).isNotEqualTo(electorPid);
                assertThat(Sql.text(next, "SHOW idle_session_timeout")).isEqualTo("0");
                assertThat(next.getAutoCommit()).isTrue();
            }
            assertThat(locks.session(electorPid)).isEmpty();
        }
    }

    @Test
    void aPoolThatRetiresItsConnectionsDoesNotCostLeadership() { // C03
        try (HikariDataSource pool = pool(2, config -> config.setMaxLifetime(30_000));
                TestCandidate leader = TestCandidate.startLeader("pooled", ConnectionSource.of(pool), key)) {
            int pid = leader.backendPid();
            pool.getHikariPoolMXBean().softEvictConnections();
            long begin = System.nanoTime();
            await().atMost(PATIENCE).until(() -> System.nanoTime() - begin > TimeUnit.SECONDS.toNanos(2));
            assertThat(leader.backendPid()).isEqualTo(pid);
            assertThat(leader.events()).hasSize(1);
            assertThat(leader.elector().isLeader()).isTrue();
        }
    }

    @Test
    void anElectorOfItsOwnTakesNothingFromThePoolAndPooledOneTakesOneSlot() throws Exception { // C04
        try (LogCapture log = LogCapture.of("com.zaxxer.hikari", Level.WARN);
                HikariDataSource pool = pool(2, config -> config.setLeakDetectionThreshold(2_000))) {
            try (TestCandidate own = TestCandidate.startLeader("own", direct(SERVER), key);
                    Connection first = pool.getConnection();
                    Connection second = pool.getConnection()) {
                assertThat(first.isValid(1) && second.isValid(1)).isTrue();
                assertThat(pool.getHikariPoolMXBean().getActiveConnections()).isEqualTo(2);
                assertThat(own.elector().isLeader()).isTrue();
            }
            try (TestCandidate pooled = TestCandidate.startLeader("pooled", ConnectionSource.of(pool), key)) {
                await().atMost(PATIENCE).until(() -> pool.getHikariPoolMXBean().getActiveConnections() == 1);
                assertThat(pooled.elector().isLeader()).isTrue();
            }
            assertThat(log.messages(Level.WARN)).noneMatch(message -> message.contains("leak"));
        }
    }

    @Test
    void anIndexIsBuiltConcurrentlyWhileOthersFollow() throws Exception { // C25
        String table = "hygiene_" + ProcessHandle.current().pid();
        SERVER.execute("CREATE TABLE " + table + " (id int)");
        try (HikariDataSource pool = pool(3, SessionHygieneTest::inTransactions);
                TestCandidate leader = TestCandidate.startLeader("leader", direct(SERVER), key);
                TestCandidate follower = TestCandidate.start("follower", direct(SERVER), key);
                TestCandidate pooled = TestCandidate.start("pooled", ConnectionSource.of(pool), key);
                Connection builder = SERVER.connect()) {
            follower.backendPid();
            pooled.backendPid();
            Sql.execute(builder, "SET statement_timeout = '10s'");
            Sql.execute(builder, "CREATE INDEX CONCURRENTLY ON " + table + " (id)");
            assertThat(leader.events()).hasSize(1);
        } finally {
            SERVER.execute("DROP TABLE " + table);
        }
    }

    @Test
    void manyFollowersHoldOneSessionEach() throws Exception { // X08
        int followers = 10;
        String id = "many-" + bits;
        List<TestCandidate> candidates = new ArrayList<>();
        try (LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE)) {
            for (int i = 0; i < followers; i++) {
                candidates.add(TestCandidate.start(id, direct(SERVER), key));
            }
            candidates.forEach(TestCandidate::backendPid);
            await().atMost(PATIENCE)
                    .untilAsserted(
                            () -> assertThat(locks.sessions("pg-leader/" + id)).hasSize(followers));
        } finally {
            candidates.forEach(TestCandidate::close);
        }
    }

    @Test
    void exhaustedConnectionsAreRetriedUntilThereIsOne() throws Exception { // X08, 53300
        try (PostgresServer small = PostgresServer.builder()
                .setting("max_connections", "8")
                .setting("superuser_reserved_connections", "0")
                .launch()) {
            List<Connection> others = new ArrayList<>();
            Map<String, String> impatient = Map.of("connectTimeout", "5");
            try (Connection first = small.connect(PostgresServer.DEFAULT_DATABASE, impatient)) {
                assertThat(first.isValid(1)).isTrue();
                while (others.size() < 7) {
                    others.add(small.connect(PostgresServer.DEFAULT_DATABASE, impatient));
                }
                try (TestCandidate candidate = TestCandidate.start("patient", direct(small), key)) {
                    await().atMost(PATIENCE)
                            .until(() -> candidate
                                    .elector()
                                    .status()
                                    .problem()
                                    .filter(problem -> problem.fault()
                                                    .filter(Fault.UNREACHABLE::equals)
                                                    .isPresent()
                                            && problem.message().contains("too many clients"))
                                    .isPresent());
                    assertThat(candidate.elector().isLeader()).isFalse();
                    for (Connection other : others) {
                        other.close();
                    }
                    candidate.awaitElected(1);
                    assertThat(candidate.elector().status().problem()).isEmpty();
                }
            }
        }
    }
}
