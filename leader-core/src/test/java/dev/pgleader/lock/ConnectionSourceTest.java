package dev.pgleader.lock;

import static dev.pgleader.lock.LockSessionContract.assertFault;
import static dev.pgleader.lock.LockSessionContract.elapsed;
import static dev.pgleader.lock.LockSessionContract.receive;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatNullPointerException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Direction;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.stream.Stream;
import javax.net.SocketFactory;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.event.Level;

/** How a session's own connection is opened, and what is said when it can't be. */
@Timeout(300)
class ConnectionSourceTest {

    private static final String SECRET = "s3cret-Pa55";
    private static final Settings SETTINGS =
            new Settings("source", Duration.ofSeconds(20), Duration.ofSeconds(5), true);

    @AutoClose
    private static final PostgresServer SERVER =
            PostgresServer.builder().passwords().launch();

    @AutoClose
    private static final LockTable TABLE = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    private final ExecutorService executor = Executors.newCachedThreadPool();

    @BeforeAll
    static void createRole() throws SQLException {
        SERVER.createRole("owner", SECRET);
    }

    @AfterEach
    void end() {
        executor.shutdownNow();
    }

    private static String url() {
        return SERVER.url(PostgresServer.DEFAULT_DATABASE);
    }

    /** Opens a session, has it answer, and returns the user it was opened as. */
    private static String userOf(ConnectionSource source) throws Exception {
        LockSession session = LockSession.open(source, SETTINGS);
        try {
            assertThat(session.check()).isEmpty();
            return TABLE.session(session.facts().backendPid()).orElseThrow().user();
        } finally {
            session.close();
        }
    }

    /** All that an exception shows to whoever logs it. */
    private static String told(Throwable failure) {
        StringWriter trace = new StringWriter();
        failure.printStackTrace(new PrintWriter(trace));
        return trace.toString();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "jdbc:mysql://owner:s3cret-Pa55@host/db?password=s3cret-Pa55",
                "jdbc:postgresql://owner:s3cret-Pa55@host/db?user=owner&password=s3cret-Pa55",
                "jdbc:postgresql://host:port/db?password=s3cret-Pa55",
                "jdbc:postgresql://host/db/more?password=s3cret-Pa55",
                "jdbc:postgresql://owner:s3cret-Pa55@host:5432/db",
                "jdbc:postgresql://s3cret-Pa55@host/db",
                "jdbc:postgresql://host:1,owner:s3cret-Pa55@host:2/db",
                "jdbc:postgresql://host?user=owner&password=s3cret-Pa55",
                "jdbc:mysql://owner:s3cret-Pa55?x@host/db",
                "jdbc:sqlserver://host:1433;user=owner;password=s3cret-Pa55",
                "jdbc:oracle:thin:owner/s3cret-Pa55@//host:1521/db",
                "postgresql://owner:s3cret-Pa55@host/db",
                "jdbc:postgres://owner:s3cret-Pa55@host/db",
                "JDBC:POSTGRESQL://host/db?password=s3cret-Pa55",
                "nonsense",
                ""
            })
    void aUrlThatIsNotOfTheDriverIsRefusedAtOnceWithoutItsSecrets(String url) {
        // The driver logs what it can't parse, whole, and not to SLF4J.
        List<String> logged = new CopyOnWriteArrayList<>();
        Handler driversLog = new Handler() {
            @Override
            public void publish(LogRecord event) {
                logged.add(new SimpleFormatter().format(event));
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger driver = Logger.getLogger("org.postgresql");
        driver.addHandler(driversLog);
        try {
            assertThatThrownBy(() -> ConnectionSource.of(url, "owner", SECRET))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("jdbc:postgresql://host:port/database")
                    .satisfies(refused -> assertThat(told(refused)).doesNotContain(SECRET));
            assertThatThrownBy(() -> ConnectionSource.of(url)).isInstanceOf(IllegalArgumentException.class);
        } finally {
            driver.removeHandler(driversLog);
        }
        assertThat(logged).noneMatch(line -> line.contains(SECRET));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "jdbc:postgresql:db",
                "jdbc:postgresql:",
                "jdbc:postgresql://host/",
                "jdbc:postgresql://host/d@b",
                "jdbc:postgresql://[::1]:5432,host_2.example:5433/db?user=a@b&password=p@ss/w?rd",
                "jdbc:postgresql:///db"
            })
    void eachFormOfTheDriverIsAccepted(String url) {
        assertThat(ConnectionSource.of(url).toString()).doesNotContain("p@ss");
    }

    @Test
    void nullIsRefusedAtOnce() {
        assertThatNullPointerException()
                .isThrownBy(() -> ConnectionSource.of((DataSource) null))
                .withMessage("dataSource");
        assertThatNullPointerException()
                .isThrownBy(() -> ConnectionSource.of((String) null))
                .withMessage("url");
        assertThatNullPointerException().isThrownBy(() -> ConnectionSource.of(url(), "owner", null));
        assertThatNullPointerException().isThrownBy(() -> ConnectionSource.of(url(), null, SECRET));
    }

    @Test
    void aWrongPasswordIsToldWithoutThePassword() {
        String withSecrets = url() + "?password=" + SECRET + "&sslpassword=" + SECRET + "-tls";
        ConnectionSource source = ConnectionSource.of(withSecrets, "owner", SECRET + "-wrong");
        assertThat(source.toString()).contains(Integer.toString(SERVER.port())).doesNotContain(SECRET);
        assertThat(new Credentials("owner", SECRET).toString())
                .contains("owner")
                .doesNotContain(SECRET);
        try (LogCapture log = LogCapture.of("ROOT", Level.DEBUG)) {
            Throwable failure = catchThrowable(() -> LockSession.open(source, SETTINGS));
            assertFault(Fault.LOGIN_REFUSED, () -> {
                        throw failure;
                    })
                    .hasMessageContaining(source.toString())
                    .hasMessageContaining("password authentication failed for user \"owner\"");
            assertThat(told(failure)).doesNotContain(SECRET);
            assertThat(log.events()).allSatisfy(event -> {
                assertThat(event.message()).doesNotContain(SECRET);
                if (event.throwable() != null) {
                    assertThat(told(event.throwable())).doesNotContain(SECRET);
                }
            });
        }
    }

    @Test
    void aSessionThatComesAndGoesTellsNoPassword() throws Exception {
        ConnectionSource source = ConnectionSource.of(url() + "?password=" + SECRET, "owner", SECRET);
        try (LogCapture log = LogCapture.of("ROOT", Level.DEBUG)) {
            LockSession session = LockSession.open(source, SETTINGS);
            assertThat(session.toString()).doesNotContain(SECRET);
            SERVER.terminateBackend(session.facts().backendPid());
            Throwable lost = catchThrowable(() -> session.awaitNotifications(TimeUnit.SECONDS.toNanos(10)));
            assertThat(told(lost)).contains("administrator command").doesNotContain(SECRET);
            session.abort();
            assertThat(log.events())
                    .extracting(LogCapture.Event::message)
                    .noneMatch(message -> message.contains(SECRET));
        }
    }

    @Test
    void credentialsAreAskedAnewAtEachLogin() throws Exception {
        SERVER.createRole("rotating", "first");
        AtomicReference<Credentials> current = new AtomicReference<>(new Credentials("rotating", "first"));
        ConnectionSource source = ConnectionSource.of(url(), current::get);
        assertThat(userOf(source)).isEqualTo("rotating");
        SERVER.execute("ALTER ROLE rotating PASSWORD 'second'");
        assertFault(Fault.LOGIN_REFUSED, () -> LockSession.open(source, SETTINGS));
        current.set(new Credentials("rotating", "second"));
        assertThat(userOf(source)).isEqualTo("rotating");
        current.set(new Credentials("owner", SECRET));
        assertThat(userOf(source)).isEqualTo("owner");
    }

    @Test
    void credentialsThatCanNotBeHadMakeTheServerUnreachable() {
        ConnectionSource source = ConnectionSource.of(url(), () -> {
            throw new IllegalStateException("the vault is sealed");
        });
        assertFault(Fault.UNREACHABLE, () -> LockSession.open(source, SETTINGS))
                .hasMessageContaining("the vault is sealed")
                .hasCauseInstanceOf(IllegalStateException.class);
    }

    @Test
    void userAndPasswordMayStandInTheUrl() throws Exception {
        String url = url() + "?user=owner&password=" + SECRET;
        assertThat(userOf(ConnectionSource.of(url))).isEqualTo("owner");
        assertThat(userOf(ConnectionSource.of(url, SERVER.superuser(), SERVER.superuserPassword())))
                .isEqualTo(SERVER.superuser());
    }

    @Test
    void aDatabaseMayHaveAnyName() throws Exception {
        String name = "a/b c+d?e=f&g%h;\u00e4'\"";
        SERVER.createDatabase(name);
        String encoded = "a%2Fb+c%2Bd%3Fe%3Df%26g%25h%3B%C3%A4%27%22";
        String url = "jdbc:postgresql://127.0.0.1:" + SERVER.port() + "/" + encoded;
        LockSession session = LockSession.open(ConnectionSource.of(url, "owner", SECRET), SETTINGS);
        assertThat(session.facts().database()).isEqualTo(name);
        session.close();
    }

    @Test
    void withoutDatabaseItIsTheOneOfTheUser() throws Exception {
        SERVER.createDatabase("owner");
        LockSession session = LockSession.open(ConnectionSource.of(SERVER.url(""), "owner", SECRET), SETTINGS);
        assertThat(session.facts().database()).isEqualTo("owner");
        session.close();
    }

    @Test
    @DisplayName("C09: timeouts and query modes of the URL don't count")
    void overriddenParameters() throws Exception {
        try (TcpProxy network = new TcpProxy(SERVER.port())) {
            String parameters = "?socketTimeout=1&loginTimeout=1&connectTimeout=1&queryTimeout=1&preferQueryMode=simple"
                    + "&prepareThreshold=1&autosave=always&readOnly=true&readOnlyMode=always&ApplicationName=theirs";
            String url = PostgresServer.url(network.port(), PostgresServer.DEFAULT_DATABASE, Map.of());
            ConnectionSource source = ConnectionSource.of(url + parameters, "owner", SECRET);
            LockSession session = LockSession.open(source, SETTINGS);
            network.existing().delay(Direction.SERVER_TO_CLIENT, Duration.ofMillis(1_300));
            assertThat(session.check()).isEmpty();
            network.existing().delay(Direction.SERVER_TO_CLIENT, Duration.ZERO);
            LockKey key = LockKey.of(3);
            for (int round = 0; round < 7; round++) {
                assertThat(session.attempt(List.of(key)).granted()).containsExactly(key);
                assertThat(session.check()).containsExactly(key);
                session.release(List.of(key));
            }
            assertThat(TABLE.sessions("pg-leader/source")).hasSize(1);
            session.close();
        }
    }

    @Test
    @DisplayName("C15, C16: of several hosts the primary is taken, neither a standby nor a fenced server")
    void severalHosts() throws Exception {
        try (PostgresServer primary = PostgresServer.launch();
                PostgresServer standby = primary.standby()) {
            ConnectionSource wrongOrder = ConnectionSource.of(url(standby, primary), primary.superuser(), "");
            assertThat(portOf(wrongOrder)).isEqualTo(primary.port());
            assertThat(portOf(ConnectionSource.of(url(primary, standby), primary.superuser(), "")))
                    .isEqualTo(primary.port());
            assertFault(
                    Fault.UNREACHABLE,
                    () -> LockSession.open(
                            ConnectionSource.of(url(standby, standby), primary.superuser(), ""), SETTINGS));
            assertFault(
                    Fault.STANDBY,
                    () -> LockSession.open(
                            ConnectionSource.of(
                                    url(standby, standby) + "?targetServerType=any", primary.superuser(), ""),
                            SETTINGS));
            standby.promote();
            primary.fence();
            assertThat(portOf(ConnectionSource.of(url(primary, standby), primary.superuser(), "")))
                    .isEqualTo(standby.port());
            primary.stop(PostgresServer.ShutdownMode.FAST);
            assertThat(portOf(ConnectionSource.of(url(primary, standby), primary.superuser(), "")))
                    .isEqualTo(standby.port());
            // The same source, a moment later: the roles have changed, and the port of the first host is closed.
            assertThat(portOf(wrongOrder)).isEqualTo(standby.port());
        }
    }

    private static String url(PostgresServer first, PostgresServer second) {
        return "jdbc:postgresql://127.0.0.1:" + first.port() + ",127.0.0.1:" + second.port() + "/postgres";
    }

    private static int portOf(ConnectionSource source) throws Exception {
        SessionConnection connection = source.open(Duration.ofSeconds(5));
        try {
            return Integer.parseInt(Sql.text(connection.connection(), "SHOW port"));
        } finally {
            connection.close();
        }
    }

    /** The socket factory of a URL. */
    public static final class TheirSocketFactory extends SocketFactory {

        static final AtomicInteger MADE = new AtomicInteger();
        static final AtomicReference<String> ARGUMENT = new AtomicReference<>();

        private final SocketFactory sockets = SocketFactory.getDefault();

        /** Called by the driver. */
        public TheirSocketFactory(String argument) {
            ARGUMENT.set(argument);
        }

        @Override
        public Socket createSocket() throws IOException {
            MADE.incrementAndGet();
            return sockets.createSocket();
        }

        @Override
        public Socket createSocket(String host, int port) throws IOException {
            return sockets.createSocket(host, port);
        }

        @Override
        public Socket createSocket(String host, int port, InetAddress local, int localPort) throws IOException {
            return sockets.createSocket(host, port, local, localPort);
        }

        @Override
        public Socket createSocket(InetAddress host, int port) throws IOException {
            return sockets.createSocket(host, port);
        }

        @Override
        public Socket createSocket(InetAddress host, int port, InetAddress local, int localPort) throws IOException {
            return sockets.createSocket(host, port, local, localPort);
        }
    }

    @Test
    void aSocketFactoryOfTheUrlIsKeptAndPolled() throws Exception {
        String url = url() + "?socketFactory=" + TheirSocketFactory.class.getName() + "&socketFactoryArg=theirs";
        LockSession session = LockSession.open(ConnectionSource.of(url, "owner", SECRET), SETTINGS);
        assertThat(TheirSocketFactory.MADE).hasPositiveValue();
        assertThat(TheirSocketFactory.ARGUMENT).hasValue("theirs");
        session.tell(List.of("heard"));
        assertThat(receive(session, 1)).containsExactly("heard");
        Future<Long> noticed = executor.submit(() -> {
            assertFault(Fault.CONNECTION_LOST, () -> session.awaitNotifications(TimeUnit.SECONDS.toNanos(30)));
            return System.nanoTime();
        });
        long start = System.nanoTime();
        SERVER.terminateBackend(session.facts().backendPid());
        assertThat(Duration.ofNanos(noticed.get(20, TimeUnit.SECONDS) - start)).isLessThan(Duration.ofSeconds(15));
        session.abort();
    }

    @Test
    void aClosedPortIsUnreachableAtOnce() {
        try (TcpProxy network = new TcpProxy(SERVER.port())) {
            network.refuse();
            String url = PostgresServer.url(network.port(), PostgresServer.DEFAULT_DATABASE, Map.of());
            ConnectionSource source = ConnectionSource.of(url, "owner", SECRET);
            long start = System.nanoTime();
            assertFault(Fault.UNREACHABLE, () -> LockSession.open(source, SETTINGS))
                    .hasMessageContaining(source.toString());
            assertThat(elapsed(start)).isLessThan(SETTINGS.networkTimeout());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "?sslmode=disable", "?sslmode=require"})
    @DisplayName("C09, C10: a server that accepts and never answers is unreachable within the network timeout")
    void silentServer(String parameters) {
        try (TcpProxy network = new TcpProxy(SERVER.port())) {
            network.future().flow(Flow.SWALLOW);
            String url = PostgresServer.url(network.port(), PostgresServer.DEFAULT_DATABASE, Map.of());
            ConnectionSource source = ConnectionSource.of(url + parameters, "owner", SECRET);
            Settings impatient = new Settings("source", Duration.ofSeconds(20), Duration.ofMillis(700), true);
            long start = System.nanoTime();
            assertFault(Fault.UNREACHABLE, () -> LockSession.open(source, impatient));
            // The driver counts it in whole seconds.
            assertThat(elapsed(start)).isBetween(Duration.ofMillis(700), Duration.ofSeconds(20));
        }
    }

    @Test
    @DisplayName(
            "C09, C10: an open that the network swallows at any of its statements ends in time and leaves no session")
    void swallowedStatement() throws Exception {
        Settings impatient = new Settings("swallowed", Duration.ofSeconds(20), Duration.ofMillis(400), true);
        for (String statement : List.of(
                "pg_is_in_recovery",
                "set_config(t.name",
                "s.setting",
                "LISTEN",
                "pg_walfile_name",
                "pg_postmaster_start_time")) {
            try (TcpProxy network = new TcpProxy(SERVER.port())) {
                String url = PostgresServer.url(network.port(), PostgresServer.DEFAULT_DATABASE, Map.of());
                ConnectionSource source = ConnectionSource.of(url, "owner", SECRET);
                TcpProxy.Trigger reached = network.onNext(
                        Direction.CLIENT_TO_SERVER,
                        TcpProxy.containing(statement),
                        connection -> connection.flow(Flow.SWALLOW));
                long start = System.nanoTime();
                assertFault(statement, Fault.TIMEOUT, () -> LockSession.open(source, impatient));
                assertThat(elapsed(start)).as(statement).isLessThan(Duration.ofSeconds(15));
                assertThat(reached.hasFired()).isTrue();
            }
            await().until(() -> TABLE.sessions("pg-leader").isEmpty());
        }
    }

    @Test
    void opensThatFailLeaveNoFilesOpen() throws Exception {
        try (TcpProxy network = new TcpProxy(SERVER.port())) {
            network.refuse();
            String closed = PostgresServer.url(network.port(), PostgresServer.DEFAULT_DATABASE, Map.of());
            List<ConnectionSource> sources = List.of(
                    ConnectionSource.of(closed, "owner", SECRET),
                    ConnectionSource.of(url(), "owner", "wrong"),
                    ConnectionSource.of(SERVER.url("no_such_database"), "owner", SECRET));
            openInVain(sources, 1);
            long before = openFiles();
            openInVain(sources, 4);
            for (int i = 0; i < 5; i++) {
                LockSession closing = LockSession.open(ConnectionSource.of(url(), "owner", SECRET), SETTINGS);
                LockSession aborting = LockSession.open(ConnectionSource.of(url(), "owner", SECRET), SETTINGS);
                closing.close();
                aborting.abort();
            }
            assertThat(openFiles()).isLessThan(before + 6);
        }
    }

    private static void openInVain(List<ConnectionSource> sources, int rounds) {
        for (int round = 0; round < rounds; round++) {
            for (ConnectionSource source : sources) {
                assertThatThrownBy(() -> LockSession.open(source, SETTINGS)).isInstanceOf(LockSessionException.class);
            }
        }
    }

    private static long openFiles() throws Exception {
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
            return files.count();
        }
    }
}
