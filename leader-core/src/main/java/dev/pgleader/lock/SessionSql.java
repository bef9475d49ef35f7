package dev.pgleader.lock;

/**
 * The statements of a lock session. A key is addressed in the form (space, bits) of {@link LockKey}, so that one statement
 * serves both key spaces.
 *
 * <p>{@code pgleader.session} is a <a
 * href="https://www.postgresql.org/docs/current/runtime-config-custom.html">customized option</a> that each session sets to
 * a value of its own: a statement that reads another value runs on somebody else's backend.
 *
 * <p>Each function, operator, relation and type is qualified, so that no {@code search_path} makes a statement run what a
 * stranger put into the database. That rules out what PostgreSQL looks up by itself: {@code IN}, {@code NULLIF}, {@code
 * USING}, {@code LIKE}.
 */
final class SessionSql {

    /** The channel that all sessions of a database listen on. */
    static final String CHANNEL = "pgleader";

    private static final String TOKEN = "pg_catalog.current_setting('pgleader.session', true)";

    private static final String LEASE =
            "coalesce(pg_catalog.current_setting('idle_session_timeout', true), ''::pg_catalog.text)";

    private static final String READ_ONLY = "pg_catalog.current_setting('transaction_read_only')::boolean";

    /** That the statement runs on the session's own backend, with its lease in force. */
    private static final String OURS = TOKEN + " OPERATOR(pg_catalog.=) ? AND " + LEASE + " OPERATOR(pg_catalog.=) ?";

    private static final String KEYS =
            "ROWS FROM (pg_catalog.unnest(?::int[]), pg_catalog.unnest(?::bigint[])) AS key(space, bits)";

    private static final String KEY = "(VALUES (?::int, ?::bigint)) AS key(space, bits)";

    /** The bits of a key, in a row of {@code pg_locks}. */
    private static final String BITS =
            "((l.classid::bigint OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.|) l.objid::bigint)";

    /** That a row of {@code pg_locks} is an advisory lock of this database that somebody holds. */
    private static final String IS_HELD = """
            l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted
            AND l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database AS d
                WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())""";

    private static final String IS_OF_KEY =
            "l.objsubid OPERATOR(pg_catalog.=) key.space AND " + BITS + " OPERATOR(pg_catalog.=) key.bits";

    private static final String IS_OWN = "l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()";

    /** The role that this session logged in as. */
    private static final String OWN_ROLE = """
            (SELECT own.usesysid FROM pg_catalog.pg_stat_activity AS own
             WHERE own.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())""";

    /** Where the session is, and whose it was; from now on it is ours. */
    static final String PROOF = """
            SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_database(), pg_catalog.pg_is_in_recovery(), %s, %s,
                   (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks AS l
                    WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND %s),
                   pg_catalog.set_config('pgleader.session', ?, false)
            """.formatted(READ_ONLY, TOKEN, IS_OWN);

    /**
     * The server's uptime counts from its last start or from its last crash recovery, whichever came later: when a single
     * backend crashes, the server ends all sessions without starting anew, and of that only the fresh statistics tell.
     */
    static final String SERVER_RUN = """
            SELECT extract(epoch FROM pg_catalog.pg_postmaster_start_time())::pg_catalog.text,
                   extract(epoch FROM b.stats_reset)::pg_catalog.text,
                   (extract(epoch FROM pg_catalog.clock_timestamp()
                       OPERATOR(pg_catalog.-) greatest(pg_catalog.pg_postmaster_start_time(), b.stats_reset))
                       OPERATOR(pg_catalog.*) 1000)::bigint
            FROM pg_catalog.pg_stat_bgwriter AS b
            """;

    static final String TIMELINE = """
            SELECT ('x'::pg_catalog.text OPERATOR(pg_catalog.||)
                pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::int
            """;

    static final String NOTHING = "SELECT 1";

    static final String AFFINITY = "SELECT pg_catalog.pg_backend_pid(), " + TOKEN;

    /** Changes the settings that this server knows. */
    static final String SET = """
            SELECT pg_catalog.set_config(t.name, t.value, false)
            FROM ROWS FROM (pg_catalog.unnest(?::pg_catalog.text[]), pg_catalog.unnest(?::pg_catalog.text[]))
                AS t(name, value)
            WHERE pg_catalog.current_setting(t.name, true) IS NOT NULL
            """;

    /** The lease as the server shows it, and in milliseconds. */
    static final String LEASE_SETTING = """
            SELECT %s, (SELECT s.setting::bigint FROM pg_catalog.pg_settings AS s
                        WHERE s.name OPERATOR(pg_catalog.=) 'idle_session_timeout')
            """.formatted(LEASE);

    static final String LISTEN = "LISTEN " + CHANNEL;

    /**
     * Of the rows {@code asked(space, bits, granted)}: who holds those that weren't granted. It looks when all are asked, and
     * only if one was refused. One row for each holder: two thousand keys are matched by one sort, whatever the planner
     * believes of {@code pg_locks}. A prepared transaction has no process, but the number of a transaction that shows beside
     * its locks.
     */
    private static final String HOLDERS_OF_ASKED = """
            , held AS MATERIALIZED (
                SELECT l.objsubid::int AS space, %s AS bits, l.pid,
                       CASE WHEN l.pid IS NULL THEN l.virtualtransaction END AS prepared
                FROM pg_catalog.pg_locks AS l
                WHERE NOT (SELECT pg_catalog.bool_and(asked.granted) FROM asked) AND %s),
            answer AS MATERIALIZED (
                SELECT either.space, either.bits, pg_catalog.bool_or(either.granted) AS granted,
                       pg_catalog.max(either.pid) AS pid, pg_catalog.max(either.prepared) AS prepared
                FROM (SELECT asked.space, asked.bits, asked.granted, NULL::int AS pid, NULL::pg_catalog.text AS prepared
                      FROM asked
                      UNION ALL
                      SELECT held.space, held.bits, NULL::boolean, held.pid, held.prepared FROM held) AS either
                GROUP BY either.space, either.bits
                HAVING pg_catalog.count(either.granted) OPERATOR(pg_catalog.>) 0)
            SELECT h.granted, h.pid, a.application_name, h.prepared,
                   CASE WHEN h.pid IS NULL THEN (
                       SELECT pg_catalog.max(p.gid)
                       FROM pg_catalog.pg_prepared_xacts AS p JOIN pg_catalog.pg_locks AS own
                           ON own.transactionid OPERATOR(pg_catalog.=) p.transaction
                       WHERE own.pid IS NULL AND own.virtualtransaction OPERATOR(pg_catalog.=) h.prepared) END AS gid,
                   h.spaces, h.keys
            FROM (SELECT answer.granted, answer.pid, answer.prepared, pg_catalog.array_agg(answer.space) AS spaces,
                         pg_catalog.array_agg(answer.bits) AS keys
                  FROM answer GROUP BY answer.granted, answer.pid, answer.prepared) AS h
            LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid OPERATOR(pg_catalog.=) h.pid
            """.formatted(BITS, IS_HELD);

    /** Tries no key, and returns no row, on a backend that isn't this session's. */
    static final String ATTEMPT = """
            WITH key AS MATERIALIZED (SELECT key.space, key.bits FROM %s WHERE %s),
            asked AS MATERIALIZED (SELECT space, bits, %s AS granted FROM key)
            """.formatted(KEYS, OURS, ofKey("pg_try_advisory_lock")) + HOLDERS_OF_ASKED;

    static final String HOLDERS = """
            WITH asked AS MATERIALIZED (SELECT key.space, key.bits, false AS granted FROM %s)
            """.formatted(KEYS) + HOLDERS_OF_ASKED;

    /**
     * Waits in the server's queue, and locks nothing on a backend that isn't this session's. A block may catch that the time
     * is over, so that it's no error, neither for the transaction nor in the server's log; the same goes for a deadlock,
     * which ends with this wait. A block takes no parameters and returns nothing, so both go through settings. Some drivers
     * send the three statements one by one: none relies on the transaction of another. The text is the same for all keys, as
     * {@code pg_stat_statements} likes it. Whether the key was granted is read from {@code pg_locks}: in the moment in which its time is
     * over, a wait may get the lock and still fail, and a session keeps such a lock.
     */
    static final String WAIT_IN_QUEUE = """
            SELECT pg_catalog.set_config('pgleader.space', ?, false), pg_catalog.set_config('pgleader.bits', ?, false),
                   pg_catalog.set_config('pgleader.longest', ?, false),
                   pg_catalog.set_config('pgleader.may_wait', coalesce(%s, false)::pg_catalog.text, false);
            DO $$ DECLARE
              bits bigint := pg_catalog.current_setting('pgleader.bits');
            BEGIN
              IF pg_catalog.current_setting('pgleader.may_wait')::boolean THEN
                PERFORM pg_catalog.set_config('pgleader.may_wait', 'false', false);
                BEGIN
                  PERFORM pg_catalog.set_config('lock_timeout', pg_catalog.current_setting('pgleader.longest'), true);
                  IF pg_catalog.current_setting('pgleader.space') OPERATOR(pg_catalog.=) '1' THEN
                    PERFORM pg_catalog.pg_advisory_lock(bits);
                  ELSE
                    PERFORM pg_catalog.pg_advisory_lock(%s);
                  END IF;
                EXCEPTION WHEN lock_not_available OR deadlock_detected THEN NULL;
                END;
              END IF;
            END $$;
            SELECT %s, EXISTS (SELECT FROM pg_catalog.pg_locks AS l
                CROSS JOIN (SELECT pg_catalog.current_setting('pgleader.space')::int AS space,
                                   pg_catalog.current_setting('pgleader.bits')::bigint AS bits) AS key
                WHERE l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock' AND %s AND %s AND %s)
            """.formatted(OURS, halves(), TOKEN, IS_HELD, IS_OWN, IS_OF_KEY);

    /** A shared lock of the key, once however often it's asked for. */
    static final String JOIN = """
            SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_locks AS l
                        WHERE l.mode OPERATOR(pg_catalog.=) 'ShareLock' AND %s AND %s AND %s)
                   THEN true ELSE %s END
            FROM %s
            """.formatted(IS_HELD, IS_OWN, IS_OF_KEY, ofKey("pg_try_advisory_lock_shared"), KEY);

    static final String LEAVE = "SELECT " + ofKey("pg_advisory_unlock_shared") + " FROM " + KEY;

    static final String MEMBERS = """
            SELECT pg_catalog.count(*)
            FROM %s
            JOIN pg_catalog.pg_locks AS l ON %s AND %s
            JOIN pg_catalog.pg_stat_activity AS a ON a.pid OPERATOR(pg_catalog.=) l.pid
            WHERE l.mode OPERATOR(pg_catalog.=) 'ShareLock' AND a.usesysid OPERATOR(pg_catalog.=) %s
            """.formatted(KEY, IS_OF_KEY, IS_HELD, OWN_ROLE);

    static final String COMMANDERS = """
            SELECT a.pid
            FROM pg_catalog.pg_stat_activity AS a LEFT JOIN pg_catalog.pg_roles AS r
                ON r.oid OPERATOR(pg_catalog.=) a.usesysid
            WHERE a.pid OPERATOR(pg_catalog.=) ANY (?::int[])
              AND (a.usesysid OPERATOR(pg_catalog.=) %s OR r.rolsuper)
            """.formatted(OWN_ROLE);

    /** Shared locks tell who is there; only exclusive ones are held in an election. */
    static final String CHECK = """
            SELECT pg_catalog.pg_backend_pid(), %s, pg_catalog.pg_is_in_recovery(), %s, %s, held.spaces, held.keys
            FROM (SELECT pg_catalog.array_agg(l.objsubid::int) AS spaces, pg_catalog.array_agg(%s) AS keys
                  FROM pg_catalog.pg_locks AS l
                  WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted
                    AND l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock' AND %s) AS held
            """.formatted(TOKEN, READ_ONLY, LEASE, BITS, IS_OWN);

    static final String RELEASE =
            "SELECT %s FROM %s WHERE %s OPERATOR(pg_catalog.=) ?".formatted(ofKey("pg_advisory_unlock"), KEYS, TOKEN);

    /** The lock that the timeout is for is taken when the transaction commits, which this statement is by itself. */
    static final String TELL = """
            SELECT pg_catalog.set_config('lock_timeout', ?, true), pg_catalog.pg_notify('pgleader', t.payload)
            FROM pg_catalog.unnest(?::pg_catalog.text[]) AS t(payload)
            """;

    /**
     * How full the queue of notifications is. A full one stays so when whoever held it up is gone, until somebody asks this.
     */
    static final String SHORTEN_QUEUE = "SELECT pg_catalog.pg_notification_queue_usage()";

    private SessionSql() {}

    /** The call of a lock function for a key of either space. */
    private static String ofKey(String function) {
        return "CASE WHEN space OPERATOR(pg_catalog.=) 1 THEN pg_catalog.%1$s(bits) ELSE pg_catalog.%1$s(%2$s) END"
                .formatted(function, halves());
    }

    private static String halves() {
        return "(bits OPERATOR(pg_catalog.>>) 32)::int,"
                + " ((bits OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::int";
    }
}
