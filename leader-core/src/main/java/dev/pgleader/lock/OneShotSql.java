package dev.pgleader.lock;

/**
 * What the one-shot helpers say to the server. The statements about a key take its {@link LockKey#objsubid()} and its
 * {@link LockKey#bits()}, and those of the own session answer with the row that {@link SessionAnswer} names.
 *
 * <p>Everything is qualified, since the work that shares the session may set any {@code search_path}. Each {@code
 * MATERIALIZED} step is done before the step that reads it: a lock is looked up before it is tried, and after it is
 * freed.
 */
final class OneShotSql {

    private static final String KEY = "WITH key AS MATERIALIZED (SELECT ?::int AS space, ?::bigint AS bits)";

    private static final String HELD_BY_THIS_SESSION = """
            EXISTS (
                SELECT FROM pg_catalog.pg_locks
                WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()
                  AND objsubid = key.space AND ((classid::bigint << 32) | objid::bigint) = key.bits)
            """;

    /** Whether the session holds the key, in either mode; {@code done} repeats it. */
    static final String CHECK = KEY + answer(HELD_BY_THIS_SESSION, HELD_BY_THIS_SESSION, "key");

    /** {@code held}: the session had the key before, and it was not tried. {@code done}: the session has it now. */
    static final String TRY_FOR_SESSION = tryLock("pg_try_advisory_lock");

    static final String TRY_FOR_TRANSACTION = tryLock("pg_try_advisory_xact_lock");

    /** {@code held}: the session has the key still. {@code done}: the session had it, and gave it back once. */
    static final String UNLOCK = KEY
            + ", unlocked AS MATERIALIZED (SELECT space, bits, " + onKey("pg_advisory_unlock") + " AS done FROM key)"
            + answer(HELD_BY_THIS_SESSION, "done", "unlocked AS key");

    static final String HOLDER = """
            SELECT holder.pid, activity.application_name
            FROM pg_catalog.pg_locks AS holder LEFT JOIN pg_catalog.pg_stat_activity AS activity USING (pid)
            WHERE holder.locktype = 'advisory' AND holder.granted
              AND holder.objsubid = ? AND ((holder.classid::bigint << 32) | holder.objid::bigint) = ?
              AND holder.database =
                  (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
            LIMIT 1
            """;

    static final String READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

    static final String ROLLBACK = "ROLLBACK";

    static final String SET_DEFAULT_ISOLATION =
            "SELECT pg_catalog.set_config('default_transaction_isolation', ?, false)";

    private OneShotSql() {}

    private static String tryLock(String function) {
        return KEY
                + ", own AS MATERIALIZED (SELECT space, bits, " + HELD_BY_THIS_SESSION + " AS held FROM key)"
                + answer("held", "CASE WHEN held THEN false ELSE " + onKey(function) + " END", "own");
    }

    private static String answer(String held, String done, String source) {
        return """
                 SELECT pg_catalog.pg_backend_pid() AS backend_pid, %s AS held, %s AS done,
                    pg_catalog.current_setting('default_transaction_isolation') AS default_isolation
                FROM %s
                """.formatted(held, done, source);
    }

    private static String onKey(String function) {
        return """
                CASE WHEN space = 1 THEN pg_catalog.%1$s(bits)
                     ELSE pg_catalog.%1$s((bits >> 32)::int, ((bits << 32) >> 32)::int) END
                """.formatted(function);
    }
}
