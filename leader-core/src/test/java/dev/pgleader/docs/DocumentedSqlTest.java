package dev.pgleader.docs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.pgleader.AcquisitionMode;
import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderElectorGroup;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.TakeoverDelay;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.HostileSchema;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.io.IOException;
import java.nio.file.Files;
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
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Runs the SQL of the documentation, page by page, as psql would; the runbook while one elector leads and another follows. A
 * stranger has set traps in the database for all names in that SQL, in the first schema of the path (R02).
 */
@Timeout(300)
class DocumentedSqlTest {

    private static final String DATABASE = "documentation";
    private static final String NAME = "billing/nightly-run";
    private static final LockKey KEY = LockKey.named(NAME);
    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final String HOSTILE_PATH = "trap, pg_catalog, public";
    private static HostileSchema hostile;
    private static String runbook;

    private static final ElectorOptions OPTIONS = ElectorOptions.builder()
            .leaseDuration(Duration.ofSeconds(6))
            .healthCheckInterval(Duration.ofMillis(300))
            .healthCheckTimeout(Duration.ofSeconds(3))
            .retryInterval(Duration.ofMillis(200))
            .takeoverDelay(TakeoverDelay.NONE)
            .build();

    private static final List<String> LOCK_FUNCTIONS = Stream.of(
                    "pg_advisory_lock", "pg_try_advisory_lock", "pg_advisory_xact_lock", "pg_try_advisory_xact_lock")
            .flatMap(name -> Stream.of(name, name + "_shared"))
            .flatMap(name -> Stream.of(name + "(1)", name + "(1, 1)"))
            .toList();

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
    private long firedBefore;

    @BeforeAll
    static void createDatabase() throws SQLException, IOException {
        runbook = Files.readString(MarkdownPage.ROOT.resolve("docs/runbook.psql"));
        List<String> texts = new ArrayList<>(List.of(runbook));
        MarkdownPage.all().forEach(page -> page.blocks("sql").forEach(block -> texts.add(block.text())));
        hostile = HostileSchema.create(SERVER, DATABASE, HOSTILE_PATH, texts);
        try (Connection owner = connectSafely()) {
            Sql.execute(owner, "CREATE TABLE public.invoice (customer text, amount int)");
            Sql.execute(owner, "CREATE TABLE public.report (id int PRIMARY KEY, body text, epoch bigint NOT NULL)");
            Sql.execute(owner, "INSERT INTO public.report VALUES (17, 'old', 0)");
        }
    }

    /** For the tests' own statements. */
    private static Connection connectSafely() throws SQLException {
        return SERVER.connect(DATABASE, Map.of("options", "-c search_path=pg_catalog"));
    }

    @BeforeEach
    void connect() throws SQLException {
        firedBefore = hostile.fired();
        connection = connectSafely();
        psql = new PsqlScript(SERVER.connect(DATABASE));
    }

    @AfterEach
    void end() throws Exception {
        instances.forEach(Instance::close);
        psql.connection().close();
        connection.close();
        executor.shutdown();
        assertThat(executor.awaitTermination(10, TimeUnit.SECONDS)).isTrue();
        assertThat(hostile.fired()).as("traps that somebody fell into").isEqualTo(firedBefore);
    }

    @Test
    void runbook() throws Exception {
        instances.add(new Instance("first"));
        instances.add(new Instance("second"));
        psql.set("name", NAME);
        psql.run(runbook);
        assertThat(psql.variable("key")).isEqualTo(KEY.toString());
        // psql connects again by itself, and then the path is the hostile one.
        Sql.execute(psql.connection(), "SET search_path = " + HOSTILE_PATH);
        run(
                "docs/runbook.md",
                Map.of(
                        "Who leads?", this::findsTheLeader,
                        "Since when?", this::boundsTheTermByTheSession,
                        "Why does nobody lead?", this::saysWhyNobodyLeads,
                        "Make it go", this::makesTheLeaderGo,
                        "Keep all out", this::keepsAllOut,
                        "Is it safe?", this::saysWhetherItIsSafe));
    }

    @Test
    void runbookOfOtherKeys() throws SQLException {
        for (LockKey key : List.of(LockKey.of(4, 2), LockKey.of(-4, -2), LockKey.of(Long.MIN_VALUE), LockKey.of(7))) {
            try (Connection holder = connectSafely()) {
                PsqlScript script = psql.on(psql.connection());
                script.set("key", key.toString());
                script.run(runbook);
                assertThat(script.on(holder).run(":keep_all_out").get(0).rows())
                        .containsExactly(Map.of("all_kept_out", "t"));
                String pid = Integer.toString(Sql.backendPid(holder));
                assertThat(script.run(":who_leads").get(0).rows())
                        .as("%s", key)
                        .singleElement()
                        .satisfies(row -> assertThat(row).containsEntry("pid", pid));
                assertThat(script.on(holder).run(":let_all_in").get(0).rows())
                        .containsExactly(Map.of("all_let_in", "t"));
                assertThat(script.run(":who_leads").get(0).rows()).isEmpty();
            }
        }
    }

    @Test
    void runbookInPsqlItself() throws Exception {
        assumeTrue(Psql.isInstalled(), "psql isn't installed (Debian: postgresql-client)");
        instances.add(new Instance("first"));
        Instance leader = leader();
        int pid = leader.backendPid();
        String output = Psql.run(
                SERVER,
                DATABASE,
                Map.of("name", NAME),
                MarkdownPage.ROOT.resolve("docs/runbook.psql"),
                ":who_leads\n:since_when\n:why_not\n:everybody\n:is_it_safe\n:end_its_session\n");
        assertThat(output)
                .contains("The key is " + KEY, "pg-leader/first holds the lock and is well", "yes: the leader is well")
                .contains(Integer.toString(pid))
                .doesNotContain("ERROR");
        eventually().until(() -> leader.revocations.contains(RevocationReason.SESSION_LOST));
    }

    @Test
    void theTrapsFireForWhatIsNotQualified() throws Exception {
        psql.set("name", NAME);
        psql.run(runbook);
        Sql.execute(psql.connection(), "SET search_path = " + HOSTILE_PATH);
        assertThatThrownBy(() -> psql.run(
                        psql.variable("why_not").replace("pg_catalog.pg_is_in_recovery", "pg_is_in_recovery") + "\n"))
                .hasMessageContaining("fired");
        assertThat(hostile.fired()).isGreaterThan(firedBefore);
        firedBefore = hostile.fired();
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
    @DisplayName("R08: in the hardened set-up a leader is elected, and a stranger can't take its key")
    void hardening() throws Exception {
        SERVER.createRole("billing", "secret");
        SERVER.createRole("hardening_stranger", "secret");
        run("docs/security.md", Map.of("A hardened set-up", this::hardens));
    }

    @Test
    void noPageHasSqlThatIsNotRun() throws IOException {
        assertThat(MarkdownPage.all().stream()
                        .filter(page -> !page.blocks("sql").isEmpty())
                        .map(page -> page.path().toString()))
                .as("pages with SQL, each of which needs a test here that runs it")
                .containsExactlyInAnyOrder("docs/runbook.md", "docs/security.md", "docs/keys.md", "docs/fencing.md");
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

    // ---- the runbook

    private Map<String, String> onlyRow(MarkdownPage.Block block) throws SQLException {
        List<Map<String, String>> rows = psql.run(block.text()).get(0).rows();
        assertThat(rows).as("%s", block).hasSize(1);
        return rows.get(0);
    }

    private void findsTheLeader(List<MarkdownPage.Block> blocks) throws SQLException {
        assertThat(blocks).hasSize(2);
        Instance leader = leader();
        assertThat(onlyRow(blocks.get(0)))
                .containsEntry("pid", Integer.toString(leader.backendPid()))
                .containsEntry("instance", "pg-leader/" + leader.elector.instanceId());
        try (Connection pair = SERVER.connect(DATABASE, Map.of("ApplicationName", "pg-leader/pair"))) {
            assertThat(Sql.truth(pair, "SELECT pg_catalog.pg_try_advisory_lock(-4, -2)"))
                    .isTrue();
            Map<String, String> holds = new HashMap<>();
            psql.run(blocks.get(1).text()).get(0).rows().forEach(row -> holds.put(row.get("pid"), row.get("holds")));
            Map<String, String> expected = new HashMap<>();
            expected.put(Integer.toString(leader.backendPid()), KEY.toString());
            expected.put(Integer.toString(follower(leader).backendPid()), null);
            expected.put(
                    Integer.toString(Sql.backendPid(pair)), LockKey.of(-4, -2).toString());
            assertThat(holds).isEqualTo(expected);
        }
    }

    private void boundsTheTermByTheSession(List<MarkdownPage.Block> blocks) throws SQLException {
        Instance leader = leader();
        Map<String, String> row = onlyRow(blocks.get(0));
        assertThat(row).containsEntry("instance", "pg-leader/" + leader.elector.instanceId());
        assertThat(row.get("not_before")).isNotBlank();
    }

    private void saysWhyNobodyLeads(List<MarkdownPage.Block> blocks) throws Exception {
        Instance leader = leader();
        MarkdownPage.Block block = blocks.get(0);
        assertThat(onlyRow(block).get("why_not")).contains(leader.elector.instanceId(), "is well");
        for (Instance instance : instances) {
            instance.elector.pause().get(20, TimeUnit.SECONDS);
        }
        assertThat(onlyRow(block).get("why_not")).contains("the lock is free, and 2 sessions are here");
        try (Connection stranger = SERVER.connect(DATABASE)) {
            assertThat(psql.on(stranger).run(":keep_all_out")).hasSize(1);
            assertThat(onlyRow(block).get("why_not"))
                    .contains("pid " + Sql.backendPid(stranger), "is no instance of the service");
        }
        instances.forEach(instance -> instance.elector.resume());
    }

    private void makesTheLeaderGo(List<MarkdownPage.Block> blocks) throws SQLException {
        assertThat(blocks).hasSize(2);
        Instance leader = leader();
        leader.revocations.clear();
        SERVER.createRole("documentation_reader", "secret");
        try (Connection reader = SERVER.connect(DATABASE, "documentation_reader", "secret")) {
            assertThat(psql.on(reader)
                            .run(":make_it_resign")
                            .get(0)
                            .rows()
                            .get(0)
                            .get("asked"))
                    .contains("will not listen: log in as " + SERVER.superuser());
        }
        assertThat(psql.run(blocks.get(0).text()).get(0).rows().get(0).get("asked"))
                .contains(leader.elector.instanceId(), "leave this psql open");
        eventually().until(() -> leader.revocations.contains(RevocationReason.RESIGNED));
        eventually().until(() -> follower(leader).elector.isLeader());

        Instance next = leader();
        String pid = Integer.toString(next.backendPid());
        next.revocations.clear();
        assertThat(onlyRow(blocks.get(1))).containsEntry("pid", pid).containsEntry("ended", "t");
        eventually().until(() -> next.revocations.contains(RevocationReason.SESSION_LOST));
        leader();
    }

    private void keepsAllOut(List<MarkdownPage.Block> blocks) throws Exception {
        assertThat(blocks).hasSize(2);
        Instance leader = leader();
        try (Connection operator = SERVER.connect(DATABASE)) {
            int operatorPid = Sql.backendPid(operator);
            PsqlScript waiting = psql.on(operator);
            Future<List<PsqlScript.Result>> queued =
                    executor.submit(() -> waiting.run(blocks.get(0).text()));
            eventually()
                    .until(() -> Sql.truth(
                            connection,
                            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"));
            assertThat(leader.elector.isLeader()).isTrue();
            psql.run(":make_it_resign");
            assertThat(queued.get(20, TimeUnit.SECONDS).get(0).rows()).containsExactly(Map.of("all_kept_out", "t"));
            assertThat(instances).noneMatch(instance -> instance.elector.isLeader());
            assertThat(instances)
                    .allSatisfy(instance -> assertThat(
                                    instance.elector.currentLeader().get(10, TimeUnit.SECONDS))
                            .hasValueSatisfying(
                                    holder -> assertThat(holder.backendPid()).isEqualTo(operatorPid)));
            assertThat(waiting.run(blocks.get(1).text()).get(0).rows()).containsExactly(Map.of("all_let_in", "t"));
            leader();
        }
    }

    private void saysWhetherItIsSafe(List<MarkdownPage.Block> blocks) throws SQLException {
        Instance leader = leader();
        MarkdownPage.Block block = blocks.get(0);
        assertThat(onlyRow(block).get("safe_to_end_its_session")).startsWith("yes: the leader is well");
        // As if it hadn't been heard of for long.
        psql.set("silent_after", "-1 s");
        assertThat(onlyRow(block).get("safe_to_end_its_session")).startsWith("no: ");
        assertThat(onlyRow(MarkdownPage.Block.sql(":why_not")).get("why_not"))
                .contains(leader.elector.instanceId(), "silent", "stopped or cut off");
        psql.set("silent_after", "4 s");
    }

    // ---- security

    private void hardens(List<MarkdownPage.Block> blocks) throws Exception {
        assertThat(blocks).hasSize(3);
        SERVER.createDatabase("billing");
        try (Connection superuser = SERVER.connect("billing")) {
            PsqlScript script = new PsqlScript(superuser);
            script.run(blocks.get(0).text());
            assertThat(script.run(blocks.get(1).text())).hasSize(3);
            script.run(blocks.get(2).text());
        }
        for (AcquisitionMode mode : AcquisitionMode.values()) {
            try (LeaderElectorGroup group = LeaderElectorGroup.builder()
                    .connectTo(ConnectionSource.of(SERVER.url("billing"), "billing", "secret"))
                    .options(OPTIONS.toBuilder().acquisitionMode(mode).build())
                    .build()) {
                LeaderElector byName = group.elector(NAME).build();
                LeaderElector byPair = group.elector(LockKey.of(4, 2)).build();
                group.start();
                eventually().until(() -> byName.isLeader() && byPair.isLeader());
            }
        }
        for (String function : LOCK_FUNCTIONS) {
            try (Connection stranger = SERVER.connect("billing", "hardening_stranger", "secret")) {
                assertThatThrownBy(() -> Sql.execute(stranger, "SELECT " + function))
                        .hasMessageContaining("permission denied for function");
            }
        }
        assertThatThrownBy(() -> SERVER.connect("billing_election", "hardening_stranger", "secret"))
                .hasMessageContaining("permission denied for database");
        try (LeaderElector elector = LeaderElector.builder()
                .connectTo(ConnectionSource.of(SERVER.url("billing_election"), "billing", "secret"))
                .key(NAME)
                .options(OPTIONS)
                .build()) {
            elector.start();
            eventually().until(elector::isLeader);
        }
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
        try (Connection newLeader = connectSafely()) {
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
        return results.get(2).rows();
    }

    private void refusesTheWriteOfAnOldLeader(List<MarkdownPage.Block> blocks) throws SQLException {
        assertThat(blocks).hasSize(1);
        for (List<Integer> epochAndChanged : List.of(List.of(1, 1), List.of(2, 1), List.of(1, 0))) {
            psql.set("epoch", epochAndChanged.get(0).toString());
            List<PsqlScript.Result> results = psql.run(blocks.get(0).text());
            assertThat(results.get(1).changed()).as("%s", epochAndChanged).isEqualTo(epochAndChanged.get(1));
        }
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
