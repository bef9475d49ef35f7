package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.node.NodeReport;
import dev.pgleader.example.lab.supervisor.LabEvent.NodeChanged;
import org.jspecify.annotations.Nullable;

/** What is known of one node. A part of {@link Lab}, and like that for one thread. */
final class KnownNode {

    final String name;
    private long pid;
    private boolean ready;
    private boolean connected;
    private boolean granted;
    private boolean elected;
    private String remark = "";

    long term;
    boolean paused;
    boolean cutOff;
    boolean stopping;
    /** It was paused, and hasn't said yet whether it still leads. */
    boolean inDoubt;

    @Nullable
    NodeChanged lastView;

    KnownNode(String name, long pid, boolean cutOff) {
        this.name = name;
        this.pid = pid;
        this.cutOff = cutOff;
    }

    private boolean isAlive() {
        return pid != 0;
    }

    boolean runsAs(long process) {
        return pid == process;
    }

    /** Whether it does the work of a leader now. */
    boolean acts() {
        return isAlive() && elected && !paused && !inDoubt;
    }

    void end(String why) {
        pid = 0;
        elected = false;
        granted = false;
        connected = false;
        paused = false;
        inDoubt = false;
        remark = why;
    }

    void hear(NodeReport report) {
        if (report instanceof NodeReport.Ready) {
            ready = true;
        } else if (report instanceof NodeReport.Connected) {
            connected = true;
            remark = "";
        } else if (report instanceof NodeReport.Disconnected disconnected) {
            connected = false;
            granted = false;
            remark = disconnected.problem();
        } else if (report instanceof NodeReport.Granted) {
            granted = true;
        } else if (report instanceof NodeReport.Elected election) {
            elected = true;
            term = election.term();
            remark = "";
        } else if (report instanceof NodeReport.Revoked revocation) {
            elected = false;
            granted = false;
            inDoubt = false;
            remark = revocation.reason().toString();
        } else if (report instanceof NodeReport.Trust trust) {
            // One that leads no longer says so itself, with the reason, and is in doubt until then.
            inDoubt = inDoubt && !trust.leads() && elected;
        }
    }

    NodeChanged view() {
        return new NodeChanged(name, state(), elected, term, pid, paused, cutOff, remark);
    }

    private NodeState state() {
        if (!isAlive()) {
            return NodeState.DEAD;
        } else if (paused && cutOff) {
            return NodeState.SUSPENDED;
        } else if (paused || (inDoubt && elected)) {
            return NodeState.PAUSED;
        } else if (cutOff) {
            return NodeState.CUT_OFF;
        } else if (elected) {
            return NodeState.LEADER;
        } else if (!ready) {
            return NodeState.STARTING;
        } else if (granted) {
            return NodeState.TAKING_OVER;
        } else {
            return connected ? NodeState.FOLLOWER : NodeState.CONNECTING;
        }
    }
}
