package dev.pgleader.example.lab.supervisor;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.io.IOException;
import java.io.OutputStream;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * Cleans up after a supervisor that was killed. A shell waits for the end of its standard input, which comes with the end of
 * this JVM, however that ends; then it kills the nodes, also stopped ones, which can't see that their own input ended, and
 * the server, and removes the server's data. Thread-safe.
 */
final class OrphanGuard implements AutoCloseable {

    // Ctrl-C reaches all processes of the terminal: the guard has to outlive that.
    private static final String SCRIPT = """
            trap '' HUP INT TERM
            data=$0
            nodes=
            while read -r order pid; do
                case $order in
                    watch) nodes="$nodes $pid" ;;
                    forget)
                        kept=
                        for node in $nodes; do [ "$node" = "$pid" ] || kept="$kept $node"; done
                        nodes=$kept
                        ;;
                    done) exit 0 ;;
                esac
            done
            [ -z "$nodes" ] || kill -s KILL $nodes
            if read -r server < "$data/postmaster.pid"; then
                kill -s QUIT "$server"
                tries=50
                while [ $tries -gt 0 ] && kill -s 0 "$server"; do
                    tries=$((tries - 1))
                    sleep 0.1
                done
                [ $tries -gt 0 ] || kill -s KILL "$server"
            fi
            rm -rf "$data"
            """;

    private final Process shell;
    private final OutputStream orders;

    /** @param serverData the data directory of the server */
    OrphanGuard(Path serverData) throws IOException {
        shell = new ProcessBuilder("sh", "-c", SCRIPT, serverData.toString())
                .redirectErrorStream(true)
                .redirectOutput(Redirect.DISCARD)
                .start();
        orders = shell.getOutputStream();
    }

    void watch(long pid) {
        order("watch " + pid);
    }

    /** That process has ended, and its number may be given to another. */
    void forget(long pid) {
        order("forget " + pid);
    }

    /** Ends the guard: everything has ended in order. */
    @Override
    public void close() {
        order("done");
        try {
            if (!shell.waitFor(5, TimeUnit.SECONDS)) {
                shell.destroyForcibly();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private synchronized void order(String order) {
        try {
            orders.write((order + "\n").getBytes(US_ASCII));
            orders.flush();
        } catch (IOException e) {
            // Somebody killed the guard. The lab goes on without a net.
            if (shell.isAlive()) {
                throw new LabFailure("The guard of the lab's processes can't be reached", e);
            }
        }
    }
}
