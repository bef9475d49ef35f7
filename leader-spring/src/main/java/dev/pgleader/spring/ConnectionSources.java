package dev.pgleader.spring;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.Credentials;
import dev.pgleader.spring.LeaderProperties.DatasourceProperties;
import java.util.Objects;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.jdbc.autoconfigure.JdbcConnectionDetails;

/** Chooses where the connection that holds the locks comes from. */
final class ConnectionSources {

    private static final Logger LOG = LoggerFactory.getLogger(ConnectionSources.class);
    private static final String DRIVER = "jdbc:postgresql:";
    private static final String SET_URL =
            "Set pgleader.datasource.url to the JDBC URL of the PostgreSQL that has the lock,"
                    + " for instance jdbc:postgresql://db:5432/app; pgleader.datasource.username and"
                    + " pgleader.datasource.password too, unless they are those of spring.datasource. ";

    private ConnectionSources() {}

    static ConnectionSource choose(
            DatasourceProperties configured,
            ObjectProvider<JdbcConnectionDetails> applicationDetails,
            ObjectProvider<DataSource> applicationDataSources) {
        JdbcConnectionDetails details = applicationDetails.getIfUnique();
        String url = configured.url();
        if (url != null) {
            return direct("pgleader.datasource.url", url, credentials(configured, details));
        }
        if (details != null && details.getJdbcUrl().startsWith(DRIVER)) {
            return direct("spring.datasource.url", details.getJdbcUrl(), credentials(configured, details));
        }
        DataSource dataSource = applicationDataSources.getIfUnique();
        if (dataSource != null && (details == null || details.getJdbcUrl().contains(":postgresql:"))) {
            return pooled(dataSource);
        }
        if (details != null) {
            throw new LeaderConfigurationException(
                    "The lock needs a PostgreSQL, and the URL of the application's database doesn't begin with "
                            + DRIVER + ".",
                    SET_URL
                            + "In a test without a PostgreSQL, take @AutoConfigureTestLeader or pgleader.enabled=false.");
        }
        boolean none = applicationDataSources.stream().findAny().isEmpty();
        throw new LeaderConfigurationException(
                none
                        ? "The lock needs a PostgreSQL, and the application has no database."
                        : "The application has several DataSource beans, and none of them is primary, so it isn't known"
                                + " which of them has the lock.",
                SET_URL + (none ? "Or set spring.datasource.url." : "Or make one of the beans @Primary."));
    }

    private static ConnectionSource direct(String property, String url, @Nullable Supplier<Credentials> credentials) {
        try {
            return credentials == null ? ConnectionSource.of(url) : ConnectionSource.of(url, credentials);
        } catch (IllegalArgumentException e) {
            // Without the URL itself: it may hold a password.
            throw new LeaderConfigurationException(
                    "The value of " + property + " can't be used: " + e.getMessage(), SET_URL, e);
        }
    }

    /** Null if nobody tells a user: then the URL does, or the driver's own files. */
    private static @Nullable Supplier<Credentials> credentials(
            DatasourceProperties configured, @Nullable JdbcConnectionDetails details) {
        if (configured.username() != null || configured.password() != null) {
            return () -> new Credentials(
                    firstOf(configured.username(), details == null ? null : details.getUsername()),
                    firstOf(configured.password(), details == null ? null : details.getPassword()));
        }
        if (details == null || details.getUsername() == null) {
            return null;
        }
        return () -> new Credentials(firstOf(details.getUsername(), null), firstOf(details.getPassword(), null));
    }

    private static String firstOf(@Nullable String first, @Nullable String second) {
        return Objects.requireNonNullElse(first, Objects.requireNonNullElse(second, ""));
    }

    private static ConnectionSource pooled(DataSource dataSource) {
        LOG.info(
                "The lock is held on a connection of the DataSource bean {}, since it isn't known how else to connect: if"
                        + " that is a pool, one of its connections is in use all the time (a leak detector may report it),"
                        + " and the loss of the session is noticed some 100 ms later. Set pgleader.datasource.url for a"
                        + " connection of its own.",
                dataSource.getClass().getName());
        return ConnectionSource.of(dataSource);
    }
}
