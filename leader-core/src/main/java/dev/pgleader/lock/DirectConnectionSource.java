package dev.pgleader.lock;

import dev.pgleader.lock.socket.ChannelSocketFactory;
import dev.pgleader.lock.socket.ChannelSocketFactory.Connecting;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
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
    private final String url;
    private final String address;
    private final @Nullable Supplier<Credentials> credentials;
    private final AtomicBoolean polledTold = new AtomicBoolean();

    DirectConnectionSource(String url, @Nullable Supplier<Credentials> credentials) {
        this.credentials = credentials;
        this.url = Objects.requireNonNull(url, "url");
        // Before the driver sees it: what it can't parse it logs, with all secrets.
        Properties parsed = FORM.matcher(url).matches() ? Driver.parseURL(url, new Properties()) : null;
        if (parsed == null) {
            // What isn't understood isn't repeated: it may hold a password anywhere.
            throw new IllegalArgumentException(
                    "Not a URL of the PostgreSQL driver; expected"
                            + " jdbc:postgresql://host:port/database?parameter=value, without user and password before the host");
        }
        this.address = URL_PREFIX + "//" + hosts(parsed) + ":" + PGProperty.PG_PORT.getOrDefault(parsed) + "/"
                + Objects.requireNonNullElse(PGProperty.PG_DBNAME.getOrDefault(parsed), "");
    }

    @Override
    SessionConnection open(Duration networkTimeout) throws SQLException {
        Properties fromUrl = parse();
        Properties properties = properties(fromUrl, networkTimeout);
        if (PGProperty.SOCKET_FACTORY.getOrDefault(fromUrl) == null) {
            String obstacle = obstacleToOurSockets(fromUrl);
            if (obstacle == null) {
                return openOnOurSocket(properties, networkTimeout);
            }
            if (polledTold.compareAndSet(false, true)) {
                LOG.warn("{}, so the loss of a session is noticed up to a second later", obstacle);
            }
        }
        return new PolledConnection(LentConnection.own(connect(properties)));
    }

    /** Anew each time, since the driver reads its password file and its service file as it parses a URL. */
    private Properties parse() throws SQLException {
        Properties parsed = Driver.parseURL(url, new Properties());
        if (parsed == null) {
            throw new SQLException("The driver can't read the URL any more, whose service file or service may be gone");
        }
        return parsed;
    }

    /** Why the driver can't connect by a socket of ours; null if it can. */
    private static @Nullable String obstacleToOurSockets(Properties fromUrl) {
        String factory = ChannelSocketFactory.class.getName();
        try {
            if (Class.forName(factory, false, Driver.class.getClassLoader()) != ChannelSocketFactory.class) {
                return "The class loader of the PostgreSQL driver sees another " + factory
                        + ": load the driver and pg-leader with the same class loader";
            }
        } catch (ClassNotFoundException | LinkageError e) {
            return "The class loader of the PostgreSQL driver doesn't see " + factory
                    + ": load the driver and pg-leader with the same class loader";
        }
        String proxied = proxied(fromUrl);
        return proxied == null
                ? null
                : "The way to " + proxied + " leads through a SOCKS proxy, which only the driver's own sockets take";
    }

    /** The first host that a socket of the JDK's reaches through a proxy; null if there is none. */
    private static @Nullable String proxied(Properties fromUrl) {
        ProxySelector selector = ProxySelector.getDefault();
        if (selector == null) {
            return null;
        }
        String[] ports = Objects.requireNonNullElse(PGProperty.PG_PORT.getOrDefault(fromUrl), "")
                .split(",", -1);
        String[] hosts = hosts(fromUrl).split(",", -1);
        for (int i = 0; i < hosts.length; i++) {
            try {
                // As java.net.Socket asks.
                int port = Integer.parseInt(ports[Math.min(i, ports.length - 1)]);
                URI target = new URI("socket", null, hosts[i], port, null, null, null);
                if (selector.select(target).stream().anyMatch(proxy -> proxy.type() == Proxy.Type.SOCKS)) {
                    return hosts[i];
                }
            } catch (Exception e) {
                LOG.debug("No proxy is known for {}", hosts[i], e);
            }
        }
        return null;
    }

    private SessionConnection openOnOurSocket(Properties properties, Duration networkTimeout) throws SQLException {
        try (Connecting connecting = ChannelSocketFactory.connecting(networkTimeout)) {
            PGProperty.SOCKET_FACTORY.set(properties, ChannelSocketFactory.class.getName());
            PGProperty.SOCKET_FACTORY_ARG.set(properties, connecting.token());
            LentConnection own = LentConnection.own(connect(properties));
            return new SelectedConnection(own, connecting.socket().orElseThrow());
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

    private Properties properties(Properties fromUrl, Duration networkTimeout) {
        Properties properties = new Properties();
        properties.putAll(fromUrl);
        if (credentials != null) {
            Credentials current = credentials.get();
            PGProperty.USER.set(properties, current.user());
            PGProperty.PASSWORD.set(properties, current.password());
        }
        if (hosts(fromUrl).contains(",") && !PGProperty.TARGET_SERVER_TYPE.isPresent(fromUrl)) {
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

    private static String hosts(Properties fromUrl) {
        return Objects.requireNonNullElse(PGProperty.PG_HOST.getOrDefault(fromUrl), "");
    }

    @Override
    public String toString() {
        return address;
    }
}
