package dev.pgleader.lock;

/**
 * What the one-shot helpers say to the server. The statements about a key take its {@link LockKey#objsubid()} and its
 * {@link LockKey#bits()}, and those of the own session answer with the row that {@link SessionAnswer} names.
 *
 * <p>Everything resolves in {@code pg_catalog} alone, operators too: the work that shares the session may set any {@code
 * search_path}, and so may its role or its database. {@code int}, {@code bigint} and {@code boolean} are words of the
 * grammar, which no path changes. Each {@code MATERIALIZED} step is done before the step that reads it: a lock is looked up
 * before it is tried, and after it is freed.
 */
final class OneShotSql {

    private static final String KEY = "WITH key AS MATERIALIZED (SELECT ?::int AS space, ?::bigint AS bits)";

    private static final String OF_THIS_SESSION = """
            FROM pg_catalog.pg_locks AS own_lock
                WHERE own_lock.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND own_lock.granted
                  AND own_lock.locktype OPERATOR(pg_catalog.=) 'advisory'
            """;

    private static final String IS_THE_KEY = isOnKey("own_lock", "key.space", "key.bits");

    private static final String HELD_BY_THIS_SESSION = "EXISTS (SELECT " + OF_THIS_SESSION + " AND " + IS_THE_KEY + ")";

    private static final String BELONGINGS =
            "((SELECT pg_catalog.count(*) " + OF_THIS_SESSION + " AND NOT (" + IS_THE_KEY
                    + ")) OPERATOR(pg_catalog.+) (SELECT pg_catalog.count(*) FROM pg_catalog.pg_listening_channels()))";

    /** Whether the session holds the key, in either mode; {@code done} repeats it. */
    static final String CHECK = KEY + answer(HELD_BY_THIS_SESSION, HELD_BY_THIS_SESSION, "true", "key");

    /**
     * {@code held}: the session had the key before, and it was not tried. {@code done}: the server says that the session has
     * it now. {@code shown}: it shows so, too.
     */
    static final String TRY_FOR_SESSION = tryLock("pg_try_advisory_lock");

    static final String TRY_FOR_TRANSACTION = tryLock("pg_try_advisory_xact_lock");

    /** {@code held}: the session has the key still. {@code done}: the session had it, and gave it back once. */
    static final String UNLOCK = KEY
            + ", unlocked AS MATERIALIZED (SELECT space, bits, " + onKey("pg_advisory_unlock") + " AS done FROM key)"
            + answer(HELD_BY_THIS_SESSION, "done", "true", "unlocked AS key");

    /** A prepared transaction holds its locks without a process; one of them is on its own number. */
    static final String HOLDER = """
            SELECT holder.pid, activity.application_name, prepared.gid
            FROM pg_catalog.pg_locks AS holder
            LEFT JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid OPERATOR(pg_catalog.=) holder.pid
            LEFT JOIN (pg_catalog.pg_locks AS number JOIN pg_catalog.pg_prepared_xacts AS prepared
                    ON prepared.transaction OPERATOR(pg_catalog.=) number.transactionid)
                ON holder.pid IS NULL AND number.pid IS NULL
                AND number.virtualtransaction OPERATOR(pg_catalog.=) holder.virtualtransaction
            WHERE holder.locktype OPERATOR(pg_catalog.=) 'advisory' AND holder.granted AND %s
              AND holder.database OPERATOR(pg_catalog.=)
                  (SELECT this.oid FROM pg_catalog.pg_database AS this
                   WHERE this.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
            LIMIT 1
            """.formatted(isOnKey("holder", "?::int", "?::bigint"));

    static final String VERSION = "SELECT pg_catalog.version()";

    static final String READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

    static final String ROLLBACK = "ROLLBACK";

    static final String SET_DEFAULT_ISOLATION =
            "SELECT pg_catalog.set_config('default_transaction_isolation', ?, false)";

    private OneShotSql() {}

    private static String tryLock(String function) {
        return KEY
                + ", own AS MATERIALIZED (SELECT space, bits, " + HELD_BY_THIS_SESSION + " AS held FROM key)"
                + ", tried AS MATERIALIZED (SELECT space, bits, held, CASE WHEN held THEN false ELSE " + onKey(function)
                + " END AS done FROM own)"
                + answer(
                        "held",
                        "done",
                        "CASE WHEN done THEN " + HELD_BY_THIS_SESSION + " ELSE held END",
                        "tried AS key");
    }

    private static String answer(String held, String done, String shown, String source) {
        return """
                 SELECT pg_catalog.pg_backend_pid() AS backend_pid, %s AS held, %s AS done, %s AS shown, %s AS belongings,
                    pg_catalog.current_setting('default_transaction_isolation') AS default_isolation
                FROM %s
                """.formatted(held, done, shown, BELONGINGS, source);
    }

    private static String onKey(String function) {
        return """
                CASE WHEN space OPERATOR(pg_catalog.=) 1 THEN pg_catalog.%1$s(bits)
                     ELSE pg_catalog.%1$s(
                        (bits OPERATOR(pg_catalog.>>) 32)::int,
                        ((bits OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::int) END
                """.formatted(function);
    }

    private static String isOnKey(String lock, String space, String bits) {
        return """
                %1$s.objsubid OPERATOR(pg_catalog.=) %2$s
                  AND ((%1$s.classid::bigint OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|) %1$s.objid::bigint)
                    OPERATOR(pg_catalog.=) %3$s""".formatted(lock, space, bits);
    }
}
