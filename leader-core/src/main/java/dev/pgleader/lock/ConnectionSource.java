package dev.pgleader.lock;

import java.sql.SQLException;
import java.time.Duration;
import java.util.function.Supplier;
import javax.sql.DataSource;

/**
 * Where the connection that holds the locks comes from. It is asked anew for each connection, so credentials and hosts
 * may change between two sessions.
 *
 * <p>Take one made from a URL where you can: a connection of its own isn't retired by a pool, takes no slot of it, and
 * tells of its loss in milliseconds. Thread-safe. {@link #toString()} shows no secret.
 */
public abstract sealed class ConnectionSource permits DirectConnectionSource, DataSourceConnectionSource {

    ConnectionSource() {}

    /**
     * Opens plain connections to {@code url}, outside of any pool, with the user and the password that the URL, the
     * password file or the service file of the driver names.
     *
     * @throws IllegalArgumentException if the URL isn't one of PostgreSQL's driver
     * @see #of(String, Supplier)
     */
    public static ConnectionSource of(String url) {
        return new DirectConnectionSource(url, null);
    }

    /**
     * Opens plain connections to {@code url} with a fixed user and password.
     *
     * @throws IllegalArgumentException if the URL isn't one of PostgreSQL's driver
     * @see #of(String, Supplier)
     */
    public static ConnectionSource of(String url, String user, String password) {
        Credentials credentials = new Credentials(user, password);
        return of(url, () -> credentials);
    }

    /**
     * Opens plain connections to {@code url}, outside of any pool.
     *
     * <p>What the URL says about TLS, hosts and the like holds. Where it names several hosts and no {@code
     * targetServerType}, the connection goes to the primary. What it says about timeouts, prepared statements and query
     * modes doesn't count: these connections need values of their own.
     *
     * @param url of the form {@code jdbc:postgresql://host:port/database?parameter=value}, see <a
     *     href="https://jdbc.postgresql.org/documentation/use/">the driver's documentation</a>
     * @param credentials asked before each login, on the election thread: it must answer soon
     * @throws IllegalArgumentException if the URL isn't one of PostgreSQL's driver
     */
    public static ConnectionSource of(String url, Supplier<Credentials> credentials) {
        return new DirectConnectionSource(url, credentials);
    }

    /**
     * Borrows connections of {@code dataSource}, one at a time, each for the life of a session. If it is a pool, this takes
     * one of its slots; afterwards the physical connection is closed, so that the pool never gets a session back that
     * still holds a lock or has settings of ours.
     */
    public static ConnectionSource of(DataSource dataSource) {
        return new DataSourceConnectionSource(dataSource);
    }

    /**
     * Opens a connection that nobody else uses, for as long as it lives.
     *
     * @param networkTimeout the bound of the connect and of each read while logging in, where the source can set it
     */
    abstract SessionConnection open(Duration networkTimeout) throws SQLException;
}
