package dev.pgleader.docs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.TakeoverDelay;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.awaitility.core.ConditionFactory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/** Runs the SQL of the documentation, page by page, as psql would; the runbook while one elector leads and another follows. */
@Timeout(300)
class DocumentedSqlTest {

    private static final String DATABASE = "documentation";
    private static final String NAME = "billing/nightly-run";
    private static final LockKey KEY = LockKey.named(NAME);
    private static final PostgresServer SERVER = PostgresServer.shared();

    private static final ElectorOptions OPTIONS = ElectorOptions.builder()
            .leaseDuration(Duration.ofSeconds(6))
            .healthCheckInterval(Duration.ofMillis(300))
            .healthCheckTimeout(Duration.ofSeconds(3))
            .retryInterval(Duration.ofMillis(200))
            .takeoverDelay(TakeoverDelay.NONE)
            .build();

    /** An instance that takes part, and why its terms ended. */
    private static final class Instance implements LeadershipListener, AutoCloseable {

        final Queue<RevocationReason> revocations = new ConcurrentLinkedQueue<>();
        final LeaderElector elector;

        Instance(String id) {
            elector = LeaderElector.builder()
                    .connectTo(
                            ConnectionSource.of(SERVER.url(DATABASE), SERVER.superuser(), SERVER.superuserPassword()))
                    .key(NAME)
                    .instanceId(id)
                    .options(OPTIONS)
                    .listener(this)
                    .build();
            elector.start();
        }

        @Override
        public void onElected(Leadership leadership) {}

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            revocations.add(reason);
        }

        int backendPid() {
            return elector.status().session().orElseThrow().backendPid();
        }

        @Override
        public void close() {
            elector.close();
        }
    }

    /** What must come of the blocks under one heading. */
    private interface Expectation {
        void meet(List<MarkdownPage.Block> blocks) throws Exception;
    }

    private final ExecutorService executor = Executors.newCachedThreadPool();
    private final List<Instance> instances = new ArrayList<>();
    private Connection connection;
    private PsqlScript psql;

    @BeforeAll
    static void createDatabase() throws SQLException {
        SERVER.createDatabase(DATABASE);
        try (Connection owner = SERVER.connect(DATABASE)) {
            Sql.execute(owner, "CREATE TABLE invoice (customer text, amount int)");
            Sql.execute(owner, "CREATE TABLE report (id int PRIMARY KEY, body text, epoch bigint NOT NULL)");
            Sql.execute(owner, "INSERT INTO report VALUES (17, 'old', 0)");
        }
    }

    @BeforeEach
    void connect() throws SQLException {
        connection = SERVER.connect(DATABASE);
        psql = new PsqlScript(connection);
    }

    @AfterEach
    void end() throws Exception {
        instances.forEach(Instance::close);
        connection.close();
        executor.shutdown();
        assertThat(executor.awaitTermination(10, TimeUnit.SECONDS)).isTrue();
    }

    @Test
    void runbook() throws Exception {
        instances.add(new Instance("first"));
        instances.add(new Instance("second"));
        run(
                "docs/operations.md",
                Map.of(
                        "Name the key", this::namesTheKey,
                        "Everybody who takes part", this::showsEverybody,
                        "Who leads", this::findsTheLeader,
                        "Since when", this::hearsSinceWhen,
                        "Make it resign", this::makesTheLeaderResign,
                        "Keep everybody from leading", this::keepsEverybodyFromLeading,
                        "End its session", this::endsTheSession));
    }

    @Test
    void keyOfAName() throws Exception {
        run("docs/keys.md", Map.of("The key of a name in SQL", blocks -> {
            psql.run(blocks.get(0).text());
            assertThat(psql.variable("key")).isEqualTo(KEY.toString());
            for (String name : List.of("a", "Überweisung", "夜間バッチ", "🦅🔒", "it's")) {
                psql.set("name", name);
                psql.run(blocks.get(0).text().replace("\\set name '" + NAME + "'\n", ""));
                assertThat(psql.variable("key")).isEqualTo(LockKey.named(name).toString());
            }
        }));
    }

    @Test
    void fencing() throws Exception {
        run(
                "docs/fencing.md",
                Map.of(
                        "A guard in the same transaction", this::guardsWrites,
                        "An epoch checked by the write", this::refusesTheWriteOfAnOldLeader));
    }

    @Test
    void noPageHasSqlThatIsNotRun() throws IOException {
        assertThat(MarkdownPage.all().stream()
                        .filter(page -> !page.blocks("sql").isEmpty())
                        .map(page -> page.path().toString()))
                .as("pages with SQL, each of which needs a test here that runs it")
                .containsExactlyInAnyOrder("docs/operations.md", "docs/keys.md", "docs/fencing.md");
    }

    private void run(String path, Map<String, Expectation> expectations) throws Exception {
        MarkdownPage page = MarkdownPage.all().stream()
                .filter(candidate -> candidate.path().toString().equals(path))
                .findFirst()
                .orElseThrow();
        Map<String, List<MarkdownPage.Block>> byHeading = page.blocks("sql").stream()
                .collect(Collectors.groupingBy(MarkdownPage.Block::heading, LinkedHashMap::new, Collectors.toList()));
        assertThat(byHeading.keySet())
                .as("headings of %s with SQL, each of which needs an expectation", path)
                .containsExactlyInAnyOrderElementsOf(expectations.keySet());
        for (Map.Entry<String, List<MarkdownPage.Block>> entry : byHeading.entrySet()) {
            expectations.get(entry.getKey()).meet(entry.getValue());
        }
    }

    private List<PsqlScript.Result> run(List<MarkdownPage.Block> blocks) throws SQLException {
        List<PsqlScript.Result> results = new ArrayList<>();
        for (MarkdownPage.Block block : blocks) {
            results.addAll(psql.run(block.text()));
        }
        return results;
    }

    private static ConditionFactory eventually() {
        return await().atMost(Duration.ofSeconds(20)).pollInterval(Duration.ofMillis(10));
    }

    private Instance leader() {
        return eventually()
                .until(
                        () -> {
                            boolean allPresent = instances.stream()
                                    .allMatch(instance ->
                                            instance.elector.status().session().isPresent());
                            return instances.stream()
                                    .filter(instance -> allPresent && instance.elector.isLeader())
                                    .findFirst();
                        },
                        found -> found.isPresent())
                .orElseThrow();
    }

    private Instance follower(Instance leader) {
        return instances.get(0) == leader ? instances.get(1) : instances.get(0);
    }

    // ---- operations

    private void namesTheKey(List<MarkdownPage.Block> blocks) throws SQLException {
        run(blocks);
        assertThat(psql.variable("key")).isEqualTo(KEY.toString());
    }

    private void showsEverybody(List<MarkdownPage.Block> blocks) throws SQLException {
        Instance leader = leader();
        try (Connection pair = SERVER.connect(DATABASE, Map.of("ApplicationName", "pg-leader/pair"))) {
            assertThat(Sql.truth(pair, "SELECT pg_try_advisory_lock(-4, -2)")).isTrue();
            List<Map<String, String>> rows = run(blocks).get(0).rows();
            Map<String, String> holds = new HashMap<>();
            rows.forEach(row -> holds.put(row.get("pid"), row.get("holds")));
            Map<String, String> expected = new HashMap<>();
            expected.put(Integer.toString(leader.backendPid()), KEY.toString());
            expected.put(Integer.toString(follower(leader).backendPid()), null);
            expected.put(
                    Integer.toString(Sql.backendPid(pair)), LockKey.of(-4, -2).toString());
            assertThat(holds).isEqualTo(expected);
            assertThat(rows)
                    .extracting(row -> row.get("application_name"))
                    .containsExactlyInAnyOrder("pg-leader/first", "pg-leader/second", "pg-leader/pair");
        }
    }

    private void findsTheLeader(List<MarkdownPage.Block> blocks) throws SQLException {
        Instance leader = leader();
        assertThat(run(blocks).get(0).rows()).singleElement().satisfies(row -> {
            assertThat(row).containsEntry("pid", Integer.toString(leader.backendPid()));
            assertThat(row).containsEntry("application_name", "pg-leader/" + leader.elector.instanceId());
            assertThat(row.get("backend_start")).isNotBlank();
        });
    }

    private void hearsSinceWhen(List<MarkdownPage.Block> blocks) throws SQLException {
        Instance leader = leader();
        run(blocks);
        PGNotification[] notifications = connection.unwrap(PGConnection.class).getNotifications();
        assertThat(Stream.of(notifications).map(PGNotification::getParameter))
                .contains("elected " + KEY + " " + leader.backendPid() + " "
                        + leader.elector.status().leaderSince().orElseThrow() + " " + leader.elector.instanceId());
    }

    private void makesTheLeaderResign(List<MarkdownPage.Block> blocks) throws SQLException {
        Instance leader = leader();
        leader.revocations.clear();
        SERVER.createRole("documentation_reader", "secret");
        try (Connection reader = SERVER.connect(DATABASE, "documentation_reader", "secret")) {
            psql.on(reader).run(blocks.get(0).text());
        }
        eventually().until(() -> leader.revocations.contains(RevocationReason.RESIGNED));
        eventually().until(() -> follower(leader).elector.isLeader());
    }

    private void keepsEverybodyFromLeading(List<MarkdownPage.Block> blocks) throws Exception {
        assertThat(blocks).hasSize(2);
        Instance leader = leader();
        try (Connection operator = SERVER.connect(DATABASE)) {
            int operatorPid = Sql.backendPid(operator);
            PsqlScript waiting = psql.on(operator);
            Future<?> queued = executor.submit(() -> waiting.run(blocks.get(0).text()));
            eventually()
                    .until(() -> Sql.truth(
                            connection,
                            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"));
            assertThat(leader.elector.isLeader()).isTrue();
            psql.run("SELECT pg_notify('pgleader', 'resign ' || :'key');");
            queued.get(20, TimeUnit.SECONDS);
            assertThat(instances).noneMatch(instance -> instance.elector.isLeader());
            assertThat(instances)
                    .allSatisfy(instance -> assertThat(
                                    instance.elector.currentLeader().get(10, TimeUnit.SECONDS))
                            .hasValueSatisfying(
                                    holder -> assertThat(holder.backendPid()).isEqualTo(operatorPid)));
            assertThat(waiting.run(blocks.get(1).text()).get(0).rows())
                    .singleElement()
                    .satisfies(row -> assertThat(row).containsEntry("pg_advisory_unlock", "t"));
            leader();
        }
    }

    private void endsTheSession(List<MarkdownPage.Block> blocks) throws SQLException {
        Instance leader = leader();
        String pid = Integer.toString(leader.backendPid());
        leader.revocations.clear();
        assertThat(run(blocks).get(0).rows()).singleElement().satisfies(row -> {
            assertThat(row).containsEntry("pid", pid);
            assertThat(row).containsEntry("ended", "t");
        });
        eventually().until(() -> leader.revocations.contains(RevocationReason.SESSION_LOST));
        leader();
    }

    // ---- fencing

    private void guardsWrites(List<MarkdownPage.Block> blocks) throws Exception {
        assertThat(blocks).hasSize(3);
        String raise = blocks.get(1).text();
        String write = blocks.get(2).text();
        psql.run(blocks.get(0).text());
        psql.run(raise);
        assertThat(psql.variable("epoch")).isEqualTo("1");
        assertThat(guard(psql.run(write))).as("the guard of the leader").hasSize(1);

        String unfinished = write.replace("COMMIT;\n", "");
        assertThat(unfinished).isNotEqualTo(write);
        try (Connection newLeader = SERVER.connect(DATABASE)) {
            PsqlScript next = psql.on(newLeader);
            psql.run(unfinished);
            Future<?> raised = executor.submit(() -> next.run(raise));
            eventually()
                    .until(() -> Sql.truth(
                            connection,
                            "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = " + Sql.backendPid(newLeader)
                                    + " AND NOT granted)"));
            assertThat(raised.isDone())
                    .as("the new leader waits for the write of the old one")
                    .isFalse();
            psql.run("COMMIT;");
            raised.get(20, TimeUnit.SECONDS);
            assertThat(next.variable("epoch")).isEqualTo("2");
            assertThat(guard(next.run(write))).as("the guard of the new leader").hasSize(1);
        }
        assertThat(guard(psql.run(unfinished + "ROLLBACK;")))
                .as("the guard of the old leader")
                .isEmpty();
    }

    private static List<Map<String, String>> guard(List<PsqlScript.Result> results) {
        return results.get(1).rows();
    }

    private void refusesTheWriteOfAnOldLeader(List<MarkdownPage.Block> blocks) throws SQLException {
        psql.set("epoch", "1");
        assertThat(run(blocks)).extracting(PsqlScript.Result::changed).containsExactly(1);
        psql.set("epoch", "2");
        assertThat(run(blocks)).extracting(PsqlScript.Result::changed).containsExactly(1);
        psql.set("epoch", "1");
        assertThat(run(blocks)).extracting(PsqlScript.Result::changed).containsExactly(0);
    }

    @Test
    void wrongSqlIsFound() {
        assertThatThrownBy(() -> psql.run("SELECT nothing FROM nowhere;")).isInstanceOf(SQLException.class);
        assertThatThrownBy(() -> psql.run("SELECT :'unknown';"))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("unknown");
        assertThatThrownBy(() -> psql.run("SELECT 1"))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("Not ended");
    }
}
