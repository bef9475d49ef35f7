package dev.pgleader.example.lab.node;

import dev.pgleader.RevocationReason;

/** What a node tells its supervisor: one line each on the node's standard output. */
public sealed interface NodeReport {

    /** It runs, and competes from now on. */
    record Ready() implements NodeReport {}

    /** It has a session on the server. */
    record Connected() implements NodeReport {}

    /** It has no session on the server any more, or didn't get one. */
    record Disconnected(String problem) implements NodeReport {}

    /** It holds the lock, and leads when that is confirmed and the takeover delay has passed. */
    record Granted() implements NodeReport {}

    /** It leads. */
    record Elected(long term) implements NodeReport {}

    /** It leads no longer. */
    record Revoked(long term, RevocationReason reason) implements NodeReport {}

    /** What it answers when asked whether it leads now. */
    record Trust(boolean leads) implements NodeReport {}

    /** It asked whether it leads, and began a piece of work. */
    record JobBegan(long number) implements NodeReport {}

    /** It's in the middle of that piece of work. */
    record JobHalfDone(long number) implements NodeReport {}

    /** It did what can't be undone: the mail is out. */
    record MailSent(long number, long term) implements NodeReport {}

    /** Its transaction is committed. */
    record EntryCommitted(long number) implements NodeReport {}

    /** Its transaction is rolled back, or didn't begin. */
    record EntryRefused(long number, String problem) implements NodeReport {}

    /**
     * A step of the job of several steps is done.
     *
     * @param step which one; 0 when the first one begins
     */
    record RunStep(long run, int step, int steps, long term) implements NodeReport {}

    /** It doesn't go on with that job, since it has lost the leadership. */
    record RunAbandoned(long run) implements NodeReport {}

    /** The line that {@link #parse} reads. */
    default String toLine() {
        if (this instanceof Ready) {
            return "ready";
        } else if (this instanceof Connected) {
            return "connected";
        } else if (this instanceof Disconnected report) {
            return "disconnected " + inOneLine(report.problem());
        } else if (this instanceof Granted) {
            return "granted";
        } else if (this instanceof Elected report) {
            return "elected " + report.term();
        } else if (this instanceof Revoked report) {
            return "revoked " + report.term() + " " + report.reason();
        } else if (this instanceof Trust report) {
            return "trust " + report.leads();
        } else if (this instanceof JobBegan report) {
            return "job-began " + report.number();
        } else if (this instanceof JobHalfDone report) {
            return "job-half-done " + report.number();
        } else if (this instanceof MailSent report) {
            return "mail-sent " + report.number() + " " + report.term();
        } else if (this instanceof EntryCommitted report) {
            return "entry-committed " + report.number();
        } else if (this instanceof EntryRefused report) {
            return "entry-refused " + report.number() + " " + inOneLine(report.problem());
        } else if (this instanceof RunStep report) {
            return "run-step " + report.run() + " " + report.step() + " " + report.steps() + " " + report.term();
        } else if (this instanceof RunAbandoned report) {
            return "run-abandoned " + report.run();
        }
        throw new AssertionError(this);
    }

    /**
     * Reads what {@link #toLine} writes.
     *
     * @throws IllegalArgumentException if it is something else
     */
    static NodeReport parse(String line) {
        String[] words = line.split(" ", 3);
        String first = words.length > 1 ? words[1] : "";
        String second = words.length > 2 ? words[2] : "";
        return switch (words[0]) {
            case "ready" -> new Ready();
            case "connected" -> new Connected();
            case "disconnected" ->
                new Disconnected(line.substring(words[0].length()).strip());
            case "granted" -> new Granted();
            case "elected" -> new Elected(Long.parseLong(first));
            case "revoked" -> new Revoked(Long.parseLong(first), RevocationReason.valueOf(second));
            case "trust" -> new Trust(Boolean.parseBoolean(first));
            case "job-began" -> new JobBegan(Long.parseLong(first));
            case "job-half-done" -> new JobHalfDone(Long.parseLong(first));
            case "mail-sent" -> new MailSent(Long.parseLong(first), Long.parseLong(second));
            case "entry-committed" -> new EntryCommitted(Long.parseLong(first));
            case "entry-refused" -> new EntryRefused(Long.parseLong(first), second);
            case "run-step" -> runStep(line.split(" ", -1));
            case "run-abandoned" -> new RunAbandoned(Long.parseLong(first));
            default -> throw new IllegalArgumentException("Not a report of a node: " + line);
        };
    }

    private static RunStep runStep(String[] words) {
        return new RunStep(
                Long.parseLong(words[1]),
                Integer.parseInt(words[2]),
                Integer.parseInt(words[3]),
                Long.parseLong(words[4]));
    }

    private static String inOneLine(String text) {
        return text.replaceAll("\\s+", " ").strip();
    }
}
