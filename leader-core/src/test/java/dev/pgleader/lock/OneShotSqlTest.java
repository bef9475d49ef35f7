package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OneShotSqlTest {

    private static final LockKey KEY = LockKey.named("one-shot-sql-test");
    private static final List<String> STATEMENTS = List.of(
            OneShotSql.CHECK,
            OneShotSql.TRY_FOR_SESSION,
            OneShotSql.TRY_FOR_TRANSACTION,
            OneShotSql.UNLOCK,
            OneShotSql.HOLDER,
            OneShotSql.VERSION,
            OneShotSql.SET_DEFAULT_ISOLATION);

    private static final String TRAPS = """
            CREATE SCHEMA trap;
            DO $$
            DECLARE it record; body text := 'AS ''BEGIN RAISE EXCEPTION ''''trapped''''; END'' LANGUAGE plpgsql';
            BEGIN
              FOR it IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments,
                               format_type(p.prorettype, NULL) AS result
                  FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
                    AND p.proname = ANY (string_to_array('%s', ' '))
                    AND NOT p.proretset AND NOT EXISTS (
                      SELECT FROM unnest(p.proargtypes::oid[] || p.prorettype) AS t(id) JOIN pg_type ON pg_type.oid = t.id
                      WHERE pg_type.typtype = 'p') LOOP
                EXECUTE format('CREATE FUNCTION trap.%%I(%%s) RETURNS %%s %%s', it.proname, it.arguments, it.result, body);
              END LOOP;
              FOR it IN SELECT DISTINCT o.oprname, format_type(o.oprleft, NULL) AS l, format_type(o.oprright, NULL) AS r,
                               format_type(o.oprresult, NULL) AS result, row_number() OVER () AS n
                  FROM pg_operator o WHERE o.oprkind = 'b'
                    AND o.oprname = ANY (string_to_array('%s', ' '))
                    AND NOT EXISTS (SELECT FROM pg_type WHERE oid IN (o.oprleft, o.oprright, o.oprresult) AND typtype = 'p')
                  LOOP
                EXECUTE format('CREATE FUNCTION trap.op%%s(%%s, %%s) RETURNS %%s %%s', it.n, it.l, it.r, it.result, body);
                EXECUTE format('CREATE OPERATOR trap.%%s (FUNCTION = trap.op%%s, LEFTARG = %%s, RIGHTARG = %%s)',
                               it.oprname, it.n, it.l, it.r);
              END LOOP;
            END $$;
            CREATE VIEW trap.pg_locks AS SELECT 1 AS pid WHERE false;
            CREATE VIEW trap.pg_stat_activity AS SELECT 1 AS pid WHERE false;
            CREATE VIEW trap.pg_database AS SELECT 1 AS oid WHERE false;
            CREATE VIEW trap.pg_prepared_xacts AS SELECT 1 AS oid WHERE false;
            CREATE DOMAIN trap.text AS pg_catalog.text CHECK (false);
            CREATE DOMAIN trap.int8 AS pg_catalog.int8 CHECK (false);
            CREATE DOMAIN trap.int4 AS pg_catalog.int4 CHECK (false);
            """;

    /** What the statements name, qualified or not. */
    private static Set<String> found(String pattern) {
        return STATEMENTS.stream()
                .flatMap(sql -> Pattern.compile(pattern).matcher(sql).results().map(MatchResult::group))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    @DisplayName("R01: no trap fires that stands in the path of the session before pg_catalog")
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void traps(boolean simple) throws Exception {
        try (PostgresServer server = PostgresServer.launch();
                LockTable held = new LockTable(server, PostgresServer.DEFAULT_DATABASE)) {
            Set<String> functions = found("[a-z_0-9]+(?=\\()");
            Set<String> operators = found("(?:[-+*/<>=~!@#%^&|`?]|OPERATOR\\(pg_catalog\\.)+");
            Set<String> symbols = new TreeSet<>();
            operators.forEach(operator ->
                    symbols.add(operator.replace("OPERATOR(pg_catalog.", "").replace("?", "")));
            symbols.remove("");
            assertThat(functions).contains("pg_try_advisory_lock", "current_setting", "set_config", "count");
            assertThat(symbols).contains("=", "<<", ">>", "|", "+");
            server.execute(TRAPS.formatted(String.join(" ", functions), String.join(" ", symbols)));
            try (HikariDataSource pool = TestDataSources.hikari(server, 2, config -> {
                config.setConnectionInitSql("SET search_path = trap, pg_catalog");
                if (simple) {
                    config.addDataSourceProperty("preferQueryMode", "simple");
                }
            })) {
                assertThatExceptionOfType(SQLException.class)
                        .as("the traps are set")
                        .isThrownBy(() -> {
                            try (Connection connection = pool.getConnection()) {
                                Sql.column(connection, "select 1 = 1, pg_backend_pid()");
                            }
                        })
                        .withMessageContaining("trapped");
                AdvisoryLocks locks = AdvisoryLocks.on(pool);
                assertThat(locks.tryRunInTransaction(KEY, connection -> true).wasRun())
                        .isTrue();
                try (HeldLock lock = locks.acquire(KEY, Duration.ZERO)) {
                    assertThat(lock.isHeld()).isTrue();
                    assertThatExceptionOfType(LockTimeoutException.class)
                            .isThrownBy(() -> locks.acquire(KEY, Duration.ZERO))
                            .satisfies(
                                    timeout -> assertThat(timeout.holderPid()).hasValue(lock.backendPid()));
                    assertThat(locks.tryRunLocked(LockKey.of(1, 2), connection -> {
                                        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                                        return true;
                                    })
                                    .wasRun())
                            .isTrue();
                }
                assertThat(held.holders(KEY)).isEmpty();
            }
        }
    }

    @DisplayName("R01: each function, operator and table is qualified, as the text shows")
    @Test
    void everythingIsQualified() {
        for (String sql : STATEMENTS) {
            String rest = sql.replaceAll("OPERATOR\\(pg_catalog\\.[^)]+\\)", "OP")
                    .replaceAll("'[^']*'", "''")
                    .replace("(*)", "()");
            assertThat(rest).doesNotContainPattern("[-+*/<>=~!@#%^&|]");
            assertThat(rest)
                    .doesNotContainPattern(
                            "(?<![.a-z_])pg_(?!catalog\\.)\\w+|\\bUSING\\b|\\bIN\\b|\\bBETWEEN\\b|\\bLIKE\\b");
            assertThat(rest)
                    .doesNotContainPattern(
                            "(?<![.\\w])(?!OP\\b|EXISTS\\b|AS\\b|JOIN\\b|AND\\b|NOT\\b|MATERIALIZED\\b)" + "\\w+\\(");
        }
    }

    @DisplayName("R07: a server that grants without locking is refused, by either form, and says what it is")
    @Test
    void grantWithoutALock() throws Exception {
        try (PostgresServer server = PostgresServer.launch()) {
            for (String function : List.of("pg_try_advisory_lock", "pg_try_advisory_xact_lock")) {
                server.execute("create or replace function pg_catalog." + function
                        + "(bigint) returns boolean language sql as 'select true'");
            }
            server.execute("create or replace function pg_catalog.version() returns text language sql"
                    + " as $$ select 'CockroachDB CCL v25.2.1'::text $$");
            AdvisoryLocks locks = AdvisoryLocks.on(server.dataSource());

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> locks.tryRunLocked(KEY, connection -> true))
                    .withMessageContaining("its pg_locks shows no such lock")
                    .withMessageContaining("CockroachDB CCL v25.2.1")
                    .withMessageContaining("use PostgreSQL itself");
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> locks.tryRunInTransaction(KEY, connection -> true))
                    .withMessageContaining("its pg_locks shows no such lock");
        }
    }
}
