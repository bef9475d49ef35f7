package dev.pgleader.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * A Pgpool-II of the test's own before one or several {@link PostgresServer servers}, which trust it. Needs an installed
 * {@code pgpool}: see {@link #available}.
 */
public final class Pgpool extends Pooler {

    /** Why tests are skipped where it isn't {@link #available}. */
    public static final String MISSING = "no pgpool (apt-get install pgpool2)";

    private static final String NAME = "pgpool";

    /** What it makes of its servers, {@code backend_clustering_mode}. */
    public enum Clustering {
        /** It only passes on, to the first server that is there. */
        RAW,
        /** A primary and its standbys. */
        STREAMING_REPLICATION,
        /** Primaries, to each of which it sends what is written. */
        NATIVE_REPLICATION
    }

    private Pgpool(List<PostgresServer> servers, Map<String, String> settings) throws IOException {
        super(NAME, Signal.INT, (directory, port) -> {
            Map<String, String> all = new LinkedHashMap<>();
            all.put("port", Integer.toString(port));
            all.put("pcp_port", Integer.toString(LoopbackPorts.free()));
            all.put("pid_file_name", directory.resolve("pgpool.pid").toString());
            for (String place : List.of("socket_dir", "pcp_socket_dir", "wd_ipc_socket_dir", "logdir")) {
                all.put(place, directory.toString());
            }
            for (int node = 0; node < servers.size(); node++) {
                all.put("backend_hostname" + node, LoopbackPorts.HOST);
                all.put(
                        "backend_port" + node,
                        Integer.toString(servers.get(node).port()));
                all.put("backend_weight" + node, "1");
            }
            all.putAll(settings);
            Path configuration = write(
                    directory.resolve("pgpool.conf"),
                    lines(all, setting -> setting.getKey() + " = '" + setting.getValue() + "'"));
            Path users = write(directory.resolve("pcp.conf"), "");
            Path clients = write(directory.resolve("pool_hba.conf"), "");
            return List.of("-n", "-f", configuration.toString(), "-F", users.toString(), "-a", clients.toString());
        });
    }

    /** Tells whether Pgpool-II is installed, in the search path or where Debian puts it. */
    public static boolean available() {
        return program(NAME).isPresent();
    }

    /** Begins to describe a Pgpool-II before servers. */
    public static Builder before(PostgresServer... servers) {
        return new Builder(List.of(servers));
    }

    /** What a new Pgpool-II is to be like. */
    public static final class Builder {

        private final List<PostgresServer> servers;
        private final Map<String, String> settings = new LinkedHashMap<>();

        private Builder(List<PostgresServer> servers) {
            this.servers = servers;
            settings.put("listen_addresses", LoopbackPorts.HOST);
            settings.put("pcp_listen_addresses", LoopbackPorts.HOST);
            settings.put("sr_check_user", PostgresBinaries.SUPERUSER);
            settings.put("num_init_children", "12");
            // By default over 100 MB of shared memory, for a cache that nobody asked for.
            settings.put("memqcache_total_size", "4MB");
            // Else it takes a session that was terminated for the end of its server, and the server out of use.
            settings.put("failover_on_backend_shutdown", "off");
            settings.put("memqcache_max_num_cache", "1000");
        }

        public Builder clustering(Clustering mode) {
            return setting("backend_clustering_mode", mode.name().toLowerCase(Locale.ROOT));
        }

        /** Adds a line to its configuration. */
        public Builder setting(String name, String value) {
            settings.put(name, value);
            return this;
        }

        /** Starts Pgpool-II and returns when it accepts connections. */
        public Pgpool launch() {
            try {
                return started(new Pgpool(servers, settings));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
