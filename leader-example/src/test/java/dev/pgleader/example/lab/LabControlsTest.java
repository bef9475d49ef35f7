package dev.pgleader.example.lab;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.example.lab.supervisor.LabEvent.FailedOver;
import dev.pgleader.example.lab.supervisor.LabEvent.NodeChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.Outcome;
import dev.pgleader.example.lab.supervisor.NodeState;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

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
    void pauseStopsTheProcessUntilTheServerGivesTheLockToAnother() throws IOException {
        long begin = System.nanoTime();
        press("pause");
        assertThat(stat(lab.node(leader).pid())).isEqualTo("T");
        assertStillHolds(begin);
        assertRefused("pause", "is paused already");
        assertRefused("resign", "doesn't lead now");
        assertAnotherHolds();
        press("continue");
        assertThat(stat(lab.node(leader).pid())).isNotEqualTo("T");
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
                .until(() -> !lab.query("TABLE lab_entries").isEmpty());
        List<String> started = lab.query("SELECT pg_postmaster_start_time()");
        int port = lab.snapshot().databasePort();
        lab.press("/api/server/restart");
        assertThat(lab.query("SELECT pg_postmaster_start_time()")).isNotEqualTo(started);
        assertThat(lab.query("TABLE lab_entries")).isNotEmpty();
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
        assertThat(lab.query("SELECT a.id FROM lab_entries a JOIN lab_entries b"
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

    /** The state of a process as the kernel has it: T is stopped. */
    private static String stat(long pid) throws IOException {
        String line = Files.readString(Path.of("/proc", Long.toString(pid), "stat"));
        return line.substring(line.lastIndexOf(')') + 2).substring(0, 1);
    }
}
