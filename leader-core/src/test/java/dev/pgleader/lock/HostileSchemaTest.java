package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A role that may create in a schema of the path makes functions, operators, types and views of the names that our SQL has
 * (CVE-2018-1058 was of this kind); what it puts into them would run as the service's role.
 */
@Timeout(120)
@DisplayName("R01: whatever is in the path, our SQL means what PostgreSQL brings")
class HostileSchemaTest {

    private static final Class<?>[] SQL = {SessionSql.class, OneShotSql.class};
    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final LockKey KEY = LockKey.of(17, 4);
    private static final Settings SETTINGS = new Settings("prey", Duration.ofSeconds(20), Duration.ofSeconds(5), true);

    /** PostgreSQL looks into pg_catalog first, unless the path says otherwise. */
    private static final Map<String, String> PATHS =
            Map.of("hostile_first", "trap, pg_catalog", "hostile_better", "trap, public");

    private static final Map<String, HostileSchema> SCHEMAS = new LinkedHashMap<>();

    @BeforeAll
    static void setTraps() throws SQLException {
        for (Map.Entry<String, String> path : PATHS.entrySet()) {
            SCHEMAS.put(
                    path.getKey(),
                    HostileSchema.create(SERVER, path.getKey(), path.getValue(), HostileSchema.textsOf(SQL)));
        }
    }

    static Stream<String> databases() {
        return PATHS.keySet().stream();
    }

    private static HostileSchema schema(String database) {
        return Optional.ofNullable(SCHEMAS.get(database)).orElseThrow();
    }

    @ParameterizedTest
    @MethodSource("databases")
    void aSessionFallsIntoNoTrap(String database) throws Exception {
        assertThat(schema(database).traps()).isGreaterThan(500);
        long before = schema(database).fired();
        for (String mode : List.of("extended", "simple")) {
            Connection backend = connect(database, mode);
            LockSession session =
                    LockSession.open(ConnectionSource.of(TestDataSources.lending(() -> backend)), SETTINGS);
            assertThat(Sql.text(backend, "SHOW search_path")).isEqualTo("pg_catalog, pg_temp");
            assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
            session.release(List.of(KEY));
            // The path is set for what nobody foresaw: each statement must do without.
            Sql.execute(backend, "SET search_path = " + PATHS.get(database));
            for (PostgresLockSessionContract.Call call :
                    PostgresLockSessionContract.calls().values()) {
                call.on(session);
            }
            try (Connection other = SERVER.connect(database)) {
                Sql.execute(other, "SELECT pg_catalog.pg_advisory_lock(17, 4)");
                assertThat(session.attempt(List.of(KEY)).holders()).hasSize(1);
                assertThat(session.findHolders(List.of(KEY))).hasSize(1);
                assertThat(session.waitInQueue(KEY, Duration.ofMillis(20))).isFalse();
            }
            assertThat(session.tell(List.of("told"))).isTrue();
            session.close();
        }
        assertThat(schema(database).fired()).isEqualTo(before);
    }

    @ParameterizedTest
    @MethodSource("databases")
    void aSessionOfItsOwnConnectionFallsIntoNoTrap(String database) throws Exception {
        long before = schema(database).fired();
        LockSession session =
                LockSession.open(ConnectionSource.of(SERVER.url(database), HostileSchema.SERVICE, ""), SETTINGS);
        assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
        assertThat(session.check()).containsExactly(KEY);
        session.close();
        assertThat(schema(database).fired()).isEqualTo(before);
    }

    @ParameterizedTest
    @MethodSource("databases")
    void oneShotHelpersFallIntoNoTrap(String database) throws Exception {
        long before = schema(database).fired();
        AdvisoryLocks locks = AdvisoryLocks.on(fresh(database));
        assertThat(locks.tryRunLocked(KEY, connection -> connection.isValid(1)).wasRun())
                .isTrue();
        assertThat(locks.tryRunInTransaction(KEY, connection -> true).wasRun()).isTrue();
        try (HeldLock held = locks.acquire(KEY, Duration.ofSeconds(1))) {
            assertThat(catchThrowable(() -> locks.acquire(KEY, Duration.ofMillis(50))))
                    .isInstanceOf(LockTimeoutException.class)
                    .hasMessageContaining(Integer.toString(held.backendPid()));
        }
        assertThat(schema(database).fired()).isEqualTo(before);
    }

    @ParameterizedTest
    @MethodSource("databases")
    @DisplayName("and the traps would fire: each unqualified function of a statement falls into one")
    void unqualifiedCallsFallIntoTraps(String database) throws Exception {
        Map<String, String> planted = new LinkedHashMap<>();
        planted.put("pg_backend_pid", SessionSql.CHECK.replace("pg_catalog.pg_backend_pid", "pg_backend_pid"));
        planted.put("current_setting", SessionSql.CHECK.replace("pg_catalog.current_setting", "current_setting"));
        planted.put("<<", SessionSql.CHECK.replace("OPERATOR(pg_catalog.<<)", "<<"));
        planted.put("pg_locks", SessionSql.CHECK.replace("pg_catalog.pg_locks", "pg_locks"));
        planted.put("text", SessionSql.SERVER_RUN.replace("pg_catalog.text", "text"));
        planted.put("*", SessionSql.SERVER_RUN.replace("OPERATOR(pg_catalog.*)", "*"));
        List<String> fired = new ArrayList<>();
        for (Map.Entry<String, String> statement : planted.entrySet()) {
            long before = schema(database).fired();
            try (Connection connection = connect(database, "extended")) {
                // A lock for the statement to find.
                Sql.execute(connection, "SELECT pg_catalog.pg_advisory_lock(99)");
                Throwable failure = catchThrowable(() -> Sql.execute(connection, statement.getValue()));
                if (schema(database).fired() > before) {
                    assertThat(failure).hasMessageContaining("fired");
                    fired.add(statement.getKey());
                } else {
                    assertThat(failure).as(statement.getKey()).isNull();
                }
            }
        }
        // Behind pg_catalog only what fits better is found.
        if (database.equals("hostile_first")) {
            assertThat(fired).containsExactlyElementsOf(planted.keySet());
        } else {
            assertThat(fired).containsExactly("*");
        }
    }

    private static final Pattern UNQUALIFIED = Pattern.compile(
            // A function that is no word of the grammar.
            "(?<![.\\w])(?!(?:coalesce|extract|greatest|unnest_of|VALUES|OPERATOR|FROM|ANY|EXISTS|AND|OR|NOT|AS|IN|WHERE|SELECT"
                    + "|WITH|key|t|ON|ROWS FROM|JOIN|MATERIALIZED|THEN|bit)\\b)[A-Za-z_]\\w*\\s*\\("
                    // A cast to a type that isn't one.
                    + "|::(?!(?:int|bigint|boolean|bit)\\b|pg_catalog\\.)"
                    // An operator.
                    + "|(?<!OPERATOR\\(pg_catalog\\.)(?<![-+*/<>=~!@#%^&|])[-+*/<>=~!@#%^&|]+"
                    // A relation.
                    + "|(?<=FROM |JOIN )pg_\\w+(?![\\w.])"
                    // What PostgreSQL looks up by itself.
                    + "|\\b(?:nullif|NULLIF|USING|LIKE|BETWEEN|DISTINCT FROM)\\b");

    @Test
    void theTextsSayEachNameInFull() {
        for (String sql : HostileSchema.textsOf(SessionSql.class)) {
            assertThat(unqualified(sql)).as(sql).isEmpty();
        }
        assertThat(unqualified(SessionSql.CHECK.replace("pg_catalog.pg_backend_pid", "pg_backend_pid")))
                .contains("pg_backend_pid(");
        assertThat(unqualified(SessionSql.CHECK.replace("OPERATOR(pg_catalog.=)", "=")))
                .contains("=");
        assertThat(unqualified("SELECT 'x'::text")).contains("::");
        assertThat(unqualified("SELECT pid FROM pg_locks")).contains("pg_locks");
    }

    private static Optional<String> unqualified(String sql) {
        Matcher matcher = UNQUALIFIED.matcher(
                sql.replaceAll("'[^']*'", "''").replace("count(*)", "count()").replace(":=", ""));
        return matcher.find() ? Optional.of(matcher.group()) : Optional.empty();
    }

    private static Connection connect(String database, String mode) throws SQLException {
        return DriverManager.getConnection(
                SERVER.url(database, Map.of("user", HostileSchema.SERVICE, "preferQueryMode", mode)));
    }

    private static DataSource fresh(String database) {
        return TestDataSources.lending(() -> connect(database, "extended"));
    }
}
