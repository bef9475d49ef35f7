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
import dev.pgleader.example.lab.supervisor.LabEvent.Outcome;
import dev.pgleader.example.lab.supervisor.LabEvent.Progress;
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
    private final List<Consumer<JobProgressed>> jobListeners = new ArrayList<>();
    private LeaderGap gap = new LeaderGap();
    private Ledger ledger = new Ledger();
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
        if (fault != Fault.CONTINUE && fault != Fault.HEAL) {
            gap.faulted(node, fault.label());
        }
        log.add(atMillis, new FaultInjected(node, fault, fault.label()));
    }

    void serverFaulted(long atMillis, Fault fault) {
        nodes.keySet().forEach(node -> gap.faulted(node, fault.label()));
        log.add(atMillis, new FaultInjected("PostgreSQL", fault, fault.label()));
    }

    void started(long atMillis, String name, long pid, boolean cutOff) {
        KnownNode node = new KnownNode(name, pid, cutOff);
        nodes.put(name, node);
        changed(atMillis, node);
    }

    void ended(long atMillis, String name, String remark) {
        change(atMillis, name, node -> node.end(remark));
    }

    /** The process has ended without being told to, unless that is known already. */
    void vanished(long atMillis, long pid, String name, String lastErrors) {
        KnownNode node = nodes.get(name);
        if (node != null && node.runsAs(pid)) {
            boolean asked = node.stopping;
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

    void cutOff(long atMillis, String name, boolean cutOff) {
        change(atMillis, name, node -> node.cutOff = cutOff);
    }

    void reported(long atMillis, long pid, String name, NodeReport report) {
        KnownNode node = nodes.get(name);
        if (node == null || !node.runsAs(pid)) {
            return; // the last words of a process that was killed
        }
        if (report instanceof NodeReport.JobBegan job) {
            progressed(atMillis, new JobProgressed(name, job.number(), Progress.BEGAN));
        } else if (report instanceof NodeReport.JobHalfDone job) {
            progressed(atMillis, new JobProgressed(name, job.number(), Progress.HALF_DONE));
        } else if (report instanceof NodeReport.MailSent mail) {
            log.add(atMillis, ledger.mailSent(atMillis, name, mail.number(), mail.term()));
            progressed(atMillis, new JobProgressed(name, mail.number(), Progress.ENDED));
        } else if (report instanceof NodeReport.EntryCommitted entry) {
            log.add(atMillis, new WorkDone(Job.ENTRY, name, entry.number(), node.term, Outcome.COMMITTED, ""));
        } else if (report instanceof NodeReport.EntryRefused entry) {
            log.add(
                    atMillis,
                    new WorkDone(Job.ENTRY, name, entry.number(), node.term, Outcome.ROLLED_BACK, entry.problem()));
        } else {
            if (report instanceof NodeReport.Elected) {
                ledger.elected(atMillis, name);
            }
            node.hear(report);
            changed(atMillis, node);
        }
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

    void addJobListener(Consumer<JobProgressed> listener) {
        jobListeners.add(listener);
    }

    void removeJobListener(Consumer<JobProgressed> listener) {
        jobListeners.remove(listener);
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
        List.copyOf(jobListeners).forEach(listener -> listener.accept(progress));
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
