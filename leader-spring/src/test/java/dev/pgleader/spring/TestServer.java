package dev.pgleader.spring;

import dev.pgleader.lock.LockKey;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** The PostgreSQL that all tests of this JVM share; each takes keys, or a database, of its own. */
final class TestServer {

    static final String USER = "postgres";
    private static final AtomicInteger UNIQUE = new AtomicInteger();

    private static final EmbeddedPostgres SERVER;

    static {
        try {
            SERVER = EmbeddedPostgres.builder()
                    .setServerConfig("fsync", "off")
                    .setServerConfig("max_connections", "200")
                    .start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private TestServer() {}

    static String uniqueName(String prefix) {
        return prefix + "_" + UNIQUE.incrementAndGet();
    }

    static String url() {
        return url("postgres");
    }

    static String url(String database) {
        return "jdbc:postgresql://localhost:" + SERVER.getPort() + "/" + database;
    }

    /** What an application is configured with, and that it needn't wait for a lease of before the server's start. */
    static String[] properties(String... more) {
        List<String> all = new ArrayList<>(List.of(
                "spring.datasource.url=" + url(),
                "spring.datasource.username=" + USER,
                "spring.datasource.password=",
                "spring.datasource.hikari.minimum-idle=0",
                "pgleader.takeover-delay=none",
                "pgleader.retry-interval=100ms"));
        all.addAll(List.of(more));
        return all.toArray(String[]::new);
    }

    static void createDatabase(String name) {
        execute("CREATE DATABASE " + name);
    }

    /** Has the database refuse everybody, as if it were down. */
    static void shut(String database) {
        execute("ALTER DATABASE " + database + " ALLOW_CONNECTIONS false");
        query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + database + "'");
    }

    static void open(String database) {
        execute("ALTER DATABASE " + database + " ALLOW_CONNECTIONS true");
    }

    /** The backends that hold the lock, in any database. */
    static List<Integer> holders(String key) {
        return query("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
                        + " AND ((classid::bigint << 32) | objid::bigint) = "
                        + LockKey.named(key).toString().substring("bigint:".length()))
                .stream()
                .map(Integer::valueOf)
                .toList();
    }

    /** The backends of the lock sessions of an instance. */
    static List<Integer> sessions(String instanceId) {
        return query("SELECT pid FROM pg_stat_activity WHERE application_name = 'pg-leader/" + instanceId + "'")
                .stream()
                .map(Integer::valueOf)
                .toList();
    }

    static void execute(String sql) {
        try (Connection connection = DriverManager.getConnection(url(), USER, "");
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    static List<String> query(String sql) {
        try (Connection connection = DriverManager.getConnection(url(), USER, "");
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            List<String> values = new ArrayList<>();
            while (rows.next()) {
                values.add(rows.getString(1));
            }
            return values;
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }
}
