package dev.pgleader.spring;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.Credentials;
import dev.pgleader.spring.LeaderProperties.DatasourceProperties;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.boot.jdbc.DataSourceUnwrapper;
import org.springframework.boot.jdbc.autoconfigure.JdbcConnectionDetails;
import org.springframework.jdbc.datasource.AbstractDriverBasedDataSource;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.datasource.lookup.AbstractRoutingDataSource;
import org.springframework.util.ClassUtils;

/**
 * Chooses where the connection that holds the locks comes from: it goes the application's road, under all conditions that are set there.
 * Where those can't be known, it is borrowed from the application's pool.
 */
final class ConnectionSources {

    private static final Logger LOG = LoggerFactory.getLogger(ConnectionSources.class);
    private static final String DRIVER = "jdbc:postgresql:";
    private static final String SET_URL =
            "Set pgleader.datasource.url to the JDBC URL of the PostgreSQL that has the lock,"
                    + " for instance jdbc:postgresql://db:5432/app; pgleader.datasource.username and"
                    + " pgleader.datasource.password too, unless they are those of spring.datasource. ";

    /** Where an application goes, and under which conditions. */
    private record Road(String url, Properties driverProperties, Supplier<Credentials> credentials) {}

    private final DatasourceProperties configured;
    private final @Nullable JdbcConnectionDetails details;
    private final ListableBeanFactory beanFactory;

    ConnectionSources(
            DatasourceProperties configured, @Nullable JdbcConnectionDetails details, ListableBeanFactory beanFactory) {
        this.configured = configured;
        this.details = details;
        this.beanFactory = beanFactory;
    }

    ConnectionSource choose() {
        String url = configured.url();
        if (url != null) {
            return direct(
                    "pgleader.datasource.url", url, new Properties(), configuredOr(detailsCredentials()), "as it says");
        }
        Map<String, DataSource> beans = beanFactory.getBeansOfType(DataSource.class);
        String named = configured.bean();
        if (named != null && !beans.containsKey(named)) {
            throw new LeaderConfigurationException(
                    "pgleader.datasource.bean is \"" + named + "\", and there is no such DataSource bean among "
                            + String.join(", ", beans.keySet()) + ".",
                    "Set it to one of them.");
        }
        DataSource dataSource = named != null
                ? beans.get(named)
                : beanFactory.getBeanProvider(DataSource.class).getIfUnique();
        if (dataSource != null) {
            return of(dataSource, named == null ? nameOf(dataSource, beans) : named);
        }
        if (beans.isEmpty() && details != null) {
            requirePostgres(details.getJdbcUrl());
            return direct(
                    "spring.datasource.url",
                    details.getJdbcUrl(),
                    new Properties(),
                    configuredOr(detailsCredentials()),
                    "there is no DataSource bean");
        }
        throw beans.isEmpty()
                ? new LeaderConfigurationException(
                        "The lock needs a PostgreSQL, and the application has no database.",
                        SET_URL + "Or set spring.datasource.url.")
                : new LeaderConfigurationException(
                        "The application has several DataSource beans, " + String.join(", ", beans.keySet())
                                + ", and none of them is primary, so it isn't known which of them has the lock.",
                        "Set pgleader.datasource.bean to the name of one of them, or make one of them @Primary. Or: "
                                + SET_URL);
    }

    private static String nameOf(DataSource dataSource, Map<String, DataSource> beans) {
        return beans.entrySet().stream()
                .filter(entry -> entry.getValue() == dataSource)
                .map(Map.Entry::getKey)
                .findFirst()
                .orElse(dataSource.getClass().getName());
    }

    private ConnectionSource of(DataSource dataSource, String bean) {
        refuseWhatIsNoRoad(dataSource, bean);
        Road road = road(dataSource);
        if (road == null) {
            if (details != null && !details.getJdbcUrl().contains(":postgresql:")) {
                requirePostgres(details.getJdbcUrl());
            }
            LOG.info(
                    "The lock is held on a connection of the DataSource bean \"{}\", a {}, since it isn't known what else is"
                            + " set there: if that is a pool, one of its connections is in use all the time (a leak"
                            + " detector may report it), and the loss of the session is noticed some 100 ms later. Set"
                            + " pgleader.datasource.url for a connection of its own.",
                    bean,
                    dataSource.getClass().getName());
            return ConnectionSource.of(dataSource);
        }
        requirePostgres(road.url());
        return direct(
                "the DataSource bean \"" + bean + "\"",
                road.url(),
                road.driverProperties(),
                configuredOr(road.credentials()),
                "the same URL, credentials and driver properties");
    }

    private static void requirePostgres(String url) {
        if (!url.startsWith(DRIVER)) {
            throw new LeaderConfigurationException(
                    "The lock needs a PostgreSQL, and the URL of the application's database doesn't begin with "
                            + DRIVER + ".",
                    SET_URL
                            + "For development without a PostgreSQL, set pgleader.mode=always-leader; in a test, take"
                            + " @AutoConfigureTestLeader or pgleader.enabled=false.");
        }
    }

    /** Sources that lead to more than one database, or have one connection for everybody. */
    private static void refuseWhatIsNoRoad(DataSource dataSource, String bean) {
        DataSource target = dataSource;
        while (target instanceof DelegatingDataSource delegating && delegating.getTargetDataSource() != null) {
            target = delegating.getTargetDataSource();
        }
        String why = null;
        if (target instanceof AbstractRoutingDataSource) {
            why = "it leads to several databases, each of which has locks of its own";
        } else if (target instanceof SingleConnectionDataSource) {
            why = "it has a single connection, which the application uses as well";
        }
        if (why != null) {
            throw new LeaderConfigurationException(
                    "The lock can't be held on a connection of the DataSource bean \"" + bean + "\", a "
                            + target.getClass().getName() + ": " + why + ".",
                    "Set pgleader.datasource.bean to the name of another DataSource bean. Or: " + SET_URL);
        }
    }

    /** All that the source would connect with; null if that can't be told. */
    private @Nullable Road road(DataSource dataSource) {
        if (ClassUtils.isPresent("com.zaxxer.hikari.HikariDataSource", null)) {
            Road hikari = Hikari.road(dataSource, detailsCredentials());
            if (hikari != null) {
                return hikari;
            }
        }
        if (dataSource instanceof AbstractDriverBasedDataSource plain && plain.getUrl() != null) {
            Properties properties = new Properties();
            if (plain.getConnectionProperties() != null) {
                properties.putAll(plain.getConnectionProperties());
            }
            return new Road(plain.getUrl(), properties, () -> credentialsOf(plain.getUsername(), plain.getPassword()));
        }
        return null;
    }

    /** Only where HikariCP is on the class path. */
    private static final class Hikari {

        static @Nullable Road road(DataSource dataSource, @Nullable Supplier<Credentials> details) {
            HikariDataSource pool = DataSourceUnwrapper.unwrap(dataSource, HikariDataSource.class);
            if (pool == null
                    || pool.getJdbcUrl() == null
                    || pool.getDataSource() != null
                    || pool.getDataSourceClassName() != null) {
                return null;
            }
            Credentials atFirst = current(pool);
            boolean fromDetails = details != null && details.get().equals(atFirst);
            return new Road(pool.getJdbcUrl(), pool.getDataSourceProperties(), () -> {
                Credentials now = current(pool);
                // The pool's may be changed at run time, and so may those that it was made from.
                return fromDetails && details != null && now.equals(atFirst) ? details.get() : now;
            });
        }

        private static Credentials current(HikariDataSource pool) {
            return credentialsOf(pool.getUsername(), pool.getPassword());
        }
    }

    private static Credentials credentialsOf(@Nullable String user, @Nullable String password) {
        return new Credentials(Objects.requireNonNullElse(user, ""), Objects.requireNonNullElse(password, ""));
    }

    private @Nullable Supplier<Credentials> detailsCredentials() {
        JdbcConnectionDetails known = details;
        return known == null || known.getUsername() == null
                ? null
                : () -> credentialsOf(known.getUsername(), known.getPassword());
    }

    /** Null if nobody tells a user: then the URL does, or the driver's own files. */
    private @Nullable Supplier<Credentials> configuredOr(@Nullable Supplier<Credentials> others) {
        String user = configured.username();
        String password = configured.password();
        if (user == null && password == null) {
            return others;
        }
        return () -> {
            Credentials base = others == null ? credentialsOf(null, null) : others.get();
            return new Credentials(
                    Objects.requireNonNullElse(user, base.user()),
                    Objects.requireNonNullElse(password, base.password()));
        };
    }

    private static ConnectionSource direct(
            String from,
            String url,
            Properties driverProperties,
            @Nullable Supplier<Credentials> credentials,
            String how) {
        Map<String, String> added = new TreeMap<>();
        for (String name : driverProperties.stringPropertyNames()) {
            boolean inUrl = Pattern.compile("[?&]" + Pattern.quote(name) + "=")
                    .matcher(url)
                    .find();
            // What the URL says prevails in the driver, too.
            if (!inUrl && !name.equals("user") && !name.equals("password")) {
                added.put(name, driverProperties.getProperty(name));
            }
        }
        StringBuilder complete = new StringBuilder(url);
        added.forEach((name, value) -> complete.append(complete.indexOf("?") < 0 ? '?' : '&')
                .append(name)
                .append('=')
                .append(URLEncoder.encode(value, StandardCharsets.UTF_8)));
        Supplier<Credentials> known = emptyIsUnknown(credentials);
        try {
            ConnectionSource source = known == null
                    ? ConnectionSource.of(complete.toString())
                    : ConnectionSource.of(complete.toString(), known);
            LOG.info(
                    "The lock is held on a connection of its own to {}, taken from {}: {}{}",
                    source,
                    from,
                    how,
                    added.isEmpty() ? "" : ", of the latter " + added.keySet());
            return source;
        } catch (IllegalArgumentException e) {
            // Without the URL itself: it may hold a password.
            throw new LeaderConfigurationException(
                    "The value of " + from + " can't be used: " + e.getMessage(), SET_URL, e);
        }
    }

    private static @Nullable Supplier<Credentials> emptyIsUnknown(@Nullable Supplier<Credentials> credentials) {
        return credentials == null || credentials.get().user().isEmpty() ? null : credentials;
    }
}
