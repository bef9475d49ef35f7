package dev.pgleader.example.lab.node;

import java.io.PrintStream;

/** The node's line to its supervisor. Thread-safe. */
final class ReportWriter {

    private final PrintStream lines;

    ReportWriter(PrintStream lines) {
        this.lines = lines;
    }

    synchronized void report(NodeReport report) {
        lines.println(report.toLine());
        lines.flush();
    }
}
