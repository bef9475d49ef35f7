package dev.pgleader.lock;

/**
 * The statements of a lock session. A key is addressed in the form (space, bits) of {@link LockKey}, so that one statement
 * serves both key spaces.
 *
 * <p>{@code pgleader.session} is a <a
 * href="https://www.postgresql.org/docs/current/runtime-config-custom.html">customized option</a> that each session sets to
 * a value of its own: a statement that reads another value runs on somebody else's backend.
 */
final class SessionSql {

    /** The channel that all sessions of a database listen on. */
    static final String CHANNEL = "pgleader";

    /**
     * The server's uptime counts from its last start or from its last crash recovery, whichever came later: when a single
     * backend crashes, the server ends all sessions without starting anew, and of that only the fresh statistics tell.
     */
    static final String FACTS = """
            SELECT pg_backend_pid(), current_database(), pg_is_in_recovery(),
                   current_setting('transaction_read_only')::boolean,
                   (extract(epoch FROM clock_timestamp() - greatest(pg_postmaster_start_time(),
                        (SELECT stats_reset FROM pg_stat_bgwriter))) * 1000)::bigint,
                   nullif(current_setting('pgleader.session', true), ''),
                   (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
                   set_config('pgleader.session', ?, false),
                   pg_postmaster_start_time()::text, (SELECT stats_reset FROM pg_stat_bgwriter)::text
            """;

    static final String NOTHING = "SELECT 1";

    static final String AFFINITY = "SELECT pg_backend_pid(), nullif(current_setting('pgleader.session', true), '')";

    static final String SET =
            "SELECT set_config(name, value, false) FROM unnest(?::text[], ?::text[]) AS t(name, value)";

    static final String LEASE_SETTING = "SELECT current_setting('idle_session_timeout')";

    static final String TIMELINE = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int";

    static final String LISTEN = "LISTEN " + CHANNEL;

    /** Tries no key, and returns no row, on a backend that isn't this session's. */
    static final String TRY_LOCK = """
            SELECT space, bits, %s
            FROM unnest(?::int[], ?::bigint[]) AS key(space, bits)
            WHERE current_setting('pgleader.session', true) = ? AND current_setting('idle_session_timeout') = ?
            """.formatted(ofKey("pg_try_advisory_lock"));

    /**
     * Waits in the server's queue, and locks nothing on a backend that isn't this session's. A block may catch that the time
     * is over, so that it's no error, neither for the transaction nor in the server's log. A block takes no parameters and
     * returns nothing, so both go through settings of the transaction: all three statements are sent in one round trip, and
     * so in one implicit transaction. The text is the same for all keys, as {@code pg_stat_statements} likes it.
     */
    static final String LOCK_WITHIN = """
            SELECT set_config('pgleader.space', ?, true), set_config('pgleader.bits', ?, true),
                   set_config('lock_timeout', ?, true), set_config('pgleader.granted', 'no', true),
                   set_config('pgleader.ours', (current_setting('pgleader.session', true) = ?
                       AND current_setting('idle_session_timeout') = ?)::text, true);
            DO $$ DECLARE
              bits bigint = current_setting('pgleader.bits')::bigint;
            BEGIN
              IF current_setting('pgleader.ours')::boolean THEN
                IF current_setting('pgleader.space') = '1' THEN
                  PERFORM pg_advisory_lock(bits);
                ELSE
                  PERFORM pg_advisory_lock((bits >> 32)::int, ((bits << 32) >> 32)::int);
                END IF;
                PERFORM set_config('pgleader.granted', 'yes', true);
              END IF;
            EXCEPTION WHEN lock_not_available THEN NULL; END $$;
            SELECT current_setting('pgleader.ours')::boolean, current_setting('pgleader.granted') = 'yes'
            """;

    /** Which of the keys nobody holds. */
    static final String FREE = """
            SELECT space, bits FROM unnest(?::int[], ?::bigint[]) AS key(space, bits)
            WHERE NOT EXISTS (
                SELECT 1 FROM pg_locks l WHERE %s)
            """.formatted(isHeld("key.space", "key.bits"));

    static final String JOIN = """
            SELECT %s
            FROM (VALUES (?::int, ?::bigint)) AS key(space, bits)
            """.formatted(ofKey("pg_try_advisory_lock_shared"));

    static final String MEMBERS = """
            SELECT count(*) FROM pg_locks l
            WHERE l.mode = 'ShareLock' AND %s
            """.formatted(isHeld("?", "?"));

    /** Shared locks tell who is there; only exclusive ones are held in an election. */
    static final String CHECK = """
            SELECT pg_backend_pid(), current_setting('pgleader.session', true), pg_is_in_recovery(),
                   current_setting('transaction_read_only')::boolean, current_setting('idle_session_timeout'),
                   held.spaces, held.keys
            FROM (SELECT array_agg(objsubid::int) AS spaces,
                         array_agg((classid::bigint << 32) | objid::bigint) AS keys
                  FROM pg_locks
                  WHERE locktype = 'advisory' AND granted AND mode = 'ExclusiveLock' AND pid = pg_backend_pid()) AS held
            """;

    static final String RELEASE = """
            SELECT %s, pg_notify('pgleader', payload)
            FROM unnest(?::int[], ?::bigint[], ?::text[]) AS key(space, bits, payload)
            WHERE current_setting('pgleader.session', true) = ?
            """.formatted(ofKey("pg_advisory_unlock"));

    static final String GIVE_BACK = """
            SELECT %s
            FROM unnest(?::int[], ?::bigint[]) AS key(space, bits)
            WHERE current_setting('pgleader.session', true) = ?
            """.formatted(ofKey("pg_advisory_unlock"));

    static final String ANNOUNCE = "SELECT pg_notify('pgleader', payload) FROM unnest(?::text[]) AS payload";

    static final String HOLDER = """
            SELECT l.pid, coalesce(a.application_name, '')
            FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE %s
            """.formatted(isHeld("?", "?"));

    private SessionSql() {}

    /** The call of a lock function for a key of either space. */
    private static String ofKey(String function) {
        return "CASE WHEN space = 1 THEN %1$s(bits) ELSE %1$s((bits >> 32)::int, ((bits << 32) >> 32)::int) END"
                .formatted(function);
    }

    /** That the row {@code l} of {@code pg_locks} is a lock of this database that somebody holds on that key. */
    private static String isHeld(String space, String bits) {
        return """
                l.locktype = 'advisory' AND l.granted
                AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND l.objsubid = %s AND ((l.classid::bigint << 32) | l.objid::bigint) = %s""".formatted(space, bits);
    }
}
