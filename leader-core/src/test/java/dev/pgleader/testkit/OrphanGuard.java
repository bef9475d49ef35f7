package dev.pgleader.testkit;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Ends a process and removes its directory when this JVM dies without having done so: killed, for instance. A shell
 * waits for the end of its standard input, which comes with the end of this JVM, however that ends. Stopped (SIGSTOP)
 * processes are ended too.
 *
 * <p>Not safe for use by several threads.
 */
final class OrphanGuard implements AutoCloseable {

    private static final String SCRIPT = """
            trap '' HUP INT TERM
            pid=
            while read -r line; do
                case $line in
                    done) exit 0 ;;
                    none) pid= ;;
                    *) pid=$line ;;
                esac
            done
            if [ -n "$pid" ]; then
                kill -s "$0" "$pid"
                kill -s CONT "$pid" $(cat "/proc/$pid/task/$pid/children")
                tries=50
                while [ $tries -gt 0 ] && kill -s 0 "$pid"; do
                    tries=$((tries - 1))
                    sleep 0.1
                done
                [ $tries -gt 0 ] || kill -s KILL "$pid" $(cat "/proc/$pid/task/$pid/children")
            fi
            [ -z "$1" ] || rm -rf "$1"
            """;

    private final Process shell;
    private final OutputStream orders;

    /**
     * @param ending the name of the signal that ends a watched process at once
     * @param directory what to remove after that
     */
    OrphanGuard(String ending, @Nullable Path directory) {
        try {
            shell = new ProcessBuilder("sh", "-c", SCRIPT, ending, directory == null ? "" : directory.toString())
                    .redirectErrorStream(true)
                    .redirectOutput(Redirect.DISCARD)
                    .start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        orders = shell.getOutputStream();
    }

    /** Watches this process, in place of any earlier one. */
    void watch(Process process) {
        order(Long.toString(process.pid()));
    }

    /** Watches no process: the earlier one has ended, and its number may be given to another. */
    void watchNone() {
        order("none");
    }

    /** Ends the guard; nothing is done to process and directory. */
    @Override
    public void close() {
        if (!shell.isAlive()) {
            return;
        }
        order("done");
        try {
            if (!shell.waitFor(10, TimeUnit.SECONDS)) {
                shell.destroyForcibly();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void order(String order) {
        try {
            orders.write((order + "\n").getBytes(US_ASCII));
            orders.flush();
        } catch (IOException e) {
            throw new UncheckedIOException("the guard has ended", e);
        }
    }
}
