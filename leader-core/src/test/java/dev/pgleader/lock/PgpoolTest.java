package dev.pgleader.lock;

import static dev.pgleader.lock.LockSessionContract.assertFault;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.Pgpool;
import dev.pgleader.testkit.Pgpool.Clustering;
import dev.pgleader.testkit.PostgresServer;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.postgresql.ds.PGSimpleDataSource;

/** Sessions behind Pgpool-II, before a primary with a standby. */
@Timeout(300)
class PgpoolTest {

    private static final String DATABASE = PostgresServer.DEFAULT_DATABASE;
    private static final LockKey KEY = LockKey.of(93);
    private static final Settings SETTINGS =
            new Settings("pgpool", Duration.ofSeconds(2), Duration.ofSeconds(10), true);
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private static PostgresServer primary;
    private static PostgresServer standby;
    private static LockTable table;

    @BeforeAll
    static void startServers() throws SQLException {
        assumeTrue(Pgpool.available(), Pgpool.MISSING);
        primary = PostgresServer.launch();
        standby = primary.standby();
        table = new LockTable(primary, DATABASE);
    }

    @AfterAll
    static void stopServers() throws SQLException {
        if (table != null) {
            table.close();
        }
        if (standby != null) {
            standby.close();
        }
        if (primary != null) {
            primary.close();
        }
    }

    /** How Pgpool-II is set up. */
    private enum Setup {
        /** One server, no more said. */
        RAW {
            @Override
            Pgpool.Builder builder() {
                return Pgpool.before(primary).clustering(Clustering.RAW);
            }
        },
        /** All statements go to the primary. */
        WITHOUT_LOAD_BALANCING {
            @Override
            Pgpool.Builder builder() {
                return replicating().setting("load_balance_mode", "off");
            }
        },
        /** Each connection reads from one of the two. */
        BALANCING_CONNECTIONS {
            @Override
            Pgpool.Builder builder() {
                return replicating();
            }
        },
        /** Each statement that reads goes to one of the two. */
        BALANCING_STATEMENTS {
            @Override
            Pgpool.Builder builder() {
                return replicating().setting("statement_level_load_balance", "on");
            }
        },
        /** Reads go to the standby only. */
        READING_FROM_STANDBY {
            @Override
            Pgpool.Builder builder() {
                return replicating().setting("backend_weight0", "0");
            }
        };

        abstract Pgpool.Builder builder();

        Pgpool launch() {
            return builder().launch();
        }

        private static Pgpool.Builder replicating() {
            return Pgpool.before(primary, standby).clustering(Clustering.STREAMING_REPLICATION);
        }
    }

    private static ConnectionSource through(Pgpool pooler) {
        return ConnectionSource.of(pooler.url(DATABASE), primary.superuser(), "");
    }

    private static DataSource dataSource(Pgpool pooler) {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(
                pooler.url(DATABASE, Map.of("user", primary.superuser(), "loginTimeout", "20", "socketTimeout", "20")));
        return dataSource;
    }

    @ParameterizedTest
    @EnumSource(
            value = Setup.class,
            names = {"RAW", "WITHOUT_LOAD_BALANCING"})
    @DisplayName("Where all statements go to one server, a session works as without Pgpool-II, and its lease ends it")
    void works(Setup setup) throws Exception {
        try (Pgpool pooler = setup.launch()) {
            for (ConnectionSource source : List.of(through(pooler), ConnectionSource.of(dataSource(pooler)))) {
                LockSession session = LockSession.open(source, SETTINGS);
                assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
                assertThat(session.check()).containsExactly(KEY);
                assertThat(table.holders(KEY.bits()))
                        .containsExactly(session.facts().backendPid());
                session.tell(List.of("through the pooler"));
                assertThat(LockSessionContract.receive(session, 1)).containsExactly("through the pooler");

                LockSession other = LockSession.open(source, SETTINGS);
                assertThat(other.attempt(List.of(KEY)).granted()).isEmpty();
                other.close();

                // Nobody asks for the length of the lease.
                table.awaitFree(KEY.bits(), PATIENCE);
                assertFault(Fault.CONNECTION_LOST, session::check);
                session.abort();

                LockSession next = LockSession.open(source, SETTINGS);
                assertThat(next.attempt(List.of(KEY)).granted()).containsExactly(KEY);
                next.close();
                table.awaitFree(KEY.bits(), PATIENCE);
            }
        }
    }

    @Test
    @DisplayName("A session whose statements go to two servers is refused, and the message says what to do")
    void refused() throws Exception {
        try (Pgpool pooler = Setup.READING_FROM_STANDBY.launch()) {
            for (ConnectionSource source : List.of(through(pooler), ConnectionSource.of(dataSource(pooler)))) {
                assertFault(Fault.SHARED_BACKEND, () -> LockSession.open(source, SETTINGS))
                        .hasMessageContaining("ran on several backends")
                        .hasMessageContaining("balances load as Pgpool-II does")
                        .hasMessageContaining("directly")
                        .hasMessageContaining("sends all statements to one server");
            }
            assertThat(table.advisoryRows()).isEmpty();
        }
    }

    @ParameterizedTest
    @EnumSource(Setup.class)
    @DisplayName("However Pgpool-II spreads statements, two sessions never hold one key at a time")
    void neverBoth(Setup setup) throws Exception {
        try (Pgpool pooler = setup.launch()) {
            Contention contention = Contention.of(through(pooler), KEY, SETTINGS);
            contention.assertNeverBoth();
            assertThat(contention.holds() + contention.faults(Fault.SHARED_BACKEND))
                    .isPositive();
        }
        table.awaitFree(KEY.bits(), PATIENCE);
    }

    @ParameterizedTest
    @EnumSource(Setup.class)
    @DisplayName("However Pgpool-II spreads statements, the helpers' work is alone, and none of it fails")
    void helpersExclude(Setup setup) throws Exception {
        int threads = 4;
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        AtomicInteger inside = new AtomicInteger();
        LockedWork<Boolean, SQLException> alone = connection -> {
            boolean first =
                    inside.incrementAndGet() == 1 && table.holders(KEY.bits()).size() == 1;
            inside.decrementAndGet();
            return first;
        };
        try (Pgpool pooler = setup.launch()) {
            AdvisoryLocks locks = AdvisoryLocks.on(dataSource(pooler));
            List<Future<Boolean>> results = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                results.add(executor.submit(() -> {
                    boolean always = true;
                    for (int call = 0; call < 5; call++) {
                        always &= locks.runLocked(KEY, Duration.ofSeconds(60), alone);
                        always &= locks.runInTransaction(KEY, Duration.ofSeconds(60), alone);
                    }
                    return always;
                }));
            }
            for (Future<Boolean> result : results) {
                assertThat(result.get(120, TimeUnit.SECONDS)).isTrue();
            }
        } finally {
            executor.shutdownNow();
        }
        table.awaitFree(KEY.bits(), PATIENCE);
    }
}
