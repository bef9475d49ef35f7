package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.node.LabSettings;
import dev.pgleader.example.lab.node.NodeReport;
import dev.pgleader.example.lab.supervisor.LabEvent.EntriesCounted;
import dev.pgleader.example.lab.supervisor.LabEvent.FaultInjected;
import dev.pgleader.example.lab.supervisor.LabEvent.HolderChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.Job;
import dev.pgleader.example.lab.supervisor.LabEvent.JobProgressed;
import dev.pgleader.example.lab.supervisor.LabEvent.LabStarted;
import dev.pgleader.example.lab.supervisor.LabEvent.NodeChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.Note;
import dev.pgleader.example.lab.supervisor.LabEvent.Outcome;
import dev.pgleader.example.lab.supervisor.LabEvent.Progress;
import dev.pgleader.example.lab.supervisor.LabEvent.RunProgressed;
import dev.pgleader.example.lab.supervisor.LabEvent.Trouble;
import dev.pgleader.example.lab.supervisor.LabEvent.WorkDone;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * All that is known of a lab: what its nodes said, what was done to them, and what the server shows. It draws the
 * conclusions and writes them to the log; it does nothing to anybody.
 *
 * <p>Not thread-safe: the supervisor's lab thread is its only user. Times are milliseconds since the supervisor's start.
 */
final class Lab {

    private final EventLog log;
    private final Map<String, KnownNode> nodes = new LinkedHashMap<>();
    private final List<Consumer<LabEvent>> workListeners = new ArrayList<>();
    private LeaderGap gap = new LeaderGap();
    private Ledger ledger = new Ledger();
    private ClusterNumbers terms = new ClusterNumbers();
    private ClusterNumbers rounds = new ClusterNumbers();
    private ClusterNumbers runNumbers = new ClusterNumbers();
    private Runs runs = new Runs();
    private HolderChanged holder = new HolderChanged(false, Optional.empty(), 0);
    private int databasePort;
    private EntriesCounted entries = new EntriesCounted(0, 0);

    Lab(EventLog log) {
        this.log = log;
    }

    /** Everything from before is past. */
    void begin(long atMillis, LabSettings settings, int port, int mostNodes) {
        databasePort = port;
        nodes.clear();
        gap = new LeaderGap();
        ledger = new Ledger();
        terms = new ClusterNumbers();
        rounds = new ClusterNumbers();
        runNumbers = new ClusterNumbers();
        runs = new Runs();
        log.add(
                atMillis,
                new LabStarted(
                        settings.lease().toMillis(),
                        settings.retry().toMillis(),
                        settings.job().toMillis(),
                        settings.mode().name(),
                        port,
                        mostNodes));
        log.add(atMillis, holder);
    }

    /** What happens next to a node is a consequence of this. */
    void faulted(long atMillis, String node, Fault fault) {
        if (!fault.heals()) {
            gap.faulted(node, fault.label());
        }
        log.add(atMillis, new FaultInjected(node, fault, fault.label()));
    }

    void serverFaulted(long atMillis, Fault fault) {
        nodes.keySet().forEach(node -> gap.faulted(node, fault.label()));
        log.add(atMillis, new FaultInjected("PostgreSQL", fault, fault.label()));
    }

    /** Something was done that ought to change nothing by itself. */
    void done(long atMillis, String target, Fault fault) {
        log.add(atMillis, new FaultInjected(target, fault, fault.label()));
    }

    void noted(long atMillis, String message) {
        log.add(atMillis, new Note(message));
    }

    void started(long atMillis, String name, long pid, boolean cutOff) {
        KnownNode node = new KnownNode(name, pid, cutOff);
        nodes.put(name, node);
        changed(atMillis, node);
    }

    void ended(long atMillis, String name, String remark) {
        runs.ended(name);
        change(atMillis, name, node -> node.end(remark));
    }

    /** The process has ended without being told to, unless that is known already. */
    void vanished(long atMillis, long pid, String name, String lastErrors) {
        KnownNode node = nodes.get(name);
        if (node != null && node.runsAs(pid)) {
            boolean asked = node.stopping;
            runs.ended(name);
            node.end(asked ? "stopped" : "ended by itself");
            changed(atMillis, node);
            if (!asked) {
                log.add(atMillis, new Trouble(name + " has ended by itself. " + lastErrors));
            }
        }
    }

    /** It was told to end. */
    void stopping(long atMillis, String name) {
        change(atMillis, name, node -> node.stopping = true);
    }

    void allEnded(long atMillis) {
        nodes.keySet().forEach(name -> ended(atMillis, name, "the lab restarts"));
    }

    void paused(long atMillis, String name) {
        change(atMillis, name, node -> node.paused = true);
    }

    /** The process runs again; it remains to be seen whether it still leads. */
    void continued(long atMillis, String name) {
        change(atMillis, name, node -> {
            node.paused = false;
            node.inDoubt = true;
        });
    }

    void suspended(long atMillis, String name) {
        change(atMillis, name, node -> {
            node.paused = true;
            node.cutOff = true;
        });
    }

    void wokenUp(long atMillis, String name) {
        change(atMillis, name, node -> {
            node.paused = false;
            node.cutOff = false;
            node.inDoubt = true;
        });
    }

    void cutOff(long atMillis, String name, boolean cutOff) {
        change(atMillis, name, node -> node.cutOff = cutOff);
    }

    void reported(long atMillis, long pid, String name, NodeReport report) {
        KnownNode node = nodes.get(name);
        if (node == null || !node.runsAs(pid)) {
            return; // the last words of a process that was killed
        }
        if (report instanceof NodeReport.JobBegan job) {
            progressed(atMillis, new JobProgressed(name, rounds.of(pid, job.number()), Progress.BEGAN));
        } else if (report instanceof NodeReport.JobHalfDone job) {
            progressed(atMillis, new JobProgressed(name, rounds.of(pid, job.number()), Progress.HALF_DONE));
        } else if (report instanceof NodeReport.MailSent mail) {
            long number = rounds.of(pid, mail.number());
            log.add(atMillis, ledger.mailSent(atMillis, name, number, terms.of(pid, mail.term())));
            progressed(atMillis, new JobProgressed(name, number, Progress.ENDED));
        } else if (report instanceof NodeReport.EntryCommitted entry) {
            log.add(atMillis, entryDone(node, rounds.of(pid, entry.number()), Outcome.COMMITTED, ""));
        } else if (report instanceof NodeReport.EntryRefused entry) {
            log.add(atMillis, entryDone(node, rounds.of(pid, entry.number()), Outcome.ROLLED_BACK, entry.problem()));
        } else if (report instanceof NodeReport.RunStep done) {
            boolean alone = runs.stepped(name, done.step(), done.steps());
            ran(atMillis, node, runNumbers.of(pid, done.run()), done, alone);
        } else if (report instanceof NodeReport.RunAbandoned abandoned) {
            runs.ended(name);
            log.add(
                    atMillis,
                    new RunProgressed(name, runNumbers.of(pid, abandoned.run()), 0, 0, node.term, true, true));
        } else if (report instanceof NodeReport.Elected election) {
            ledger.elected(atMillis, name);
            node.hear(new NodeReport.Elected(terms.of(pid, election.term())));
            changed(atMillis, node);
        } else {
            node.hear(report);
            changed(atMillis, node);
        }
    }

    private static WorkDone entryDone(KnownNode node, long number, Outcome outcome, String remark) {
        return new WorkDone(Job.ENTRY, node.name, number, node.term, outcome, remark);
    }

    private void ran(long atMillis, KnownNode node, long number, NodeReport.RunStep done, boolean alone) {
        RunProgressed progress =
                new RunProgressed(node.name, number, done.step(), done.steps(), node.term, alone, false);
        log.add(atMillis, progress);
        tellListeners(progress);
    }

    void holderSeen(long atMillis, HolderChanged seen) {
        if (!seen.equals(holder)) {
            holder = seen;
            ledger.holderChanged(atMillis, seen.node());
            log.add(atMillis, seen);
        }
    }

    void entriesSeen(long atMillis, EntriesCounted seen) {
        if (!seen.equals(entries)) {
            entries = seen;
            log.tell(atMillis, seen);
        }
    }

    /** It hears of {@link JobProgressed} and {@link RunProgressed}. */
    void addWorkListener(Consumer<LabEvent> listener) {
        workListeners.add(listener);
    }

    void removeWorkListener(Consumer<LabEvent> listener) {
        workListeners.remove(listener);
    }

    LabSnapshot snapshot() {
        return new LabSnapshot(
                nodes.values().stream().map(KnownNode::view).toList(),
                List.copyOf(gap.actingNodes()),
                holder,
                entries,
                databasePort);
    }

    private void progressed(long atMillis, JobProgressed progress) {
        log.tell(atMillis, progress);
        tellListeners(progress);
    }

    private void tellListeners(LabEvent progress) {
        List.copyOf(workListeners).forEach(listener -> listener.accept(progress));
    }

    private void change(long atMillis, String name, Consumer<KnownNode> change) {
        KnownNode node = nodes.get(name);
        if (node != null) {
            change.accept(node);
            changed(atMillis, node);
        }
    }

    private void changed(long atMillis, KnownNode node) {
        NodeChanged view = node.view();
        if (view.equals(node.lastView)) {
            return;
        }
        node.lastView = view;
        log.add(atMillis, view);
        if (node.acts()) {
            gap.acts(atMillis, node.name, node.term).ifPresent(failover -> log.add(atMillis, failover));
        } else {
            gap.ceased(atMillis, node.name);
        }
    }
}
