package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PgBouncer;
import dev.pgleader.testkit.PgBouncer.PoolMode;
import dev.pgleader.testkit.Pgpool;
import dev.pgleader.testkit.Pgpool.Clustering;
import dev.pgleader.testkit.Pooler;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Elections whose sessions go through PgBouncer or Pgpool-II. */
@Timeout(300)
class PoolerElectionTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final int REFUSALS = 3;

    private final long bits = freshKeyBits();
    private final LockKey key = LockKey.of(bits);

    private static PgBouncer pgBouncer(PoolMode mode) {
        assumeTrue(PgBouncer.available(), PgBouncer.MISSING);
        return PgBouncer.before(SERVER).poolMode(mode).poolSize(6).launch();
    }

    private static Pgpool.Builder pgpool(PostgresServer... servers) {
        assumeTrue(Pgpool.available(), Pgpool.MISSING);
        return Pgpool.before(servers);
    }

    @ParameterizedTest
    @EnumSource(
            value = PoolMode.class,
            names = {"TRANSACTION", "STATEMENT"})
    @DisplayName("C07: behind a pooler that shares backends nobody leads and the status says why, until it's gone")
    void neverLeadsOnSharedBackends(PoolMode mode) throws Exception {
        try (PgBouncer pooler = pgBouncer(mode)) {
            neverLeads(SERVER, pooler);
        }
    }

    @Test
    @DisplayName(
            "C07: behind Pgpool-II that reads from a standby nobody leads and the status says why, until it's gone")
    void neverLeadsOnSeveralServers() throws Exception {
        try (PostgresServer primary = PostgresServer.launch();
                PostgresServer standby = primary.standby();
                Pgpool pooler = pgpool(primary, standby)
                        .clustering(Clustering.STREAMING_REPLICATION)
                        .setting("backend_weight0", "0")
                        .launch()) {
            neverLeads(primary, pooler);
        }
    }

    private void neverLeads(PostgresServer server, Pooler pooler) throws Exception {
        AtomicInteger firstRefused = new AtomicInteger();
        AtomicInteger secondRefused = new AtomicInteger();
        try (TcpProxy network = new TcpProxy(pooler.port());
                LockTable locks = new LockTable(server, PostgresServer.DEFAULT_DATABASE);
                TestCandidate first = TestCandidate.start(
                        "first",
                        direct(server, network.port()),
                        key,
                        builder -> builder.observer(counting(firstRefused)));
                TestCandidate second = TestCandidate.start(
                        "second",
                        direct(server, network.port()),
                        key,
                        builder -> builder.observer(counting(secondRefused)))) {
            await().atMost(PATIENCE).until(() -> firstRefused.get() >= REFUSALS && secondRefused.get() >= REFUSALS);
            for (TestCandidate candidate : List.of(first, second)) {
                LeaderStatus.Problem problem =
                        candidate.elector().status().problem().orElseThrow();
                assertThat(problem.fault()).contains(Fault.SHARED_BACKEND);
                assertThat(problem.message())
                        .contains("connect to PostgreSQL directly, or through a pooler in session mode");
                assertThat(candidate.elector().isLeader()).isFalse();
                assertThat(candidate.elector().status().session()).isEmpty();
                assertThat(candidate.events()).isEmpty();
            }
            assertThat(locks.holders(bits)).isEmpty();

            network.target(server.port());
            await().atMost(PATIENCE)
                    .until(() -> first.elector().isLeader() || second.elector().isLeader());
            await().atMost(PATIENCE)
                    .until(() -> first.elector().status().problem().isEmpty()
                            && second.elector().status().problem().isEmpty());
        }
    }

    /** How a leader falls silent, with its connections open. */
    private enum Silence {
        OF_THE_NETWORK,
        OF_THE_PROCESS
    }

    @ParameterizedTest
    @EnumSource(Silence.class)
    @DisplayName(
            "C07, C12, C38: behind a pooler in session mode somebody leads, and a silent leader is replaced in time")
    void theLeaseHoldsInSessionMode(Silence silence) throws Exception {
        try (PgBouncer pooler = pgBouncer(PoolMode.SESSION)) {
            theLeaseHolds(pooler, silence);
        }
    }

    @ParameterizedTest
    @EnumSource(Silence.class)
    @DisplayName("C12, C38: behind Pgpool-II before one server somebody leads, and a silent leader is replaced in time")
    void theLeaseHoldsBehindPgpool(Silence silence) throws Exception {
        try (Pgpool pooler = pgpool(SERVER).clustering(Clustering.RAW).launch()) {
            theLeaseHolds(pooler, silence);
        }
    }

    private void theLeaseHolds(Pooler pooler, Silence silence) throws Exception {
        ElectorOptions options = FAST.toBuilder()
                .leaseDuration(Duration.ofMillis(1_500))
                .healthCheckTimeout(Duration.ofMillis(600))
                .build();
        try (TcpProxy network = new TcpProxy(pooler.port());
                LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);
                JavaProcess leader = ElectorProcess.start(SERVER, network.port(), bits, "leader", options)) {
            leader.awaitLine("elected 1", PATIENCE);
            try (TestCandidate other = TestCandidate.start(
                    "other", direct(SERVER, pooler.port()), key, builder -> builder.options(options))) {
                int pid = other.backendPid();
                assertThat(locks.holders(bits)).hasSize(1).doesNotContain(pid);

                long silentAt = System.nanoTime();
                if (silence == Silence.OF_THE_NETWORK) {
                    network.all().flow(Flow.SWALLOW);
                } else {
                    leader.pause();
                }
                TestCandidate.Event elected = other.awaitElected(1);
                Duration bound = options.leaseDuration()
                        .plus(options.retryInterval().multipliedBy(12).dividedBy(10));
                assertThat(Duration.ofNanos(elected.atNanos() - silentAt)).isLessThan(bound.plus(PATIENCE));
                assertThat(locks.holders(bits)).containsExactly(pid);

                if (silence == Silence.OF_THE_PROCESS) {
                    leader.resume();
                    assertThat(leader.awaitLine("woke", PATIENCE).text()).isEqualTo("woke false");
                }
                leader.awaitLine("revoked 1", PATIENCE);
                assertThat(ElectorProcess.lastLed(leader, 1)).isLessThan(elected.atNanos());
            }
        }
    }

    private static ElectionObserver counting(AtomicInteger refusals) {
        return new ElectionObserver() {
            @Override
            public void sessionFailed(Fault fault, String message) {
                if (fault == Fault.SHARED_BACKEND) {
                    refusals.incrementAndGet();
                }
            }
        };
    }
}
