package dev.pgleader.example.lab.node;

/** The names by which nodes and supervisor mean the same things in the database. */
public final class LabDatabase {

    /** The database's name; its superuser, who needs no password, has the same. */
    public static final String NAME = "postgres";

    /** The key that the nodes compete for. */
    public static final long LEADER_KEY = 2026;

    /** The key of the transactions that add to {@link #ENTRIES}. */
    public static final long ENTRIES_KEY = 2027;

    /** What the database job writes: who wrote, and over which time. */
    public static final String ENTRIES = "public.lab_entries";

    /** What {@code pg_stat_activity.application_name} shows before the name of a node, for its elector's session. */
    public static final String ELECTOR_SESSION = "pg-leader/";

    private LabDatabase() {}

    /**
     * The URL of the database behind a port of the loopback interface. Names mean what PostgreSQL brings: the lab has a stranger,
     * too.
     */
    public static String url(int port) {
        return "jdbc:postgresql://127.0.0.1:" + port + "/" + NAME + "?currentSchema=pg_catalog";
    }
}
