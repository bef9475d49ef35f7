package dev.pgleader;

import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Logs what goes wrong with the session: an outage is one line at its start, one for each new kind of failure in it, with its
 * cause, and now and then a reminder. Of the election thread.
 */
final class ProblemLog {

    private static final Log LOG = Log.of(ProblemLog.class);
    private static final long REMINDER_NANOS = Duration.ofMinutes(5).toNanos();
    /** A source that fails differently each time is told of by the reminders. */
    private static final int MOST_KINDS = 20;

    private static final int LONGEST_CHAIN = 10;

    private final String name;
    private final Set<String> reported = new HashSet<>();
    private long nextReminderAt;

    ProblemLog(String name) {
        this.name = name;
    }

    /** @param known the problem that there was before; null if this one is the first of an outage */
    void report(@Nullable Problem known, Fault fault, String message, @Nullable Throwable cause, long now) {
        if (known == null) {
            reported.clear();
        }
        boolean isNew = reported.size() < MOST_KINDS && reported.add(kind(fault, cause));
        if (!isNew && now - nextReminderAt < 0) {
            return;
        }
        nextReminderAt = now + REMINDER_NANOS;
        String lasting = known == null || known.kind() != LeaderStatus.Problem.Kind.SESSION
                ? ""
                : " for " + Duration.ofNanos(now - known.since()).toSeconds() + " s";
        LOG.warn("[{}] No trustworthy session{}: {}: {}", name, lasting, fault, message);
        if (cause != null) {
            LOG.debug("[{}] The cause", name, cause);
        }
    }

    private static String kind(Fault fault, @Nullable Throwable cause) {
        StringBuilder kind = new StringBuilder(fault.name());
        if (cause instanceof LockSessionException session) {
            kind.append(session.sqlState().orElse(""));
        }
        try {
            Throwable each = cause;
            for (int depth = 0; each != null && depth < LONGEST_CHAIN; depth++) {
                kind.append(' ').append(each.getClass().getName());
                each = each.getCause();
            }
        } catch (RuntimeException e) {
            // An exception that can't say what caused it is of the kind that is known so far.
        }
        return kind.toString();
    }

    /** What a failure says of itself, in one line, even if it can't. */
    static String describe(Throwable failure) {
        try {
            return String.valueOf(failure).lines().reduce((a, b) -> a + " " + b).orElse("");
        } catch (Throwable e) {
            return failure.getClass().getName();
        }
    }
}
