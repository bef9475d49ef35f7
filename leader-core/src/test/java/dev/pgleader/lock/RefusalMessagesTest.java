package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PgBouncer;
import dev.pgleader.testkit.PgBouncer.PoolMode;
import dev.pgleader.testkit.Pgpool;
import dev.pgleader.testkit.Pgpool.Clustering;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.SQLException;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.event.Level;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.datasource.TransactionAwareDataSourceProxy;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * N05, N19: each refusal says what to do, and docs/pools.md quotes it. Whoever changes a message changes the page, and the
 * other way round.
 */
@Timeout(300)
class RefusalMessagesTest {

    private static final LockKey KEY = LockKey.named("refusal-messages-test");
    private static final Settings SETTINGS =
            new Settings("refused", Duration.ofSeconds(20), Duration.ofSeconds(15), true);
    private static final Pattern ROW = Pattern.compile("^\\| `([^`]{60,})` \\|", Pattern.MULTILINE);

    /** What the page abbreviates, as `<name>` stands for `words`. */
    private static final Pattern ABBREVIATION = Pattern.compile("`(<[a-z]+>)`(?: stands)? for\\s+`([^`]+)`");

    private static String page;

    /** What was said. */
    private final Set<String> said = new LinkedHashSet<>();

    @BeforeAll
    static void read() throws Exception {
        page = writtenOut(Files.readString(Path.of("..", "docs", "pools.md")));
    }

    private static String writtenOut(String text) {
        String written = text;
        for (MatchResult found : ABBREVIATION.matcher(text).results().toList()) {
            written = written.replace(found.group(1), found.group(2));
        }
        return written;
    }

    /** The messages that a section of the page quotes. */
    private static List<String> quoted(String heading) {
        String section = page.split("(?m)^## " + heading + "$", 2)[1].split("(?m)^## ", 2)[0];
        return ROW.matcher(section).results().map(row -> row.group(1)).toList();
    }

    private static boolean isQuotedBy(String row, String message) {
        String pattern =
                Stream.of(row.split("<[a-z]+>", -1)).map(Pattern::quote).collect(Collectors.joining(".+"));
        return Pattern.matches("(?s)" + pattern, message);
    }

    private void assertSaidAsQuoted(String heading) {
        List<String> rows = quoted(heading);
        for (String message : said) {
            assertThat(rows).as("rows of docs/pools.md").anyMatch(row -> isQuotedBy(row, message));
        }
        for (String row : rows) {
            assertThat(said).as("messages").anyMatch(message -> isQuotedBy(row, message));
        }
    }

    private void refused(ThrowingCallable attempt) {
        Throwable refusal = catchThrowable(attempt);
        assertThat(refusal).isInstanceOfAny(SQLException.class, LockSessionException.class);
        said.add(String.valueOf(refusal.getMessage()));
    }

    private void helperRefused(DataSource dataSource) {
        refused(() -> AdvisoryLocks.on(dataSource).tryRunLocked(KEY, connection -> true));
    }

    private void sessionRefused(ConnectionSource source) {
        refused(() -> LockSession.open(source, SETTINGS));
    }

    @Test
    @DisplayName("Each refusal without a pooler is said as docs/pools.md says, and it quotes no other")
    void withoutPooler() throws Exception {
        try (PostgresServer server = PostgresServer.launch();
                HikariDataSource pool = TestDataSources.hikari(server, 3)) {
            helperRefused(connectionsOf(pool, "unwrap", null));
            try (Connection only = server.dataSource().getConnection()) {
                helperRefused(new SingleConnectionDataSource(only, true));
                DataSource careless = TestDataSources.careless(() -> only);
                HeldLock lock = AdvisoryLocks.on(careless).acquire(KEY, Duration.ZERO);
                helperRefused(careless);
                lock.close();
            }
            new TransactionTemplate(new DataSourceTransactionManager(pool))
                    .executeWithoutResult(status -> helperRefused(new TransactionAwareDataSourceProxy(pool)));
            helperRefused(leaving(server, "begin"));
            helperRefused(leaving(server, "select pg_advisory_lock(" + KEY.bits() + ")"));
            sessionRefused(ConnectionSource.of(leaving(server, "select pg_advisory_lock(4711)")));
            sessionRefused(
                    ConnectionSource.of(leaving(server, "select set_config('pgleader.session', 'mine', false)")));
            try (Connection connection = server.dataSource().getConnection()) {
                DatabaseMetaData old =
                        changed(DatabaseMetaData.class, connection.getMetaData(), "getDatabaseMajorVersion", 13);
                sessionRefused(ConnectionSource.of(connectionsOf(pool, "getMetaData", old)));
            }
            sessionRefused(ConnectionSource.of(leaving(server, "set default_transaction_read_only = on")));
            server.execute("create role full_up login connection limit 0");
            sessionRefused(ConnectionSource.of(server.url(PostgresServer.DEFAULT_DATABASE, Map.of("user", "full_up"))));
            said.add(warningOfRouting(pool));

            for (String function : List.of("pg_try_advisory_lock", "pg_try_advisory_xact_lock")) {
                server.execute("create or replace function pg_catalog." + function
                        + "(bigint) returns boolean language sql as 'select true'");
            }
            helperRefused(pool);
            sessionRefused(ConnectionSource.of(server.loginUrl(PostgresServer.DEFAULT_DATABASE)));
        }
        try (PostgresServer primary = PostgresServer.launch();
                PostgresServer standby = primary.standby()) {
            sessionRefused(ConnectionSource.of(
                    standby.url(PostgresServer.DEFAULT_DATABASE), standby.superuser(), standby.superuserPassword()));
        }
        assertSaidAsQuoted("What is refused, and what to do");
    }

    @Test
    @DisplayName("Each refusal of a pooler is said as docs/pools.md says, and it quotes no other")
    void poolers() throws Exception {
        assumeTrue(PgBouncer.available(), PgBouncer.MISSING);
        assumeTrue(Pgpool.available(), Pgpool.MISSING);
        try (PostgresServer primary = PostgresServer.launch();
                PostgresServer standby = primary.standby();
                PgBouncer sharing = PgBouncer.before(primary)
                        .poolMode(PoolMode.TRANSACTION)
                        .poolSize(1)
                        .launch();
                Pgpool spreading = Pgpool.before(primary, standby)
                        .clustering(Clustering.STREAMING_REPLICATION)
                        .setting("backend_weight0", "0")
                        .launch()) {
            sessionRefused(ConnectionSource.of(sharing.url("postgres"), primary.superuser(), ""));
            sessionRefused(ConnectionSource.of(spreading.url("postgres"), primary.superuser(), ""));
            try (PgBouncer narrow = PgBouncer.before(primary)
                    .poolMode(PoolMode.SESSION)
                    .poolSize(1)
                    .launch()) {
                Settings impatient = new Settings("narrow", Duration.ofSeconds(20), Duration.ofSeconds(2), true);
                refused(() -> LockSession.open(
                        ConnectionSource.of(narrow.url("postgres"), primary.superuser(), ""), impatient));
            }
        }
        assertSaidAsQuoted("Poolers");
    }

    @Test
    @DisplayName("A message that the page doesn't quote to the letter is found")
    void otherWordsAreFound() {
        String row = "Two connections to <address> share one backend: stop";
        assertThat(isQuotedBy(row, "Two connections to jdbc:postgresql://a/b share one backend: stop"))
                .isTrue();
        assertThat(isQuotedBy(row, "Two connections to jdbc:postgresql://a/b share one backend: go on"))
                .isFalse();
        assertThat(quoted("Poolers")).isNotEmpty().noneMatch(message -> message.contains("<direct>"));
    }

    /** A DataSource whose connection had this executed before it is lent. */
    private static DataSource leaving(PostgresServer server, String sql) {
        DataSource inner = server.dataSource();
        return new DelegatingDataSource(inner) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = inner.getConnection();
                Sql.execute(connection, sql);
                return connection;
            }
        };
    }

    /** A DataSource of whose connections one method returns something else. */
    private static DataSource connectionsOf(DataSource inner, String method, @Nullable Object result) {
        return new DelegatingDataSource(inner) {
            @Override
            public Connection getConnection() throws SQLException {
                return changed(Connection.class, inner.getConnection(), method, result);
            }
        };
    }

    private static <T> T changed(Class<T> type, T original, String changed, @Nullable Object result) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(),
                new Class<?>[] {type},
                (proxy, method, arguments) ->
                        method.getName().equals(changed) ? result : method.invoke(original, arguments)));
    }

    private static String warningOfRouting(DataSource inner) throws SQLException {
        try (LogCapture log = LogCapture.of(Sharing.class, Level.WARN)) {
            AdvisoryLocks.on(Lender.routing(inner)).tryRunLocked(KEY, connection -> true);
            return log.events().get(0).message();
        }
    }
}
