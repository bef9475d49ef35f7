package dev.pgleader.testkit;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.net.URLEncoder;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.awaitility.Awaitility;
import org.awaitility.core.ConditionTimeoutException;
import org.jspecify.annotations.Nullable;
import org.postgresql.ds.PGSimpleDataSource;

/**
 * A PostgreSQL of the test's own on the loopback interface, which may be stopped, killed, frozen, fenced and promoted.
 * It keeps its port and its data over all of that. Without {@code fsync}: what is committed survives the server, not
 * the machine.
 *
 * <p>Methods that change the server's state are for one thread at a time; the others may be called by any number of
 * threads. Each waits until its effect is there, and throws {@link IllegalStateException} when that takes too long.
 */
public final class PostgresServer implements AutoCloseable {

    /** The database that each server has. */
    public static final String DEFAULT_DATABASE = "postgres";

    private static final String CERTIFICATE = "server.crt";
    private static final String KEY = "server.key";
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final PostgresBinaries binaries = PostgresBinaries.bundled();
    private final Path directory;
    private final Path data;
    private final Path log;
    private final int port;
    private final boolean tls;
    private final Map<String, String> environment;
    private final OrphanGuard guard;
    private volatile @Nullable Process postmaster;
    private volatile boolean killed;

    private PostgresServer(boolean tls, Map<String, String> environment) throws IOException {
        this.tls = tls;
        this.environment = Map.copyOf(environment);
        directory = Directories.createTemporary("pgleader-server-");
        data = directory.resolve("data");
        log = directory.resolve("server.log");
        port = LoopbackPorts.free();
        guard = new OrphanGuard("QUIT", directory);
    }

    /** Starts a server with default settings. */
    public static PostgresServer launch() {
        return builder().launch();
    }

    public static Builder builder() {
        return new Builder();
    }

    /**
     * Returns a server that all tests of this JVM share, and that ends with the JVM. For tests that touch nothing but
     * their own sessions, roles, databases and keys.
     */
    public static PostgresServer shared() {
        return Shared.SERVER;
    }

    public int port() {
        return port;
    }

    public String superuser() {
        return PostgresBinaries.SUPERUSER;
    }

    public String superuserPassword() {
        return PostgresBinaries.SUPERUSER_PASSWORD;
    }

    /**
     * Returns the file with the self-signed certificate, to be given to clients as {@code sslrootcert}.
     *
     * @throws IllegalStateException if this server was built without TLS
     */
    public Path certificate() {
        if (!tls) {
            throw new IllegalStateException("this server has no certificate: build it with tls()");
        }
        return data.resolve(CERTIFICATE);
    }

    /** Where a server that takes every road has its Unix socket. */
    public Path unixSocket() {
        return data.resolve(".s.PGSQL." + port);
    }

    /** Returns the JDBC URL of a database, without credentials. */
    public String url(String database) {
        return url(database, Map.of());
    }

    /** Returns the JDBC URL of a database with parameters of the driver. */
    public String url(String database, Map<String, String> parameters) {
        return url(port, database, parameters);
    }

    /**
     * Returns the JDBC URL of a database as it is reached through another port, for instance that of a
     * {@link TcpProxy}.
     */
    public static String url(int port, String database, Map<String, String> parameters) {
        String query = parameters.entrySet().stream()
                .map(parameter -> parameter.getKey() + "=" + URLEncoder.encode(parameter.getValue(), UTF_8))
                .collect(Collectors.joining("&"));
        return "jdbc:postgresql://" + LoopbackPorts.HOST + ":" + port + "/" + URLEncoder.encode(database, UTF_8)
                + (query.isEmpty() ? "" : "?" + query);
    }

    /** Returns the JDBC URL of a database with the superuser's credentials. */
    public String loginUrl(String database) {
        return url(database, Map.of("user", superuser(), "password", superuserPassword()));
    }

    /** Returns a source of new connections of the superuser to the default database; it keeps none. */
    public DataSource dataSource() {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(loginUrl(DEFAULT_DATABASE));
        return dataSource;
    }

    /** Opens a connection of the superuser to the default database. */
    public Connection connect() throws SQLException {
        return connect(DEFAULT_DATABASE);
    }

    /** Opens a connection of the superuser. */
    public Connection connect(String database) throws SQLException {
        return connect(database, Map.of());
    }

    /** Opens a connection of the superuser with parameters of the driver. */
    public Connection connect(String database, Map<String, String> parameters) throws SQLException {
        return DriverManager.getConnection(url(database, parameters), superuser(), superuserPassword());
    }

    public Connection connect(String database, String user, String password) throws SQLException {
        return DriverManager.getConnection(url(database), user, password);
    }

    /** Executes statements, separated by semicolons, as the superuser in the default database. */
    public void execute(String sql) throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    /** Returns the first column of all rows as text, asked as the superuser in the default database. */
    public List<String> query(String sql) throws SQLException {
        try (Connection connection = connect()) {
            return Sql.column(connection, sql);
        }
    }

    /** Creates an ordinary user who can log in. */
    public void createRole(String name, String password) throws SQLException {
        execute("CREATE ROLE " + identifier(name) + " LOGIN PASSWORD " + literal(password));
    }

    /** Creates an empty database. */
    public void createDatabase(String name) throws SQLException {
        execute("CREATE DATABASE " + identifier(name));
    }

    /** How a server goes down. */
    public enum ShutdownMode {
        /** Ends all sessions with a message (57P01) and closes in good order. */
        FAST(Signal.INT),
        /** Lets go of everything at once; the next start recovers as after a crash. */
        IMMEDIATE(Signal.QUIT);

        private final Signal signal;

        ShutdownMode(Signal signal) {
            this.signal = signal;
        }
    }

    public boolean isRunning() {
        return postmaster != null;
    }

    /**
     * Starts the server again on the same port with the same data, and returns when it accepts connections.
     *
     * @throws IllegalStateException if it is running, or doesn't start; the message has the end of its log then
     */
    public void start() {
        if (postmaster != null) {
            throw new IllegalStateException("the server on port " + port + " is already running");
        }
        try {
            // Not by the environment of this process: what changes the user must not see it.
            List<String> postgres = new ArrayList<>(List.of("env"));
            environment.forEach((name, value) -> postgres.add(name + "=" + value));
            postgres.addAll(List.of(binaries.program("postgres").toString(), "-D", data.toString()));
            Process started = new ProcessBuilder(UnprivilegedUser.command(postgres))
                    .redirectErrorStream(true)
                    .redirectOutput(Redirect.appendTo(log.toFile()))
                    .start();
            guard.watch(started);
            postmaster = started;
            killed = false;
            until("the server accepts connections", () -> !started.isAlive() || isReady(started));
            if (!started.isAlive()) {
                ended();
                throw new IllegalStateException("the server didn't start: " + endOfLog());
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Stops the server, also a frozen one, and returns when all its processes have ended. */
    public void stop(ShutdownMode mode) {
        Process running = postmaster();
        thaw();
        mode.signal.send(running.pid());
        awaitEnd(running, List.of());
    }

    /** Stops the server and starts it again. */
    public void restart(ShutdownMode mode) {
        stop(mode);
        start();
    }

    /**
     * Kills the server's main process, as the kernel does when it needs memory, and returns when the others have
     * followed.
     */
    public void killPostmaster() {
        Process running = postmaster();
        List<ProcessHandle> children = children(running);
        running.destroyForcibly();
        killed = true;
        // A frozen backend would outlive its postmaster and keep the shared memory that a new one refuses to share.
        Signal.CONT.sendToAll(children);
        awaitEnd(running, children);
    }

    /**
     * Stops all processes of the server where they are. The kernel goes on accepting connections and data for them, so
     * that the server looks like one behind a broken network.
     */
    public void freeze() {
        Process running = postmaster();
        // The postmaster first: it can't start new children then.
        Signal.STOP.send(running.pid());
        Signal.STOP.sendToAll(children(running));
    }

    /** Lets all processes of the server go on. */
    public void thaw() {
        Process running = postmaster();
        Signal.CONT.sendToAll(children(running));
        Signal.CONT.send(running.pid());
    }

    /**
     * Stops one session's process where it is, which then looks like a host that vanished.
     *
     * @return ends that by {@link FrozenBackend#close}
     * @throws IllegalArgumentException if the process isn't of this server
     */
    public FrozenBackend freezeBackend(int pid) {
        requireBackend(pid);
        Signal.STOP.send(pid);
        return new FrozenBackend(this, pid, System.nanoTime());
    }

    /** A session's process that was stopped; {@code frozenAtNanos} is {@link System#nanoTime}. */
    public record FrozenBackend(PostgresServer server, int pid, long frozenAtNanos) implements AutoCloseable {

        /** Returns for how long it has been stopped. */
        public Duration age() {
            return Duration.ofNanos(System.nanoTime() - frozenAtNanos);
        }

        /** Lets it go on. */
        @Override
        public void close() {
            server.thawBackend(pid);
        }
    }

    /**
     * Lets one session's process go on.
     *
     * @throws IllegalArgumentException if the process isn't of this server
     */
    public void thawBackend(int pid) {
        requireBackend(pid);
        Signal.CONT.send(pid);
    }

    /**
     * Has a session ended by the server, and doesn't wait for it.
     *
     * @throws IllegalArgumentException if there is no such session
     */
    public void terminateBackend(int pid) throws SQLException {
        if (!value("SELECT pg_terminate_backend(" + pid + ")").equals("t")) {
            throw new IllegalArgumentException("no session has the process id " + pid);
        }
    }

    /**
     * Has a session ended by the server and waits until it is gone.
     *
     * @throws IllegalStateException if it isn't in time, or there is no such session
     */
    public void endBackend(int pid) throws SQLException {
        if (!value("SELECT pg_terminate_backend(" + pid + ", " + PATIENCE.toMillis() + ")")
                .equals("t")) {
            throw new IllegalStateException("session " + pid + " didn't end, or there is none");
        }
    }

    /**
     * Changes a setting for this server and waits until new sessions have it; open sessions follow as soon as they are
     * idle. Not for settings that need a restart.
     */
    public void setting(String name, String value) throws SQLException {
        reload("ALTER SYSTEM SET " + name + " = " + literal(value));
    }

    /** Takes {@link #setting} back. */
    public void resetSetting(String name) throws SQLException {
        reload("ALTER SYSTEM RESET " + name);
    }

    /** Makes all transactions read-only, as platforms do that fence off a former primary. */
    public void fence() throws SQLException {
        setting("default_transaction_read_only", "on");
    }

    /** Takes {@link #fence} back. */
    public void unfence() throws SQLException {
        resetSetting("default_transaction_read_only");
    }

    /**
     * Starts a hot standby of this server, with a copy of its data and a port of its own, and returns when it streams.
     */
    public PostgresServer standby() throws SQLException {
        try {
            PostgresServer standby = new PostgresServer(tls, environment);
            try {
                backup(standby);
                standby.write("standby.signal", "");
                String primary = "host=" + LoopbackPorts.HOST + " port=" + port + " user=" + superuser() + " password="
                        + superuserPassword();
                standby.configure(Map.of("port", Integer.toString(standby.port), "primary_conninfo", primary));
                standby.start();
                String streaming = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'";
                until("the standby streams", () -> standby.value(streaming).equals("1"));
                return standby;
            } catch (IOException | SQLException | RuntimeException e) {
                standby.close();
                throw e;
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Makes a standby a primary; its sessions stay open. */
    public void promote() throws SQLException {
        boolean promoted =
                value("SELECT pg_promote(true, " + PATIENCE.toSeconds() + ")").equals("t");
        if (!promoted) {
            throw new IllegalStateException("the standby wasn't promoted: " + endOfLog());
        }
    }

    /** Stops the server and removes its data. */
    @Override
    public void close() {
        if (killed) {
            // Only a start cleans up the shared memory of a killed server.
            start();
        }
        if (postmaster != null) {
            stop(ShutdownMode.IMMEDIATE);
        }
        try {
            Directories.delete(directory);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        // Not before: if something above fails, the guard does it at the end of this JVM.
        guard.close();
    }

    @Override
    public String toString() {
        return "PostgreSQL on port " + port;
    }

    private void write(String name, String content) throws IOException {
        UnprivilegedUser.own(Files.writeString(data.resolve(name), content));
    }

    private void configure(Map<String, String> settings) throws IOException {
        String lines = settings.entrySet().stream()
                .map(setting -> setting.getKey() + " = " + literal(setting.getValue()) + "\n")
                .collect(Collectors.joining("", "\n", ""));
        Files.writeString(data.resolve("postgresql.conf"), lines, StandardOpenOption.APPEND);
    }

    private void authenticate(String method, List<String> clients, boolean everyRoad) throws IOException {
        String rules = clients.stream()
                .flatMap(client -> Stream.of("all", "replication")
                        .map(database -> "host " + database + " all " + client + "/32 " + method + "\n"))
                .collect(Collectors.joining());
        write(
                "pg_hba.conf",
                rules + (everyRoad ? "host all all ::1/128 " + method + "\nlocal all all " + method + "\n" : ""));
    }

    private boolean isReady(Process started) throws IOException {
        // https://github.com/postgres/postgres/blob/master/src/include/utils/pidfile.h: the pid is in the first line,
        // the state in the eighth. The file of a killed server stays until the next one replaces it.
        try {
            List<String> lines = Files.readAllLines(data.resolve("postmaster.pid"));
            return lines.size() >= 8
                    && lines.get(0).strip().equals(Long.toString(started.pid()))
                    && lines.get(7).strip().equals("ready");
        } catch (NoSuchFileException e) {
            return false;
        }
    }

    private void awaitEnd(Process running, List<ProcessHandle> children) {
        try {
            if (!running.waitFor(PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("the server doesn't stop: " + endOfLog());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while waiting for the end of " + this, e);
        }
        until("all server processes have ended", () -> children.stream().noneMatch(ProcessHandle::isAlive));
        ended();
    }

    private void ended() {
        guard.watchNone();
        postmaster = null;
    }

    private Process postmaster() {
        if (postmaster == null) {
            throw new IllegalStateException("the server on port " + port + " isn't running");
        }
        return postmaster;
    }

    private static List<ProcessHandle> children(Process running) {
        return running.toHandle().children().toList();
    }

    private void requireBackend(int pid) {
        boolean ours = children(postmaster()).stream().anyMatch(child -> child.pid() == pid);
        if (!ours) {
            throw new IllegalArgumentException("process " + pid + " doesn't belong to " + this);
        }
    }

    private void reload(String change) throws SQLException {
        String loaded = value("SELECT pg_conf_load_time()");
        execute(change);
        execute("SELECT pg_reload_conf()");
        // A new session's time is the one at which the postmaster loaded the configuration that this session has.
        until(
                "the configuration is loaded",
                () -> !value("SELECT pg_conf_load_time()").equals(loaded));
    }

    private void backup(PostgresServer target) throws SQLException, IOException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            // https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-LOWLEVEL-BASE-BACKUP
            boolean before15 = connection.getMetaData().getDatabaseMajorVersion() < 15;
            statement.execute(
                    before15
                            ? "SELECT pg_start_backup('standby', true, false)"
                            : "SELECT pg_backup_start('standby', true)");
            Directories.copy(data, target.data, PostgresServer::isInBackup);
            String stop = before15 ? "pg_stop_backup(false, false)" : "pg_backup_stop(false)";
            try (ResultSet backup = statement.executeQuery("SELECT * FROM " + stop)) {
                backup.next();
                target.write("backup_label", backup.getString("labelfile"));
            }
        }
    }

    private static boolean isInBackup(Path path) {
        String file = path.toString();
        return !file.equals("postmaster.pid") && !file.equals("postmaster.opts") && !isWal(file);
    }

    private static boolean isWal(String file) {
        // The standby gets it all from the primary, and the directory must exist.
        return file.matches("pg_wal/[0-9A-F]{24}.*");
    }

    private String value(String sql) throws SQLException {
        return query(sql).get(0);
    }

    private String endOfLog() {
        try {
            List<String> lines = Files.readAllLines(log);
            return String.join("\n", lines.subList(Math.max(0, lines.size() - 20), lines.size()));
        } catch (IOException e) {
            return "its log can't be read: " + e;
        }
    }

    private static void until(String condition, Callable<Boolean> reached) {
        try {
            Awaitility.await(condition)
                    .atMost(PATIENCE)
                    .pollDelay(Duration.ZERO)
                    .pollInterval(Duration.ofMillis(10))
                    .until(reached);
        } catch (ConditionTimeoutException e) {
            throw new IllegalStateException("not within " + PATIENCE.toSeconds() + " s: " + condition, e);
        }
    }

    private static String identifier(String name) {
        return "\"" + name.replace("\"", "\"\"") + "\"";
    }

    private static String literal(String value) {
        return "'" + value.replace("'", "''") + "'";
    }

    /** What a new server is to be like. */
    public static final class Builder {

        private final Map<String, String> settings = new LinkedHashMap<>();
        private Map<String, String> environment = Map.of();
        private final List<String> clients = new ArrayList<>(List.of(LoopbackPorts.HOST));
        private String authentication = "trust";
        private boolean tls;
        private boolean everyRoad;

        private Builder() {
            settings.put("listen_addresses", LoopbackPorts.HOST);
            settings.put("unix_socket_directories", "");
            settings.put("fsync", "off");
            settings.put("full_page_writes", "off");
            // In the data directory, where it goes away with the server, whatever becomes of that.
            settings.put("dynamic_shared_memory_type", "mmap");
        }

        /** Adds a line to {@code postgresql.conf}; {@link PostgresServer#setting} can override it later. */
        public Builder setting(String name, String value) {
            settings.put(name, value);
            return this;
        }

        /** Lets clients within this network connect to {@link NetworkNamespace#serverAddress()}. */
        public Builder reachableFrom(NetworkNamespace network) {
            clients.add(network.clientAddress());
            return setting("listen_addresses", LoopbackPorts.HOST + "," + network.serverAddress());
        }

        /** Has the server's processes take the time from this clock. */
        public Builder clock(WallClock clock) {
            environment = clock.environment();
            return this;
        }

        /** Listens on IPv6's loopback and on a Unix socket, too; see {@link PostgresServer#unixSocket()}. */
        public Builder everyRoad() {
            everyRoad = true;
            return setting("listen_addresses", LoopbackPorts.HOST + ",::1");
        }

        /** Asks for passwords (SCRAM-SHA-256), where by default everybody is trusted. */
        public Builder passwords() {
            authentication = "scram-sha-256";
            return this;
        }

        /** Offers TLS with a self-signed certificate for {@code localhost} and {@code 127.0.0.1}. */
        public Builder tls() {
            tls = true;
            return this;
        }

        /** Starts the server and returns when it accepts connections. */
        public PostgresServer launch() {
            try {
                PostgresServer server = new PostgresServer(tls, environment);
                try {
                    prepare(server);
                    server.start();
                    return server;
                } catch (IOException | RuntimeException e) {
                    server.close();
                    throw e;
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private void prepare(PostgresServer server) throws IOException {
            Directories.copy(server.binaries.dataTemplate(), server.data, path -> true);
            server.authenticate(authentication, clients, everyRoad);
            Map<String, String> all = new LinkedHashMap<>(settings);
            if (everyRoad) {
                all.put("unix_socket_directories", server.data.toString());
            }
            all.put("port", Integer.toString(server.port));
            if (tls) {
                ServerCertificate.create(server.data.resolve(CERTIFICATE), server.data.resolve(KEY));
                all.put("ssl", "on");
                all.put("ssl_cert_file", CERTIFICATE);
                all.put("ssl_key_file", KEY);
            }
            server.configure(all);
        }
    }

    private static final class Shared {

        static final PostgresServer SERVER = launchShared();

        private static PostgresServer launchShared() {
            PostgresServer server = PostgresServer.launch();
            Runtime.getRuntime().addShutdownHook(new Thread(server::close, "shared PostgreSQL shutdown"));
            return server;
        }
    }
}
