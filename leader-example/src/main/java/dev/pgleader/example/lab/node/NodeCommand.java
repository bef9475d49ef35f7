package dev.pgleader.example.lab.node;

/** What a supervisor tells a node: one line each on the node's standard input. Its end ends the node. */
public enum NodeCommand {
    /** Give up the leadership, if you have it. */
    RESIGN,
    /** Do the job of several steps when you lead. */
    RUN,
    /** Answer with {@link NodeReport.Trust}. */
    REPORT_TRUST,
    /** Close the elector in order, and end. */
    STOP
}
