package dev.pgleader.lock.socket;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import javax.net.SocketFactory;
import org.jspecify.annotations.Nullable;

/**
 * Gives the driver {@link ChannelSocket}s and tells the one who connects which of them the connection runs on.
 *
 * <p>The driver knows a socket factory by its class name and makes an instance by itself ({@code socketFactory} and
 * {@code socketFactoryArg} among its <a href="https://jdbc.postgresql.org/documentation/use/">connection
 * parameters</a>), so the two meet through a {@link Connecting} that is known by a token for as long as it lasts.
 */
public final class ChannelSocketFactory extends SocketFactory {

    private static final Map<String, Connecting> CONNECTING = new ConcurrentHashMap<>();

    private final Connecting connecting;

    /**
     * Called by the driver.
     *
     * @param token the {@link Connecting#token()} of a connection that is being opened
     */
    public ChannelSocketFactory(String token) {
        Connecting found = CONNECTING.get(token);
        if (found == null) {
            throw new IllegalArgumentException("Sockets of this factory are only made while pg-leader connects");
        }
        connecting = found;
    }

    /**
     * Announces that the calling code is about to connect.
     *
     * @param limit the bound of each read, write and connect for which the driver sets none
     */
    public static Connecting connecting(Duration limit) {
        Connecting connecting = new Connecting(limit);
        CONNECTING.put(connecting.token, connecting);
        return connecting;
    }

    /** One connection that is being opened. The driver may make several sockets for it; the last one counts. */
    public static final class Connecting implements AutoCloseable {

        private final String token = UUID.randomUUID().toString();
        private final Duration limit;
        private volatile @Nullable ChannelSocket latest;

        private Connecting(Duration limit) {
            this.limit = limit;
        }

        /** What the driver has to pass on to the factory. */
        public String token() {
            return token;
        }

        /** The socket that the driver asked for last; empty if it asked for none. */
        public Optional<ChannelSocket> socket() {
            return Optional.ofNullable(latest);
        }

        private ChannelSocket open() throws IOException {
            ChannelSocket socket = new ChannelSocket(limit);
            latest = socket;
            return socket;
        }

        @Override
        public void close() {
            CONNECTING.remove(token);
        }
    }

    @Override
    public Socket createSocket() throws IOException {
        return connecting.open();
    }

    @Override
    public Socket createSocket(String host, int port) {
        throw onlyUnconnected();
    }

    @Override
    public Socket createSocket(String host, int port, InetAddress localHost, int localPort) {
        throw onlyUnconnected();
    }

    @Override
    public Socket createSocket(InetAddress host, int port) {
        throw onlyUnconnected();
    }

    @Override
    public Socket createSocket(InetAddress address, int port, InetAddress localAddress, int localPort) {
        throw onlyUnconnected();
    }

    private static UnsupportedOperationException onlyUnconnected() {
        return new UnsupportedOperationException("The driver connects the sockets by itself");
    }
}
