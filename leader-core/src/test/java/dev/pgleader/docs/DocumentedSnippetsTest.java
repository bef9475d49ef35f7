package dev.pgleader.docs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.AcquisitionMode;
import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderElectorGroup;
import dev.pgleader.LeaderStatus;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.TakeoverDelay;
import dev.pgleader.lock.AdvisoryLocks;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.postgresql.ds.PGSimpleDataSource;

/** The Java that the documentation shows does what it says. */
@Timeout(300)
class DocumentedSnippetsTest {

    private static final String DATABASE = "documented_snippets";
    private static final PostgresServer SERVER = PostgresServer.shared();

    @BeforeAll
    static void createDatabase() throws SQLException {
        SERVER.createDatabase(DATABASE);
    }

    @Test
    void thePlainProgramOfTheReadmeHandsOver() {
        String[] database = {SERVER.url(DATABASE), SERVER.superuser(), SERVER.superuserPassword()};
        try (JavaProcess first = JavaProcess.start(NightlyRun.class, database)) {
            // On a server that has just started it leads after a lease.
            first.awaitLine(" leads, term 1$", Duration.ofSeconds(60));
            try (JavaProcess second = JavaProcess.start(NightlyRun.class, database);
                    JavaProcess third = JavaProcess.start(NightlyRun.class, database)) {
                first.stop();
                first.awaitLine(" no longer leads: CLOSED$", Duration.ofSeconds(30));
                assertThat(first.exitCode(Duration.ofSeconds(30))).isEqualTo(143);
                await().atMost(Duration.ofSeconds(30))
                        .until(() -> !second.lines().isEmpty() || !third.lines().isEmpty());
                JavaProcess next = second.lines().isEmpty() ? third : second;
                next.kill();
                (next == second ? third : second).awaitLine(" leads, term 1$", Duration.ofSeconds(30));
            }
        }
    }

    @Test
    void readme() throws Exception {
        ReadmeSnippets snippets = new ReadmeSnippets();
        LeaderElector elector = snippets.start(SERVER.url(DATABASE), SERVER.superuser(), SERVER.superuserPassword());
        try {
            // On a server that has just started it holds the lock and would lead after a lease; that isn't waited for.
            await().atMost(Duration.ofSeconds(30))
                    .until(() -> elector.status().role() == LeaderStatus.Role.TAKING_OVER
                            || (elector.isLeader() && snippets.warmed().getCount() == 0));
        } finally {
            ReadmeSnippets.end(elector);
        }
        assertThat(elector.status().role()).isEqualTo(LeaderStatus.Role.STOPPED);
    }

    @Test
    void shortDeeds() {
        Queue<String> sent = new ConcurrentLinkedQueue<>();
        try (LeaderElector elector = LeaderElector.builder()
                .connectTo(ConnectionSource.of(SERVER.url(DATABASE), SERVER.superuser(), SERVER.superuserPassword()))
                .key("billing/reports")
                .options(ElectorOptions.builder()
                        .takeoverDelay(TakeoverDelay.NONE)
                        .build())
                .build()) {
            FencingSnippets.shortDeeds(elector, () -> List.of("C-17", "C-18"), sent::add);
            ReferenceSnippets.bind(elector, new SimpleMeterRegistry());
            elector.start();
            await().atMost(Duration.ofSeconds(30)).until(() -> sent.size() == 2);
        }
        assertThat(sent).containsExactly("C-17", "C-18");
    }

    @Test
    void groups() {
        ConnectionSource source =
                ConnectionSource.of(SERVER.url(DATABASE), SERVER.superuser(), SERVER.superuserPassword());
        Queue<String> told = new ConcurrentLinkedQueue<>();
        LeadershipListener listener = new LeadershipListener() {
            @Override
            public void onElected(Leadership leadership) {
                told.add("elected");
            }

            @Override
            public void onRevoked(Leadership leadership, RevocationReason reason) {}
        };
        try (LeaderElectorGroup group = ReferenceSnippets.group(source, listener, listener)) {
            // On a server that has just started they hold the locks and would lead after a lease.
            await().atMost(Duration.ofSeconds(30))
                    .until(() -> told.size() == 2
                            || group.electors().stream()
                                    .allMatch(elector -> elector.status().role() == LeaderStatus.Role.TAKING_OVER));
        }
        try (LeaderElectorGroup spread = ReferenceSnippets.spread(source)) {
            assertThat(spread.name()).isEqualTo("importers");
        }
        assertThat(ReferenceSnippets.queueing().acquisitionMode()).isEqualTo(AcquisitionMode.QUEUE);
    }

    @Test
    void transactionLock() throws SQLException {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(SERVER.url(DATABASE));
        dataSource.setUser(SERVER.superuser());
        dataSource.setPassword(SERVER.superuserPassword());
        AdvisoryLocks locks = AdvisoryLocks.on(dataSource);
        try (Connection other = SERVER.connect(DATABASE)) {
            Sql.execute(other, "CREATE TABLE invoice (closed boolean NOT NULL)");
            Sql.execute(other, "INSERT INTO invoice VALUES (false), (false)");
            long key = Long.parseLong(
                    LockKey.named("billing/close-month").toString().replace("bigint:", ""));
            assertThat(Sql.tryLock(other, key)).isTrue();
            assertThat(FencingSnippets.closeMonth(locks)).isFalse();
            assertThat(Sql.text(other, "SELECT count(*) FROM invoice WHERE closed"))
                    .isEqualTo("0");
            assertThat(Sql.unlock(other, key)).isTrue();
            assertThat(FencingSnippets.closeMonth(locks)).isTrue();
            assertThat(Sql.text(other, "SELECT count(*) FROM invoice WHERE closed"))
                    .isEqualTo("2");
        }
    }
}
