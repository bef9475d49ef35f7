package dev.pgleader.lock;

import java.sql.SQLException;
import java.time.Duration;
import java.util.Objects;
import javax.sql.DataSource;

/** Connections that a {@link DataSource} of the application's hands out. */
final class DataSourceConnectionSource extends ConnectionSource {

    private final DataSource dataSource;

    DataSourceConnectionSource(DataSource dataSource) {
        this.dataSource = Objects.requireNonNull(dataSource, "dataSource");
    }

    @Override
    SessionConnection open(Duration networkTimeout) throws SQLException {
        return new PolledConnection(LentConnection.borrow(dataSource));
    }

    @Override
    public String toString() {
        return "DataSource " + dataSource.getClass().getName();
    }
}
