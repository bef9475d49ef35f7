package dev.pgleader.example.service;

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

/** A database of one test class, on the PostgreSQL that all of them share. */
record ServiceDatabase(String url) {

    static final String USER = "postgres";

    private static final EmbeddedPostgres SERVER;

    static {
        try {
            SERVER = EmbeddedPostgres.builder()
                    .setServerConfig("fsync", "off")
                    .setServerConfig("max_connections", "60")
                    .start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String url(String name) {
        return "jdbc:postgresql://localhost:" + SERVER.getPort() + "/" + name;
    }

    static ServiceDatabase create(String name) {
        new ServiceDatabase(url("postgres")).execute("CREATE DATABASE " + name);
        return new ServiceDatabase(url(name));
    }

    Connection connect() throws SQLException {
        return DriverManager.getConnection(url, USER, "");
    }

    void execute(String sql) {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The first column of all rows. */
    List<String> query(String sql) {
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            List<String> values = new ArrayList<>();
            while (rows.next()) {
                values.add(String.valueOf(rows.getString(1)));
            }
            return values;
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The backends that hold the key. */
    List<String> holders(LockKey key) {
        return query("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
                + " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                + " AND 'bigint:' || ((classid::bigint << 32) | objid::bigint) = '" + key + "'");
    }

    /** What an instance needs to work on this database, and to be quick about it. */
    List<String> arguments() {
        return List.of(
                "--spring.datasource.url=" + url,
                "--spring.datasource.username=" + USER,
                "--spring.datasource.password=",
                "--spring.datasource.hikari.minimum-idle=0",
                // The server is younger than a lease; nobody can have led on it before.
                "--pgleader.takeover-delay=none",
                "--pgleader.retry-interval=100ms",
                "--orders.relay-pause=50ms",
                "--server.port=0",
                "--management.server.port=0");
    }
}
