package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.ds.PGSimpleDataSource;
import org.slf4j.event.Level;

/** The ways to a server that the driver knows. */
@Timeout(60)
class RoadsTest {

    private static final LockKey KEY = LockKey.named("roads-test");
    private static final Settings SETTINGS = new Settings("roads", Duration.ofSeconds(20), Duration.ofSeconds(5), true);

    @AutoClose
    private static final PostgresServer SERVER =
            PostgresServer.builder().everyRoad().passwords().launch();

    private static String withUser(String url) {
        return url + (url.contains("?") ? "&" : "?") + "user=" + SERVER.superuser() + "&password="
                + SERVER.superuserPassword();
    }

    /** Leads, is asked, and lets go; returns what the driver reached. */
    private static String lockBy(ConnectionSource source) throws Exception {
        LockSession session = LockSession.open(source, SETTINGS);
        assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
        assertThat(session.check()).containsExactly(KEY);
        session.close();
        return session.facts().serverAddress();
    }

    private static void bothFormsBy(String url) throws Exception {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(url);
        AdvisoryLocks locks = AdvisoryLocks.on(dataSource);
        for (int round = 0; round < 7; round++) {
            assertThat(locks.tryRunLocked(KEY, Sql::backendPid).value()).isPositive();
            assertThat(locks.tryRunInTransaction(KEY, Sql::backendPid).value()).isPositive();
        }
    }

    @DisplayName("Each query mode and each prepareThreshold of the driver serves both forms of the helper")
    @ParameterizedTest
    @ValueSource(
            strings = {
                "preferQueryMode=simple",
                "preferQueryMode=extendedForPrepared",
                "preferQueryMode=extendedCacheEverything",
                "prepareThreshold=-1",
                "prepareThreshold=0",
                "prepareThreshold=1",
                "autosave=always",
                "binaryTransfer=false",
                "readOnlyMode=always"
            })
    void driverSettings(String parameter) throws Exception {
        bothFormsBy(withUser(SERVER.url(PostgresServer.DEFAULT_DATABASE) + "?" + parameter));
    }

    @DisplayName("IPv6")
    @Test
    void ipv6() throws Exception {
        String url = withUser("jdbc:postgresql://[::1]:" + SERVER.port() + "/postgres");
        assertThat(lockBy(ConnectionSource.of(url))).isEqualTo("[::1]:" + SERVER.port());
        bothFormsBy(url);
    }

    @DisplayName("A Unix socket, by a socket factory of the URL")
    @Test
    void unixSocket() throws Exception {
        String url = withUser("jdbc:postgresql://localhost/postgres?sslmode=disable"
                + "&socketFactory=org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg&socketFactoryArg="
                + SERVER.unixSocket());
        assertThat(lockBy(ConnectionSource.of(url))).isEqualTo("localhost:5432");
        bothFormsBy(url);
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(url);
        lockBy(ConnectionSource.of(dataSource));
    }

    @DisplayName("Of several hosts, the one that was reached is told, also through a DataSource")
    @Test
    void severalHosts() throws Exception {
        String url = withUser("jdbc:postgresql://localhost:1,127.0.0.1:" + SERVER.port() + "/postgres");
        String reached = "127.0.0.1:" + SERVER.port();
        assertThat(lockBy(ConnectionSource.of(url))).isEqualTo(reached);
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(url);
        assertThat(lockBy(ConnectionSource.of(dataSource))).isEqualTo(reached);
    }

    @DisplayName("R31: a password file is read anew for each connection")
    @Test
    void passwordFile(@TempDir Path directory) throws Exception {
        SERVER.createRole("rotated", "first");
        Path file = directory.resolve("pgpass");
        write(file, "*:*:*:rotated:first\n");
        String before = System.setProperty("org.postgresql.pgpassfile", file.toString());
        try {
            ConnectionSource source =
                    ConnectionSource.of(SERVER.url(PostgresServer.DEFAULT_DATABASE) + "?user=rotated");
            lockBy(source);
            SERVER.execute("ALTER ROLE rotated PASSWORD 'second'");
            assertThatExceptionOfType(LockSessionException.class)
                    .isThrownBy(() -> LockSession.open(source, SETTINGS))
                    .withMessageContaining("password");
            write(file, "*:*:*:rotated:second\n");
            lockBy(source);
        } finally {
            if (before == null) {
                System.clearProperty("org.postgresql.pgpassfile");
            } else {
                System.setProperty("org.postgresql.pgpassfile", before);
            }
        }
    }

    private static void write(Path file, String content) throws IOException {
        Files.writeString(file, content);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    }

    @DisplayName("R33: a class of the URL's that isn't there is told as what it is")
    @ParameterizedTest
    @ValueSource(strings = {"sslfactory", "sslhostnameverifier", "sslpasswordcallback"})
    void missingClass(String parameter) {
        ConnectionSource source = ConnectionSource.of(withUser(SERVER.url(PostgresServer.DEFAULT_DATABASE)
                + "?sslmode=require&" + parameter + "=no.such.ClassOfOurs"));
        try (LogCapture log = LogCapture.of(DirectConnectionSource.class, Level.WARN)) {
            for (int attempt = 0; attempt < 2; attempt++) {
                assertThatExceptionOfType(LockSessionException.class)
                        .isThrownBy(() -> LockSession.open(source, SETTINGS));
            }
            assertThat(log.events()).isEmpty();
        }
    }

    @DisplayName("N04: where the JVM's sockets go through a SOCKS proxy, a session goes through it, too")
    @ParameterizedTest
    @ValueSource(strings = {"db.of.another.network.invalid", "localhost"})
    void socksProxy(String host) throws Exception {
        try (SocksProxy proxy = new SocksProxy(SERVER.port())) {
            String said;
            try (JavaProcess client = JavaProcess.builder(ThroughProxy.class)
                    .systemProperty("socksProxyHost", "127.0.0.1")
                    .systemProperty("socksProxyPort", Integer.toString(proxy.port()))
                    .systemProperty("socksNonProxyHosts", "localhost")
                    .systemProperty("pgleader.log", "WARN")
                    .arguments(withUser("jdbc:postgresql://" + host + ":" + SERVER.port() + "/postgres"))
                    .start()) {
                said = String.join("\n", client.awaitOutput(Duration.ofMinutes(1)));
            }
            assertThat(said).contains("driver: true").contains("session: true");
            if (host.equals("localhost")) {
                assertThat(said).contains("SelectedConnection").doesNotContain("SOCKS");
                assertThat(proxy.connections).hasValue(0);
            } else {
                assertThat(said)
                        .contains("PolledConnection")
                        .containsOnlyOnce("leads through a SOCKS proxy, which only the driver's own sockets take");
                assertThat(proxy.connections).hasValueGreaterThanOrEqualTo(3);
            }
        }
    }

    /** Run in a JVM of its own. */
    static final class ThroughProxy {
        public static void main(String[] arguments) throws Exception {
            PGSimpleDataSource dataSource = new PGSimpleDataSource();
            dataSource.setUrl(arguments[0]);
            try (Connection connection = dataSource.getConnection()) {
                System.out.println("driver: " + (Sql.backendPid(connection) > 0));
            }
            ConnectionSource source = ConnectionSource.of(arguments[0]);
            LockSession session = LockSession.open(source, SETTINGS);
            System.out.println(
                    "session: " + session.attempt(List.of(KEY)).granted().contains(KEY));
            session.close();
            System.out.println(source.open(Duration.ofSeconds(5)).getClass().getSimpleName());
            System.exit(0);
        }
    }

    /** SOCKS 5 (RFC 1928) without authentication, which leads to one server whatever it is asked for. */
    private static final class SocksProxy implements AutoCloseable {

        private final ServerSocket listening = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final ExecutorService threads = Executors.newCachedThreadPool();
        private final int target;
        final AtomicInteger connections = new AtomicInteger();

        SocksProxy(int target) throws IOException {
            this.target = target;
            threads.execute(this::accept);
        }

        int port() {
            return listening.getLocalPort();
        }

        private void accept() {
            while (!listening.isClosed()) {
                try {
                    Socket client = listening.accept();
                    threads.execute(() -> serve(client));
                } catch (IOException e) {
                    return;
                }
            }
        }

        private void serve(Socket client) {
            try (client;
                    Socket upstream = new Socket(InetAddress.getLoopbackAddress(), target)) {
                InputStream in = client.getInputStream();
                OutputStream out = client.getOutputStream();
                in.read();
                in.readNBytes(in.read());
                out.write(new byte[] {5, 0});
                byte[] request = in.readNBytes(4);
                int length = request[3] == 3 ? in.read() : request[3] == 4 ? 16 : 4;
                in.readNBytes(length + 2);
                out.write(new byte[] {5, 0, 0, 1, 127, 0, 0, 1, 0, 0});
                connections.incrementAndGet();
                threads.execute(() -> pump(upstream, client));
                in.transferTo(upstream.getOutputStream());
            } catch (IOException e) {
                // One of both has gone.
            }
        }

        private static void pump(Socket from, Socket to) {
            try {
                from.getInputStream().transferTo(to.getOutputStream());
                to.close();
            } catch (IOException e) {
                // One of both has gone.
            }
        }

        @Override
        public void close() throws IOException {
            listening.close();
            threads.shutdownNow();
        }
    }

    @DisplayName("The password of a URL isn't in what a source shows of itself")
    @Test
    void noSecret() throws SQLException {
        assertThat(ConnectionSource.of(withUser(SERVER.url("postgres"))).toString())
                .doesNotContain(SERVER.superuserPassword() + "@")
                .endsWith("/postgres");
    }
}
