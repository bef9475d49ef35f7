package dev.pgleader;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.awaitility.Awaitility;

/** What the sessions of some roles cost their server, by the server's own statistics. Needs PostgreSQL 18 on Linux. */
final class ServerCost implements AutoCloseable {

    /**
     * The cost of one role's sessions, or of all of them, in a time.
     *
     * @param walBytes what the sessions themselves wrote
     * @param cpuNanos how long their backends ran
     */
    record Cost(Duration time, long statements, long walBytes, long cpuNanos) {

        double statementsPerSecond() {
            return perSecond((double) statements);
        }

        double cpuMillisPerSecond() {
            return perSecond(cpuNanos / 1e6);
        }

        private double perSecond(double amount) {
            return amount / (time.toNanos() / 1e9);
        }
    }

    private final Connection observer;
    private final List<String> roles;

    private ServerCost(Connection observer, List<String> roles) {
        this.observer = observer;
        this.roles = roles;
    }

    /** A server that keeps account of its statements, and makes room for so many sessions and locks. */
    static PostgresServer launchServer(int connections, int locks) throws SQLException {
        PostgresServer server = PostgresServer.builder()
                .setting("shared_preload_libraries", "pg_stat_statements")
                .setting("max_connections", Integer.toString(connections))
                .setting("max_locks_per_transaction", Integer.toString(Math.max(64, locks / connections)))
                .launch();
        try {
            server.execute("CREATE EXTENSION pg_stat_statements");
            return server;
        } catch (SQLException | RuntimeException e) {
            server.close();
            throw e;
        }
    }

    /** Creates the roles, whose sessions are to be told apart from all others. */
    static ServerCost of(PostgresServer server, String... roles) throws SQLException {
        for (String role : roles) {
            server.createRole(role, role);
        }
        return new ServerCost(server.connect(), List.of(roles));
    }

    static ConnectionSource as(String role, PostgresServer server) {
        return ConnectionSource.of(server.url(PostgresServer.DEFAULT_DATABASE), role, role);
    }

    /** Returns the cost by role of what happens while the work runs. Sessions have to outlast it. */
    Map<String, Cost> during(Runnable work) throws SQLException, IOException {
        Map<String, List<Long>> before = walAndCpu();
        Sql.execute(observer, "SELECT pg_stat_statements_reset()");
        long start = System.nanoTime();
        work.run();
        Duration time = Duration.ofNanos(System.nanoTime() - start);
        Map<String, Cost> costs = new TreeMap<>();
        for (String role : roles) {
            long statements = number("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s" + " WHERE s.userid = '"
                    + role + "'::regrole");
            costs.put(role, new Cost(time, statements, 0, 0));
        }
        Map<String, List<Long>> after = walAndCpu();
        costs.replaceAll((role, cost) -> new Cost(
                time,
                cost.statements(),
                after.get(role).get(0) - before.get(role).get(0),
                after.get(role).get(1) - before.get(role).get(1)));
        return costs;
    }

    /** Returns the cost of a time in which nothing is done but what the sessions do by themselves. */
    Map<String, Cost> during(Duration time) throws SQLException, IOException {
        long start = System.nanoTime();
        return during(() -> Awaitility.await()
                .atMost(time.plusMinutes(1))
                .until(() -> System.nanoTime() - start >= time.toNanos()));
    }

    /** Prints which statements the roles have executed since the measurement began, by how they begin. */
    void printStatements() throws SQLException {
        MarkdownTable table = new MarkdownTable("role", "calls", "texts", "statement");
        try (Statement statement = observer.createStatement();
                ResultSet rows = statement.executeQuery("""
                        SELECT userid::regrole, sum(calls), count(*),
                               left(regexp_replace(query, '\\s+', ' ', 'g'), 50) AS beginning
                        FROM pg_stat_statements WHERE userid::regrole::text = ANY ('{%s}')
                        GROUP BY userid, beginning ORDER BY 1, 2 DESC
                        """.formatted(String.join(",", roles)))) {
            while (rows.next()) {
                table.row(rows.getString(1), rows.getLong(2), rows.getLong(3), "`" + rows.getString(4) + "`");
            }
        }
        table.print();
    }

    /** How many rows the database's sessions have written since it was created. */
    long rowsWritten() throws SQLException {
        return number("SELECT tup_inserted + tup_updated + tup_deleted FROM pg_stat_database"
                + " WHERE datname = current_database()");
    }

    /** How many bytes of WAL the server has written, with what it writes by itself. */
    long walBytesOfServer() throws SQLException {
        return number("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')");
    }

    int connections() throws SQLException {
        return pids().values().stream().mapToInt(List::size).sum();
    }

    private Map<String, List<Long>> walAndCpu() throws SQLException, IOException {
        Map<String, List<Long>> sums = new TreeMap<>();
        for (Map.Entry<String, List<Long>> role : pids().entrySet()) {
            long wal = 0;
            long cpu = 0;
            for (long pid : role.getValue()) {
                wal += number("SELECT wal_bytes FROM pg_stat_get_backend_wal(" + pid + ")");
                cpu += cpuNanos(pid);
            }
            sums.put(role.getKey(), List.of(wal, cpu));
        }
        return sums;
    }

    private Map<String, List<Long>> pids() throws SQLException {
        Map<String, List<Long>> pids = new TreeMap<>();
        roles.forEach(role -> pids.put(role, new ArrayList<>()));
        try (Statement statement = observer.createStatement();
                ResultSet rows = statement.executeQuery("SELECT usename, pid FROM pg_stat_activity"
                        + " WHERE usename = ANY ('{" + String.join(",", roles) + "}')")) {
            while (rows.next()) {
                pids.get(rows.getString(1)).add(rows.getLong(2));
            }
        }
        return pids;
    }

    /** The first number is how long the process has run; /proc/PID/stat has the same, but in steps of 10 ms. */
    private static long cpuNanos(long pid) throws IOException {
        String times = Files.readString(Path.of("/proc", Long.toString(pid), "schedstat"));
        return Long.parseLong(times.substring(0, times.indexOf(' ')));
    }

    private long number(String sql) throws SQLException {
        return Long.parseLong(String.valueOf(Sql.text(observer, sql)));
    }

    @Override
    public void close() throws SQLException {
        observer.close();
    }
}
