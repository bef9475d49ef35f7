package dev.pgleader.example.service;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockOutcome;
import java.net.http.HttpResponse;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.time.LocalDate;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroups;

/** Two instances of the service on one database. */
class ServiceTest {

    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final String EVERY_SECOND = "* * * * * *";
    private static final String NEVER = "-";

    /** Whoever reads isn't kept from it. */
    private static final String BLOCK_WRITES = "LOCK TABLE daily_totals IN SHARE MODE";

    private static ServiceDatabase database;
    private static RunningService first;
    private static RunningService second;

    @BeforeAll
    static void startBoth() {
        database = ServiceDatabase.create("service");
        first = start();
        second = start();
    }

    private static RunningService start() {
        return new RunningService(database, "--orders.reminders.cron=" + EVERY_SECOND, "--orders.totals.cron=" + NEVER);
    }

    /** Leadership may have moved since the last test. */
    @BeforeEach
    void forgetWhoDidWhat() {
        database.execute("TRUNCATE orders, outbox, daily_totals");
    }

    @AfterAll
    static void closeBoth() {
        if (first != null) {
            first.close();
        }
        if (second != null) {
            second.close();
        }
        await("the relays of closed instances")
                .atMost(PATIENCE)
                .until(() -> Thread.getAllStackTraces().keySet().stream()
                        .noneMatch(thread -> thread.getName().startsWith("pg-leader-orders-work")));
        assertThat(database.holders(LockKey.named("orders"))).isEmpty();
    }

    private static RunningService leader() {
        await("a leader")
                .atMost(PATIENCE)
                .until(() -> first.elector().isLeader() || second.elector().isLeader());
        return first.elector().isLeader() ? first : second;
    }

    private static RunningService follower() {
        return leader() == first ? second : first;
    }

    @Test
    void theScheduledJobRunsOnTheLeaderAloneThoughBothHaveTheSchedule() {
        RunningService leader = leader();
        RunningService follower = follower();
        double before = follower.scheduledCalls("remindAll");
        for (int round = 1; round <= 3; round++) {
            follower.placeOrder();
            follower.bean(NightlyReminders.class).remindAll();
            await("the reminder")
                    .atMost(PATIENCE)
                    .until(() -> database.query("SELECT id FROM orders WHERE reminded_on IS NULL")
                            .isEmpty());
        }
        await("the follower's schedule").atMost(PATIENCE).until(() -> follower.scheduledCalls("remindAll") > before);
        assertThat(database.query("SELECT DISTINCT reminded_by FROM orders")).containsExactly(leader.instance());
    }

    @Test
    void aFollowersRunDoesntEvenAskTheDatabase() throws Exception {
        RunningService leader = leader();
        RunningService follower = follower();
        ExecutorService threads = Executors.newFixedThreadPool(2);
        try (Connection blocker = database.connect()) {
            block(blocker, "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE");
            threads.submit(follower.bean(NightlyReminders.class)::remindAll).get(30, TimeUnit.SECONDS);
            Future<?> running = threads.submit(leader.bean(NightlyReminders.class)::remindAll);
            awaitBlocked("orders");
            blocker.rollback();
            running.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void theRelaySendsInOrderFromTheLeaderAlone() {
        RunningService leader = leader();
        for (int order = 0; order < 5; order++) {
            first.placeOrder();
            second.placeOrder();
        }
        await("all messages sent")
                .atMost(PATIENCE)
                .until(() -> database.query("SELECT id FROM outbox WHERE sent_at IS NULL")
                        .isEmpty());
        assertThat(database.query("SELECT DISTINCT sent_by FROM outbox")).containsExactly(leader.instance());
        assertThat(database.query("SELECT id FROM outbox ORDER BY sent_at"))
                .isEqualTo(database.query("SELECT id FROM outbox ORDER BY id"))
                .hasSizeGreaterThanOrEqualTo(10);
    }

    @Test
    void theTransactionJobsWritesAreThereWhenItsLockIsFreeAndNotBefore() throws Exception {
        LocalDate day = LocalDate.of(2026, 3, 1);
        ExecutorService threads = Executors.newSingleThreadExecutor();
        try (Connection blocker = database.connect()) {
            block(blocker, BLOCK_WRITES);
            Future<LockOutcome<Boolean>> running =
                    threads.submit(() -> first.bean(DailyTotals.class).addUp(day));
            awaitBlocked("daily_totals");
            assertThat(database.holders(DailyTotals.KEY)).hasSize(1);
            assertThat(second.bean(DailyTotals.class).addUp(day).wasSkipped()).isTrue();
            assertThat(totalsOf(day)).isEmpty();

            blocker.rollback();
            assertThat(running.get(PATIENCE.toSeconds(), TimeUnit.SECONDS).value())
                    .isTrue();
            assertThat(totalsOf(day)).hasSize(1);
            assertThat(database.holders(DailyTotals.KEY)).isEmpty();
            assertThat(second.bean(DailyTotals.class).addUp(day).value()).isFalse();
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void theTransactionJobLeavesNeitherLockNorWritesWhenItsSessionEnds() throws Exception {
        LocalDate day = LocalDate.of(2026, 3, 2);
        ExecutorService threads = Executors.newSingleThreadExecutor();
        try (Connection blocker = database.connect()) {
            block(blocker, BLOCK_WRITES);
            Future<LockOutcome<Boolean>> running =
                    threads.submit(() -> first.bean(DailyTotals.class).addUp(day));
            awaitBlocked("daily_totals");
            database.execute("SELECT pg_terminate_backend("
                    + database.holders(DailyTotals.KEY).get(0) + ")");
            assertThatThrownBy(() -> running.get(PATIENCE.toSeconds(), TimeUnit.SECONDS))
                    .isInstanceOf(ExecutionException.class)
                    .hasCauseInstanceOf(SQLException.class);
            blocker.rollback();
            assertThat(totalsOf(day)).isEmpty();
            assertThat(second.bean(DailyTotals.class).addUp(day).value()).isTrue();
        } finally {
            threads.shutdownNow();
        }
    }

    /** Until this connection rolls back. */
    private static void block(Connection blocker, String lockTable) throws SQLException {
        blocker.setAutoCommit(false);
        try (Statement statement = blocker.createStatement()) {
            statement.execute(lockTable);
        }
    }

    private static void awaitBlocked(String table) {
        await("a job that waits for " + table)
                .atMost(PATIENCE)
                .until(() -> !database.query(
                                "SELECT pid FROM pg_locks WHERE NOT granted AND relation = '" + table + "'::regclass")
                        .isEmpty());
    }

    private static List<String> totalsOf(LocalDate day) {
        return database.query("SELECT orders FROM daily_totals WHERE day = '" + day + "'");
    }

    @Test
    void livenessAndReadinessDontDependOnWhoLeadsNorOnWhetherAnybodyDoes() {
        assertThat(leader().getManagement("/actuator/health").body()).contains("\"role\":\"LEADER\"");
        await("the follower's knowledge")
                .atMost(PATIENCE)
                .untilAsserted(() -> assertThat(
                                follower().getManagement("/actuator/health").body())
                        .contains("\"role\":\"FOLLOWER\"", "\"leader\":\"" + leader().instance() + "\""));
        assertBothAreLiveAndReady();

        first.elector().pause().join();
        second.elector().pause().join();
        try {
            assertThat(database.holders(LockKey.named("orders"))).isEmpty();
            assertBothAreLiveAndReady();
        } finally {
            first.elector().resume();
            second.elector().resume();
        }
        leader();
    }

    private static void assertBothAreLiveAndReady() {
        for (RunningService service : List.of(first, second)) {
            for (String path : List.of("/livez", "/readyz")) {
                assertThat(service.get(path)).as(path).returns(200, HttpResponse::statusCode);
            }
            HealthEndpointGroups groups = service.bean(HealthEndpointGroups.class);
            for (String group : List.of("liveness", "readiness")) {
                assertThat(groups.get(group)).as(group).isNotNull();
                assertThat(List.of("leader", "db", group + "State").stream().filter(groups.get(group)::isMember))
                        .containsExactly(group + "State");
                assertThat(service.getManagement("/actuator/health/" + group).statusCode())
                        .isEqualTo(200);
            }
            assertThat(service.getManagement("/actuator/health").statusCode()).isEqualTo(200);
        }
    }

    @Test
    void customersDontReachTheManagementPortsPages() {
        for (String path : List.of("/actuator", "/actuator/health", "/actuator/leader", "/actuator/prometheus")) {
            assertThat(first.get(path).statusCode()).as(path).isEqualTo(404);
            assertThat(first.getManagement(path).statusCode()).as(path).isEqualTo(200);
        }
    }

    @Test
    void anOrderThatCantBeTakenIsRefusedWithTheReason() {
        List<HttpResponse<String>> responses = Stream.of(
                        "{\"amount\": 1}", "{\"customer\": \"Ada\"}", "{\"customer\": \"Ada\", \"amount\": -1}")
                .map(order -> first.post("/orders", order))
                .toList();
        assertThat(responses).extracting(HttpResponse::statusCode).containsOnly(400);
        assertThat(responses.get(0).body()).contains("An order needs a customer");
        assertThat(responses.get(1).body()).contains("An order needs an amount greater than 0, not null");
        assertThat(responses.get(2).body()).contains("An order needs an amount greater than 0, not -1");
    }
}
