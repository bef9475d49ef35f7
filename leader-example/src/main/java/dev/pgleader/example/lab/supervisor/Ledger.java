package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.supervisor.LabEvent.Job;
import dev.pgleader.example.lab.supervisor.LabEvent.Outcome;
import dev.pgleader.example.lab.supervisor.LabEvent.WorkDone;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Judges each mail: was it sent by the leader, or by a node that had lost the leadership? It doesn't ask the node. It's too
 * late if another node has been elected since, or if the server had shown the lock in other hands, or in none, for longer
 * than the lab's own watching takes.
 *
 * <p>Not thread-safe.
 */
final class Ledger {

    /** By how much the lab's view of the server may be behind: a few of its looks, on a busy machine. */
    static final long TOLERANCE_MILLIS = 100;

    private static final class Term {
        private @Nullable Long lostAtMillis;
        private @Nullable String successor;
        private long succeededAtMillis;
    }

    private final Map<String, Term> terms = new HashMap<>();
    private Optional<String> holder = Optional.empty();

    void elected(long atMillis, String node) {
        terms.forEach((other, term) -> {
            if (!other.equals(node) && term.successor == null) {
                term.successor = node;
                term.succeededAtMillis = atMillis;
            }
        });
        terms.put(node, new Term());
    }

    void holderChanged(long atMillis, Optional<String> now) {
        if (now.equals(holder)) {
            return;
        }
        holder.map(terms::get).ifPresent(term -> term.lostAtMillis = atMillis);
        now.map(terms::get).ifPresent(term -> term.lostAtMillis = null);
        holder = now;
    }

    WorkDone mailSent(long atMillis, String node, long number, long termNumber) {
        Term term = terms.get(node);
        String proof = term == null ? "" : lossBefore(atMillis, term);
        return new WorkDone(
                Job.MAIL, node, number, termNumber, proof.isEmpty() ? Outcome.IN_TERM : Outcome.TOO_LATE, proof);
    }

    private static String lossBefore(long atMillis, Term term) {
        if (term.successor != null && atMillis - term.succeededAtMillis > TOLERANCE_MILLIS) {
            return term.successor + " had been elected " + (atMillis - term.succeededAtMillis) + " ms before";
        }
        Long lostAtMillis = term.lostAtMillis;
        if (lostAtMillis != null && atMillis - lostAtMillis > TOLERANCE_MILLIS) {
            return "PostgreSQL had freed its lock " + (atMillis - lostAtMillis) + " ms before";
        }
        return "";
    }
}
