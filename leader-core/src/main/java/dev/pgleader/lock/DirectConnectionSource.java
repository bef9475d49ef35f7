package dev.pgleader.lock;

import dev.pgleader.lock.socket.ChannelSocket;
import dev.pgleader.lock.socket.ChannelSocketFactory;
import dev.pgleader.lock.socket.ChannelSocketFactory.Connecting;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Objects;
import java.util.Properties;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.postgresql.Driver;
import org.postgresql.PGProperty;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Plain connections, on sockets of ours unless the URL brings a socket factory. */
final class DirectConnectionSource extends ConnectionSource {

    private static final Logger LOG = LoggerFactory.getLogger(DirectConnectionSource.class);
    private static final String URL_PREFIX = "jdbc:postgresql:";
    private static final String ADDRESS = "(?:\\[[^\\]/?@]*\\]|[^\\[\\]:,/?@]*)(?::\\d{1,5})?";
    private static final Pattern FORM = Pattern.compile(
            URL_PREFIX + "(?://" + ADDRESS + "(?:," + ADDRESS + ")*/[^/?]*|/{0,3}|[^/?]*)(?:\\?.*)?", Pattern.DOTALL);

    private final Driver driver = new Driver();
    private final Properties fromUrl;
    private final @Nullable Supplier<Credentials> credentials;
    private volatile boolean onOurSockets;

    DirectConnectionSource(String url, @Nullable Supplier<Credentials> credentials) {
        this.credentials = credentials;
        Objects.requireNonNull(url, "url");
        // Before the driver sees it: what it can't parse it logs, with all secrets.
        Properties parsed = FORM.matcher(url).matches() ? Driver.parseURL(url, new Properties()) : null;
        if (parsed == null) {
            // What isn't understood isn't repeated: it may hold a password anywhere.
            throw new IllegalArgumentException(
                    "Not a URL of the PostgreSQL driver; expected"
                            + " jdbc:postgresql://host:port/database?parameter=value, without user and password before the host");
        }
        this.fromUrl = parsed;
        this.onOurSockets = PGProperty.SOCKET_FACTORY.getOrDefault(parsed) == null;
    }

    @Override
    SessionConnection open(Duration networkTimeout) throws SQLException {
        Properties properties = properties(networkTimeout);
        if (onOurSockets) {
            try {
                return openOnOurSocket(properties, networkTimeout);
            } catch (SQLException e) {
                if (!(e.getCause() instanceof ClassNotFoundException)) {
                    throw e;
                }
                onOurSockets = false;
                LOG.warn(
                        "The class loader of the PostgreSQL driver doesn't see {}, so the loss of a session is noticed up"
                                + " to a second later: load the driver and pg-leader with the same class loader",
                        ChannelSocketFactory.class.getName());
            }
        }
        PGProperty.SOCKET_FACTORY.set(properties, PGProperty.SOCKET_FACTORY.getOrDefault(fromUrl));
        PGProperty.SOCKET_FACTORY_ARG.set(properties, PGProperty.SOCKET_FACTORY_ARG.getOrDefault(fromUrl));
        return new PolledConnection(connect(properties), null);
    }

    private SessionConnection openOnOurSocket(Properties properties, Duration networkTimeout) throws SQLException {
        try (Connecting connecting = ChannelSocketFactory.connecting(networkTimeout)) {
            PGProperty.SOCKET_FACTORY.set(properties, ChannelSocketFactory.class.getName());
            PGProperty.SOCKET_FACTORY_ARG.set(properties, connecting.token());
            Connection connection = connect(properties);
            ChannelSocket socket = connecting.socket().orElseThrow();
            return new SelectedConnection(connection, socket);
        }
    }

    private Connection connect(Properties properties) throws SQLException {
        // All but the database's name is in the properties: where the URL names a parameter, the driver prefers it.
        String database = Objects.requireNonNullElse(
                PGProperty.PG_DBNAME.getOrDefault(properties),
                Objects.requireNonNullElse(PGProperty.USER.getOrDefault(properties), ""));
        String url = URL_PREFIX + URLEncoder.encode(database, StandardCharsets.UTF_8);
        return Objects.requireNonNull(driver.connect(url, properties));
    }

    private Properties properties(Duration networkTimeout) {
        Properties properties = new Properties();
        properties.putAll(fromUrl);
        if (credentials != null) {
            Credentials current = credentials.get();
            PGProperty.USER.set(properties, current.user());
            PGProperty.PASSWORD.set(properties, current.password());
        }
        if (hosts().contains(",") && !PGProperty.TARGET_SERVER_TYPE.isPresent(fromUrl)) {
            PGProperty.TARGET_SERVER_TYPE.set(properties, "primary");
        }
        int wholeSeconds = Math.toIntExact(networkTimeout.plusMillis(999).toSeconds());
        PGProperty.CONNECT_TIMEOUT.set(properties, wholeSeconds);
        PGProperty.SOCKET_TIMEOUT.set(properties, wholeSeconds);
        PGProperty.SSL_RESPONSE_TIMEOUT.set(properties, Math.toIntExact(networkTimeout.toMillis()));
        PGProperty.GSS_RESPONSE_TIMEOUT.set(properties, Math.toIntExact(networkTimeout.toMillis()));
        PGProperty.LOGIN_TIMEOUT.set(properties, 0);
        PGProperty.QUERY_TIMEOUT.set(properties, 0);
        PGProperty.TCP_KEEP_ALIVE.set(properties, true);
        PGProperty.APPLICATION_NAME.set(properties, PgLockSession.APPLICATION_NAME);
        // A named statement belongs to a backend, so a pooler that changes backends would fail it with an unhelpful
        // error.
        PGProperty.PREPARE_THRESHOLD.set(properties, 0);
        PGProperty.PREFER_QUERY_MODE.set(properties, "extended");
        PGProperty.AUTOSAVE.set(properties, "never");
        PGProperty.READ_ONLY.set(properties, false);
        // What a host was ten seconds ago says nothing after a failover.
        PGProperty.HOST_RECHECK_SECONDS.set(properties, 0);
        return properties;
    }

    private String hosts() {
        return Objects.requireNonNullElse(PGProperty.PG_HOST.getOrDefault(fromUrl), "");
    }

    @Override
    boolean canOpenSecond() {
        return true;
    }

    @Override
    public String toString() {
        return URL_PREFIX + "//" + hosts() + ":" + PGProperty.PG_PORT.getOrDefault(fromUrl) + "/"
                + Objects.requireNonNullElse(PGProperty.PG_DBNAME.getOrDefault(fromUrl), "");
    }
}
