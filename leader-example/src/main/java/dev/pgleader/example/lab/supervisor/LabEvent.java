package dev.pgleader.example.lab.supervisor;

import java.util.Optional;

/** Something that the page shows. Immutable; the components are the JSON that the page gets. */
public sealed interface LabEvent {

    /** The name under which pages listen for it. */
    String type();

    /** The lab began, or began anew: whatever was before is past. */
    record LabStarted(long leaseMillis, long retryMillis, long jobMillis, String mode, int databasePort, int mostNodes)
            implements LabEvent {
        @Override
        public String type() {
            return "lab";
        }
    }

    /**
     * A node is something else than before.
     *
     * @param leads whether it believes to be the leader, as far as it has said
     * @param term the number of its current or last term, counted over all nodes; 0 before its first
     * @param pid its process, 0 if it has none
     * @param remark why, where that isn't plain
     */
    record NodeChanged(
            String node,
            NodeState state,
            boolean leads,
            long term,
            long pid,
            boolean paused,
            boolean cutOff,
            String remark)
            implements LabEvent {
        @Override
        public String type() {
            return "node";
        }
    }

    /**
     * The server shows another holder of the lock.
     *
     * @param reachable whether the server answers
     * @param node whose session holds the lock; empty if none does
     * @param backendPid the server process of that session, or 0
     */
    record HolderChanged(boolean reachable, Optional<String> node, int backendPid) implements LabEvent {
        @Override
        public String type() {
            return "holder";
        }
    }

    /**
     * Somebody did something.
     *
     * @param target a node; {@code PostgreSQL} or {@code all nodes}
     */
    record FaultInjected(String target, Fault fault, String label) implements LabEvent {
        @Override
        public String type() {
            return "fault";
        }
    }

    /**
     * There's a leader again.
     *
     * @param from who led before
     * @param cause what ended that, as far as the lab knows
     * @param fromMillis when the last leader ceased to act, in the time of the log
     * @param gapMillis for how long nobody led
     */
    record FailedOver(String from, String to, String cause, long fromMillis, long gapMillis) implements LabEvent {
        @Override
        public String type() {
            return "failover";
        }
    }

    /** A leader is in the middle of a piece of work; pieces are counted over all nodes. Told, not kept. */
    record JobProgressed(String node, long number, Progress progress) implements LabEvent {
        @Override
        public String type() {
            return "job";
        }
    }

    /** How far a piece of work is. */
    enum Progress {
        BEGAN,
        HALF_DONE,
        ENDED
    }

    /**
     * A piece of work was done, or refused.
     *
     * @param job which job it belongs to
     * @param remark why the outcome is what it is; empty where that is plain
     */
    record WorkDone(Job job, String node, long number, long term, Outcome outcome, String remark) implements LabEvent {
        @Override
        public String type() {
            return "work";
        }
    }

    /** The two jobs of a leader. */
    enum Job {
        /** Has an effect outside of the database. */
        MAIL,
        /** Only writes to the database, in a transaction lock. */
        ENTRY
    }

    /** What became of a piece of work. */
    enum Outcome {
        /** Done by the leader. */
        IN_TERM,
        /** Done by a node that had lost the leadership. */
        TOO_LATE,
        /** In the database. */
        COMMITTED,
        /** Not in the database. */
        ROLLED_BACK
    }

    /**
     * A step of the job of several steps was done.
     *
     * @param run the number of the job
     * @param step 0 when it begins
     * @param alone whether no other node was in the middle of it; false would be a doubled job
     * @param abandoned whether the node goes no further, since it has lost the leadership
     */
    record RunProgressed(String node, long run, int step, int steps, long term, boolean alone, boolean abandoned)
            implements LabEvent {
        @Override
        public String type() {
            return "run";
        }
    }

    /** What something led to, in words. */
    record Note(String message) implements LabEvent {
        @Override
        public String type() {
            return "note";
        }
    }

    /** What the table of entries shows. Told, not kept. */
    record EntriesCounted(long rows, long overlapping) implements LabEvent {
        @Override
        public String type() {
            return "entries";
        }
    }

    /** Something went wrong that nobody asked for. */
    record Trouble(String message) implements LabEvent {
        @Override
        public String type() {
            return "trouble";
        }
    }
}
