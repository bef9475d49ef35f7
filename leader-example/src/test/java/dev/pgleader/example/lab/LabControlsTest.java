package dev.pgleader.example.lab;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.example.lab.node.LabDatabase;
import dev.pgleader.example.lab.supervisor.LabEvent;
import dev.pgleader.example.lab.supervisor.LabEvent.FailedOver;
import dev.pgleader.example.lab.supervisor.LabEvent.HolderChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.NodeChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.Outcome;
import dev.pgleader.example.lab.supervisor.LabEvent.RunProgressed;
import dev.pgleader.example.lab.supervisor.NodeState;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.postgresql.PGConnection;

/** What each button does, checked on the processes and on {@code pg_locks}: what the page shows is another matter. */
class LabControlsTest {

    private static RunningLab lab;
    private String leader;

    @BeforeAll
    static void start() {
        lab = RunningLab.shared();
    }

    @BeforeEach
    void allIsWell() {
        leader = lab.recover();
    }

    @Test
    void killEndsTheProcessAndFreesItsLock() {
        long pid = lab.node(leader).pid();
        press("kill");
        assertThat(ProcessHandle.of(pid).filter(ProcessHandle::isAlive)).isEmpty();
        assertThat(lab.node(leader).state()).isEqualTo(NodeState.DEAD);
        assertAnotherHolds();
        assertThat(lastFailover()).satisfies(failover -> {
            assertThat(failover.from()).isEqualTo(leader);
            assertThat(failover.cause()).isEqualTo("kill -9");
            assertThat(failover.gapMillis()).isPositive();
        });
        assertRefused("kill", "is dead");
        assertRefused("pause", "is dead");
    }

    @Test
    void restartHandsOverInOrderAndStartsAnotherProcess() {
        long pid = lab.node(leader).pid();
        press("restart");
        assertThat(ProcessHandle.of(pid).filter(ProcessHandle::isAlive)).isEmpty();
        NodeChanged restarted = lab.node(leader);
        assertThat(restarted.pid()).isNotIn(0L, pid);
        assertThat(ProcessHandle.of(restarted.pid()).filter(ProcessHandle::isAlive))
                .isPresent();
        assertAnotherHolds();
    }

    @Test
    void pauseStopsTheProcessUntilTheServerGivesTheLockToAnother() {
        long begin = System.nanoTime();
        press("pause");
        awaitStopped(true);
        assertStillHolds(begin);
        assertRefused("pause", "is paused already");
        assertRefused("resign", "doesn't lead now");
        assertAnotherHolds();
        press("continue");
        awaitStopped(false);
        RunningLab.until("it follows").until(() -> lab.node(leader).state() == NodeState.FOLLOWER);
        assertRefused("continue", "isn't paused");
    }

    @Test
    void aPauseThatIsShorterThanTheLeaseChangesNothing() {
        long term = lab.node(leader).term();
        long begin = System.nanoTime();
        press("pause");
        press("continue");
        boolean inTime = isWithinLease(begin);
        lab.awaitLeader();
        if (inTime) {
            assertThat(lab.node(leader).term()).isEqualTo(term);
            assertThat(lab.holders()).containsExactly(leader);
        }
    }

    @Test
    void cutSwallowsWhatIsSentUntilTheServerGivesTheLockToAnother() {
        long begin = System.nanoTime();
        press("cut");
        assertThat(lab.node(leader).state()).isEqualTo(NodeState.CUT_OFF);
        assertStillHolds(begin);
        assertRefused("cut", "is cut off already");
        assertAnotherHolds();
        assertThat(lab.node(leader).leads()).isFalse();
        assertThat(lastFailover()).satisfies(failover -> {
            assertThat(failover.from()).isEqualTo(leader);
            assertThat(failover.cause()).isEqualTo("cut network");
            assertThat(failover.gapMillis())
                    .as("it gave up before the server freed the lock")
                    .isPositive();
        });
        press("heal");
        RunningLab.until("it follows").until(() -> lab.node(leader).state() == NodeState.FOLLOWER);
        assertRefused("heal", "isn't cut off");
    }

    @Test
    void aSuspendedMachineIsSilentLosesTheLockAndFollowsWhenItWakes() {
        long begin = System.nanoTime();
        press("suspend");
        awaitStopped(true);
        assertThat(lab.node(leader).state()).isEqualTo(NodeState.SUSPENDED);
        assertStillHolds(begin);
        assertRefused("suspend", "is paused already");
        assertAnotherHolds();
        long failovers = lab.failovers().size();
        assertThat(lastFailover().cause()).isEqualTo("suspend");

        press("wake-up");
        awaitStopped(false);
        RunningLab.until("it follows").until(() -> lab.node(leader).state() == NodeState.FOLLOWER);
        assertThat(lab.failovers()).as("it has taken the lock from nobody").hasSize((int) failovers);
        assertRefused("wake-up", "isn't suspended");
    }

    @Test
    void forgedNoticesOfAStrangerChangeNothing() throws SQLException {
        String session = "SELECT l.pid || ' ' || s.backend_start FROM pg_locks l JOIN pg_stat_activity s USING (pid)"
                + " WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid = 0 AND objid = "
                + LabDatabase.LEADER_KEY;
        List<String> before = lab.query(session);
        long term = lab.node(leader).term();
        try (Connection listener =
                DriverManager.getConnection(LabDatabase.url(lab.snapshot().databasePort()), LabDatabase.NAME, "")) {
            try (Statement listen = listener.createStatement()) {
                listen.execute("LISTEN pgleader");
            }
            HttpResponse<String> done = lab.post("/api/forged-notices", "");
            assertThat(done.statusCode()).isEqualTo(200);
            assertThat(listener.unwrap(PGConnection.class).getNotifications(0))
                    .as("they reach whoever listens")
                    .filteredOn(notice -> notice.getParameter().equals("resign bigint:" + LabDatabase.LEADER_KEY))
                    .hasSizeGreaterThan(10);
            assertThat(lab.query("SELECT rolname FROM pg_stat_activity JOIN pg_roles r ON r.oid = usesysid"
                            + " WHERE rolname = 'stranger' AND NOT rolsuper"))
                    .as("and the sender is still there to be looked up")
                    .hasSize(1);
            if (lab.query(session).equals(before)) {
                assertThat(done.body()).contains("Nothing happened: " + leader + " leads");
            }
        }
        assertThat(lab.query(session)).as("the same session holds the lock").isEqualTo(before);
        assertThat(lab.node(leader).term()).isEqualTo(term);
    }

    @Test
    void aRollingDeploymentDoublesNoJobTheNextLeaderStartsWhenItHasEnded() {
        List<Long> before =
                lab.snapshot().nodes().stream().map(NodeChanged::pid).toList();
        long last = lab.runs().stream().mapToLong(RunProgressed::run).max().orElse(0);
        lab.press("/api/rolling-deployment");
        lab.awaitLeader();
        RunningLab.until("the last leader's job has ended").until(() -> {
            List<RunProgressed> runs = lab.runs();
            return runs.get(runs.size() - 1).step() == 5;
        });
        assertThat(lab.snapshot().nodes()).extracting(NodeChanged::pid).doesNotContainAnyElementsOf(before);

        List<RunProgressed> steps =
                lab.runs().stream().filter(step -> step.run() > last).toList();
        assertThat(steps.get(0).node()).isEqualTo(leader);
        assertThat(steps.stream().map(RunProgressed::node).distinct())
                .as("more than one led")
                .hasSizeGreaterThan(1);
        assertThat(steps).noneMatch(RunProgressed::abandoned).allMatch(RunProgressed::alone);
        // Step by step, one job after the other, whoever does it.
        assertThat(steps)
                .extracting(RunProgressed::step)
                .isEqualTo(IntStream.range(0, steps.size()).mapToObj(i -> i % 6).toList());
        // And the server shows the lock in the hands of who runs, from the first step to the last.
        String holder = "";
        String runner = "";
        for (LabEvent event : lab.events(LabEvent.class)) {
            if (event instanceof HolderChanged change) {
                holder = change.node().orElse("");
                if (!runner.isEmpty()) {
                    assertThat(holder).as("while %s was in the middle", runner).isEqualTo(runner);
                }
            } else if (event instanceof RunProgressed step && step.run() > last) {
                runner = step.step() == step.steps() ? "" : step.node();
            }
        }
    }

    @Test
    void terminateEndsTheSessionOfTheElector() {
        String session = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pg-leader/" + leader + "'";
        List<String> before = lab.query(session);
        assertThat(before).hasSize(1);
        press("terminate-session");
        RunningLab.until("it has another session")
                .until(() ->
                        lab.query(session).size() == 1 && !lab.query(session).equals(before));
        lab.awaitLeader();
        assertThat(lastFailover().from()).isEqualTo(leader);
    }

    @Test
    void resignHandsTheLockToAnother() {
        press("resign");
        assertAnotherHolds();
        RunningLab.until("it follows").until(() -> lab.node(leader).state() == NodeState.FOLLOWER);
        assertThat(lastFailover().cause()).isEqualTo("resign");
        assertRefused("resign", "doesn't lead now");
    }

    @Test
    void restartOfTheServerEndsAllSessionsAndKeepsTheEntries() {
        RunningLab.until("there is an entry")
                .until(() -> !lab.query("TABLE public.lab_entries").isEmpty());
        List<String> started = lab.query("SELECT pg_postmaster_start_time()");
        int port = lab.snapshot().databasePort();
        lab.press("/api/server/restart");
        assertThat(lab.query("SELECT pg_postmaster_start_time()")).isNotEqualTo(started);
        assertThat(lab.query("TABLE public.lab_entries")).isNotEmpty();
        lab.awaitLeader();
        assertThat(lab.snapshot().databasePort()).isEqualTo(port);
    }

    @Test
    void addStartsAnotherNode() {
        int before = lab.snapshot().nodes().size();
        lab.press("/api/nodes");
        String added = "node-" + (before + 1);
        RunningLab.until("it follows").until(() -> lab.node(added).state() == NodeState.FOLLOWER);
        assertThat(lab.query("SELECT application_name FROM pg_stat_activity")).contains("pg-leader/" + added);
    }

    @Test
    void restartOfTheLabAppliesSettingsAndForgetsThePast() {
        List<Long> before =
                lab.snapshot().nodes().stream().map(NodeChanged::pid).toList();
        HttpResponse<String> refused = lab.post(
                "/api/lab/restart",
                "{\"leaseMillis\": 5, \"retryMillis\": 200, \"jobMillis\": 600, \"mode\": \"POLL\"}");
        assertThat(refused.statusCode()).isEqualTo(400);
        assertThat(refused.body()).contains("lease").contains("5 ms").contains("1000");

        HttpResponse<String> done = lab.post(
                "/api/lab/restart",
                "{\"leaseMillis\": 5300, \"retryMillis\": 200, \"jobMillis\": 600, \"mode\": \"QUEUE\"}");
        assertThat(done.statusCode()).as(done.body()).isEqualTo(200);
        lab.awaitLeader();
        assertThat(before)
                .noneMatch(pid ->
                        ProcessHandle.of(pid).filter(ProcessHandle::isAlive).isPresent());
        assertThat(lab.snapshot().nodes()).hasSize(3);
        assertThat(lab.failovers()).isEmpty();
    }

    @Test
    void workOfALeaderThatIsPausedInTheMiddleIsTooLateWhereItIsAMailAndRolledBackWhereItIsAnEntry() {
        press("pause-in-job");
        assertAnotherHolds();
        RunningLab.outlastTolerance();
        press("continue");
        RunningLab.until("the mail is too late")
                .until(() -> lab.work().stream()
                        .anyMatch(work -> work.outcome() == Outcome.TOO_LATE
                                && work.node().equals(leader)));
        RunningLab.until("the entry is rolled back")
                .until(() -> lab.work().stream()
                        .anyMatch(work -> work.outcome() == Outcome.ROLLED_BACK
                                && work.node().equals(leader)));
        assertThat(lab.query("SELECT a.id FROM public.lab_entries a JOIN public.lab_entries b"
                        + " ON a.id < b.id AND tstzrange(a.began, a.ended) && tstzrange(b.began, b.ended)"))
                .as("entries that overlap")
                .isEmpty();
    }

    @Test
    void whatDoesNotExistIsRefused() {
        HttpResponse<String> response = lab.post("/api/nodes/node-77/kill", "");
        assertThat(response.statusCode()).isEqualTo(409);
        assertThat(response.body()).contains("There is no node-77").contains("node-1");
    }

    private void press(String action) {
        lab.press("/api/nodes/" + leader + "/" + action);
    }

    private void assertRefused(String action, String why) {
        HttpResponse<String> response = lab.post("/api/nodes/" + leader + "/" + action, "");
        assertThat(response.statusCode()).isEqualTo(409);
        assertThat(response.body()).contains(leader).contains(why);
    }

    private void assertAnotherHolds() {
        RunningLab.until("another node leads, and the server agrees")
                .until(() -> lab.snapshot().leaders().size() == 1
                        && !lab.snapshot().leaders().contains(leader)
                        && lab.holders().equals(lab.snapshot().leaders()));
    }

    /** The server doesn't know yet what happened; a machine on which this look comes too late shows nothing. */
    private void assertStillHolds(long beginNanos) {
        List<String> holders = lab.holders();
        if (isWithinLease(beginNanos)) {
            assertThat(holders).containsExactly(leader);
        }
    }

    /** Half of the lease, since the last check is somewhat older than what happened. */
    private static boolean isWithinLease(long beginNanos) {
        return System.nanoTime() - beginNanos < RunningLab.SHORT.lease().toNanos() / 2;
    }

    private static FailedOver lastFailover() {
        List<FailedOver> failovers = lab.failovers();
        return failovers.get(failovers.size() - 1);
    }

    /** A signal is sent when its sender goes on, and taken when the kernel next looks at the process. */
    private void awaitStopped(boolean stopped) {
        long pid = lab.node(leader).pid();
        RunningLab.until("the process is " + (stopped ? "stopped" : "going on"))
                .until(() -> stat(pid).equals("T") == stopped);
    }

    /** The state of a process as the kernel has it: T is stopped. */
    private static String stat(long pid) throws IOException {
        String line = Files.readString(Path.of("/proc", Long.toString(pid), "stat"));
        return line.substring(line.lastIndexOf(')') + 2).substring(0, 1);
    }
}
