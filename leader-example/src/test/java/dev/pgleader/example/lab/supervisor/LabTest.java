package dev.pgleader.example.lab.supervisor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.RevocationReason;
import dev.pgleader.example.lab.node.LabSettings;
import dev.pgleader.example.lab.node.NodeReport;
import dev.pgleader.example.lab.supervisor.LabEvent.FailedOver;
import dev.pgleader.example.lab.supervisor.LabEvent.HolderChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.NodeChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.Outcome;
import dev.pgleader.example.lab.supervisor.LabEvent.RunProgressed;
import dev.pgleader.example.lab.supervisor.LabEvent.Trouble;
import dev.pgleader.example.lab.supervisor.LabEvent.WorkDone;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The conclusions that the lab draws, without any process. Node A has process 1, node B process 2. */
class LabTest {

    private final EventLog log = new EventLog();
    private final Lab lab = new Lab(log);

    @BeforeEach
    void twoNodesOfWhichOneLeads() {
        lab.begin(0, LabSettings.DEFAULT, 5432, 9);
        lab.started(0, "A", 1, false);
        lab.started(0, "B", 2, false);
        for (String node : List.of("A", "B")) {
            hear(10, node, new NodeReport.Ready());
            hear(20, node, new NodeReport.Connected());
        }
        hear(100, "A", new NodeReport.Granted());
        hear(110, "A", new NodeReport.Elected(1));
        lab.holderSeen(120, holder("A"));
    }

    @Test
    void theFirstElectionIsNoFailover() {
        assertThat(state("A")).isEqualTo(NodeState.LEADER);
        assertThat(state("B")).isEqualTo(NodeState.FOLLOWER);
        assertThat(lab.snapshot().leaders()).containsExactly("A");
        assertThat(events(FailedOver.class)).isEmpty();
    }

    @Test
    void aNodeThatHoldsTheLockButIsNotElectedTakesOver() {
        hear(200, "B", new NodeReport.Granted());
        assertThat(state("B")).isEqualTo(NodeState.TAKING_OVER);
        hear(210, "B", new NodeReport.Disconnected("gone"));
        assertThat(state("B")).isEqualTo(NodeState.CONNECTING);
    }

    @Test
    void theGapOfAKilledLeaderBeginsWithTheKill() {
        lab.faulted(1_000, "A", Fault.KILL);
        lab.ended(1_000, "A", "killed");
        hear(1_400, "B", new NodeReport.Elected(1));
        assertThat(events(FailedOver.class)).containsExactly(new FailedOver("A", "B", "kill -9", 1_000, 400));
    }

    @Test
    void theGapOfAPausedLeaderBeginsWithThePauseSinceItDoesNoWork() {
        lab.faulted(1_000, "A", Fault.PAUSE);
        lab.paused(1_000, "A");
        hear(6_500, "B", new NodeReport.Elected(1));
        assertThat(events(FailedOver.class)).containsExactly(new FailedOver("A", "B", "pause", 1_000, 5_500));
    }

    @Test
    void aLeaderThatGoesOnWithItsTermWasNotReplaced() {
        lab.paused(1_000, "A");
        lab.continued(1_500, "A");
        assertThat(lab.snapshot().leaders()).as("it hasn't said so yet").isEmpty();
        hear(1_501, "A", new NodeReport.Trust(true));
        assertThat(state("A")).isEqualTo(NodeState.LEADER);
        assertThat(events(FailedOver.class)).isEmpty();
    }

    @Test
    void aLeaderThatLostDuringItsPauseIsNeverShownAsASecondLeader() {
        lab.paused(1_000, "A");
        hear(7_000, "B", new NodeReport.Elected(1));
        lab.continued(8_000, "A");
        hear(8_001, "A", new NodeReport.Trust(false));
        assertThat(state("A")).isEqualTo(NodeState.PAUSED);
        hear(8_002, "A", new NodeReport.Revoked(1, RevocationReason.LEASE_EXPIRED));
        hear(8_003, "A", new NodeReport.Connected());
        assertThat(state("A")).isEqualTo(NodeState.FOLLOWER);
        assertThat(events(NodeChanged.class))
                .filteredOn(change -> change.state() == NodeState.LEADER)
                .extracting(NodeChanged::node)
                .containsExactly("A", "B");
    }

    @Test
    void aNodeThatIsCutOffLeadsForAsLongAsItTrustsItsLease() {
        lab.faulted(1_000, "A", Fault.CUT);
        lab.cutOff(1_000, "A", true);
        assertThat(state("A")).isEqualTo(NodeState.CUT_OFF);
        assertThat(lab.snapshot().leaders()).containsExactly("A");
        hear(5_000, "A", new NodeReport.Revoked(1, RevocationReason.LEASE_EXPIRED));
        lab.faulted(5_100, "A", Fault.HEAL);
        hear(5_600, "B", new NodeReport.Elected(1));
        assertThat(events(FailedOver.class)).containsExactly(new FailedOver("A", "B", "cut network", 5_000, 600));
    }

    @Test
    void aMailOfTheLeaderIsInTerm() {
        hear(500, "A", new NodeReport.MailSent(1, 1));
        assertThat(outcomes()).containsExactly(Outcome.IN_TERM);
    }

    @Test
    void aMailThatComesAfterTheElectionOfAnotherIsTooLate() {
        hear(1_000, "B", new NodeReport.Elected(1));
        hear(1_000 + Ledger.TOLERANCE_MILLIS, "A", new NodeReport.MailSent(1, 1));
        hear(1_001 + Ledger.TOLERANCE_MILLIS, "A", new NodeReport.MailSent(2, 1));
        hear(1_500, "B", new NodeReport.MailSent(1, 1));
        assertThat(outcomes()).containsExactly(Outcome.IN_TERM, Outcome.TOO_LATE, Outcome.IN_TERM);
        assertThat(events(WorkDone.class).get(1).remark()).isEqualTo("B had been elected 101 ms before");
    }

    @Test
    void aMailThatComesAfterTheServerFreedTheLockIsTooLate() {
        lab.holderSeen(1_000, new HolderChanged(true, Optional.empty(), 0));
        hear(1_000 + Ledger.TOLERANCE_MILLIS, "A", new NodeReport.MailSent(1, 1));
        hear(1_001 + Ledger.TOLERANCE_MILLIS, "A", new NodeReport.MailSent(2, 1));
        assertThat(outcomes()).containsExactly(Outcome.IN_TERM, Outcome.TOO_LATE);
    }

    @Test
    void aMailOfALaterTermIsInTerm() {
        lab.holderSeen(1_000, new HolderChanged(true, Optional.empty(), 0));
        hear(1_000, "A", new NodeReport.Revoked(1, RevocationReason.SESSION_LOST));
        hear(1_200, "A", new NodeReport.Elected(2));
        // The lab sees later what happened earlier.
        lab.holderSeen(1_210, new HolderChanged(false, Optional.empty(), 0));
        lab.holderSeen(1_220, holder("A"));
        hear(2_000, "A", new NodeReport.MailSent(1, 2));
        assertThat(outcomes()).containsExactly(Outcome.IN_TERM);
    }

    @Test
    void termsMailsAndJobsAreCountedOverAllNodes() {
        hear(500, "A", new NodeReport.MailSent(1, 1));
        hear(1_000, "A", new NodeReport.Revoked(1, RevocationReason.RESIGNED));
        hear(1_100, "B", new NodeReport.Elected(1));
        hear(1_200, "B", new NodeReport.MailSent(1, 1));
        hear(1_200, "B", new NodeReport.EntryCommitted(1));
        hear(1_300, "B", new NodeReport.MailSent(2, 1));
        assertThat(events(WorkDone.class)).extracting(WorkDone::number).containsExactly(1L, 2L, 2L, 3L);
        assertThat(events(WorkDone.class)).extracting(WorkDone::term).containsExactly(1L, 2L, 2L, 2L);
        lab.ended(2_000, "B", "killed");
        lab.started(2_100, "B", 2, false);
        assertThat(lab.snapshot().nodes().get(1).term()).isZero();
    }

    @Test
    void aJobThatRunsWhileAnotherNodesDoesIsDoubled() {
        hear(500, "A", new NodeReport.RunStep(1, 0, 2, 1));
        hear(600, "A", new NodeReport.RunStep(1, 1, 2, 1));
        hear(700, "B", new NodeReport.RunStep(1, 0, 2, 1));
        hear(800, "A", new NodeReport.RunStep(1, 2, 2, 1));
        hear(900, "B", new NodeReport.RunStep(1, 1, 2, 1));
        hear(950, "A", new NodeReport.RunStep(2, 0, 2, 1));
        lab.ended(990, "B", "killed");
        hear(1_000, "A", new NodeReport.RunStep(2, 1, 2, 1));
        assertThat(events(RunProgressed.class))
                .extracting(RunProgressed::alone)
                .containsExactly(true, true, false, false, true, false, true);
        assertThat(events(RunProgressed.class))
                .extracting(RunProgressed::run)
                .containsExactly(1L, 1L, 2L, 1L, 2L, 3L, 3L);
    }

    @Test
    void whoIsStoppedAndCutOffIsSuspendedUntilItSaysThatItLeads() {
        lab.suspended(1_000, "A");
        assertThat(state("A")).isEqualTo(NodeState.SUSPENDED);
        lab.wokenUp(1_500, "A");
        assertThat(state("A")).as("it hasn't said so yet").isEqualTo(NodeState.PAUSED);
        hear(1_501, "A", new NodeReport.Trust(true));
        assertThat(state("A")).isEqualTo(NodeState.LEADER);
    }

    @Test
    void theLastWordsOfAProcessAreNotThoseOfItsSuccessor() {
        lab.ended(1_000, "A", "killed");
        lab.started(1_100, "A", 3, false);
        lab.reported(1_200, 1, "A", new NodeReport.Elected(2));
        lab.vanished(1_300, 1, "A", "");
        assertThat(state("A")).isEqualTo(NodeState.STARTING);
        assertThat(events(Trouble.class)).isEmpty();
    }

    @Test
    void aProcessThatEndsByItselfIsTrouble() {
        lab.vanished(1_000, 2, "B", "out of memory");
        assertThat(state("B")).isEqualTo(NodeState.DEAD);
        assertThat(events(Trouble.class)).containsExactly(new Trouble("B has ended by itself. out of memory"));
    }

    @Test
    void aNewBeginningForgetsThePast() {
        lab.begin(5_000, LabSettings.DEFAULT, 5432, 9);
        assertThat(lab.snapshot().nodes()).isEmpty();
        assertThat(lab.snapshot().leaders()).isEmpty();
        assertThat(events(NodeChanged.class)).isEmpty();
        assertThat(events(HolderChanged.class)).containsExactly(holder("A"));
    }

    private void hear(long atMillis, String node, NodeReport report) {
        lab.reported(atMillis, node.equals("A") ? 1 : 2, node, report);
    }

    private NodeState state(String node) {
        return lab.snapshot().nodes().stream()
                .filter(view -> view.node().equals(node))
                .findFirst()
                .orElseThrow()
                .state();
    }

    private static HolderChanged holder(String node) {
        return new HolderChanged(true, Optional.of(node), 77);
    }

    private List<Outcome> outcomes() {
        return events(WorkDone.class).stream().map(WorkDone::outcome).toList();
    }

    private <E extends LabEvent> List<E> events(Class<E> type) {
        List<E> events = new ArrayList<>();
        try (EventLog.Subscription subscription = log.subscribe(0)) {
            for (EventLog.Entry entry = subscription.next(0); entry != null; entry = subscription.next(0)) {
                if (type.isInstance(entry.event())) {
                    events.add(type.cast(entry.event()));
                }
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        return events;
    }
}
