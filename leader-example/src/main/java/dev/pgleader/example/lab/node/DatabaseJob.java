package dev.pgleader.example.lab.node;

import dev.pgleader.lock.AdvisoryLocks;
import dev.pgleader.lock.LockKey;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import org.postgresql.ds.PGSimpleDataSource;

/** The job that only writes to the database. It's in a transaction lock, and so needs no fencing token. */
final class DatabaseJob {

    private static final LockKey KEY = LockKey.of(LabDatabase.ENTRIES_KEY);

    private final String node;
    private final Duration duration;
    private final AdvisoryLocks locks;
    private final ReportWriter reports;

    DatabaseJob(NodeConfiguration configuration, ReportWriter reports) {
        this.node = configuration.name();
        this.duration = configuration.settings().job();
        this.reports = reports;
        Duration patience = configuration.settings().lease();
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(LabDatabase.url(configuration.databasePort()));
        dataSource.setUser(LabDatabase.NAME);
        dataSource.setApplicationName("lab-entries/" + node);
        // A process that is stopped, or cut off, must not keep its transaction, and with it the lock, for ever.
        dataSource.setOptions("-c idle_in_transaction_session_timeout=" + patience.toMillis());
        int patienceSeconds = Math.toIntExact(patience.plusMillis(999).toSeconds());
        dataSource.setConnectTimeout(patienceSeconds);
        dataSource.setSocketTimeout(patienceSeconds);
        this.locks = AdvisoryLocks.on(dataSource, patience);
    }

    void run(long number) {
        try {
            locks.runInTransaction(KEY, duration, connection -> {
                long id = begin(connection);
                Work.take(duration);
                end(connection, id);
                return id;
            });
            reports.report(new NodeReport.EntryCommitted(number));
        } catch (SQLException e) {
            reports.report(new NodeReport.EntryRefused(number, String.valueOf(e.getMessage())));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            reports.report(new NodeReport.EntryRefused(number, "interrupted"));
        }
    }

    private long begin(Connection connection) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement(
                "INSERT INTO " + LabDatabase.ENTRIES + " (node, began) VALUES (?, clock_timestamp()) RETURNING id")) {
            insert.setString(1, node);
            try (var id = insert.executeQuery()) {
                id.next();
                return id.getLong(1);
            }
        }
    }

    private static void end(Connection connection, long id) throws SQLException {
        try (PreparedStatement update = connection.prepareStatement(
                "UPDATE " + LabDatabase.ENTRIES + " SET ended = clock_timestamp() WHERE id = ?")) {
            update.setLong(1, id);
            update.executeUpdate();
        }
    }
}
