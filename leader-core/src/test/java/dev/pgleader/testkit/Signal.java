package dev.pgleader.testkit;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** A POSIX signal; {@link ProcessHandle} can send only two of them. */
public enum Signal {
    STOP,
    CONT,
    INT,
    QUIT,
    TERM;

    /**
     * Sends this signal to one process.
     *
     * @throws IllegalStateException if there is no such process or it belongs to somebody else
     */
    public void send(long pid) {
        if (!sent(List.of(pid))) {
            throw new IllegalStateException("SIG" + this + " could not be sent to process " + pid);
        }
        if (this == STOP) {
            awaitStopped(List.of(pid));
        }
    }

    /** Sends this signal to each of the processes that still exists. */
    void sendToAll(List<ProcessHandle> processes) {
        List<Long> pids = processes.stream().map(ProcessHandle::pid).toList();
        if (!pids.isEmpty() && !sent(pids) && processes.stream().allMatch(ProcessHandle::isAlive)) {
            throw new IllegalStateException("SIG" + this + " could not be sent to each of the processes " + pids);
        }
        if (this == STOP) {
            awaitStopped(pids);
        }
    }

    /** On a busy machine a process goes on for a while after it was told to stop. */
    private static void awaitStopped(List<Long> pids) {
        await().atMost(Duration.ofMinutes(1)).until(() -> pids.stream().allMatch(Signal::isStopped));
    }

    /** Whether all threads of the process stand still, or it's gone; true where the system doesn't tell. */
    private static boolean isStopped(long pid) {
        try (Stream<Path> threads = Files.list(Path.of("/proc", Long.toString(pid), "task"))) {
            return threads.allMatch(Signal::isThreadStopped);
        } catch (IOException e) {
            return true;
        }
    }

    /** See proc_pid_stat(5): the state follows the name, which is in brackets. */
    private static boolean isThreadStopped(Path thread) {
        try {
            String status = Files.readString(thread.resolve("stat"));
            return "TtZX".indexOf(status.charAt(status.lastIndexOf(')') + 2)) >= 0;
        } catch (IOException e) {
            return true;
        }
    }

    private boolean sent(List<Long> pids) {
        // The shell's own kill: a slim container has no kill program.
        List<String> command = new ArrayList<>(List.of("sh", "-c", "kill -s \"$0\" \"$@\"", name()));
        pids.forEach(pid -> command.add(Long.toString(pid)));
        try {
            Process kill = new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(Redirect.DISCARD)
                    .start();
            return kill.waitFor() == 0;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while sending SIG" + this + " to " + pids, e);
        }
    }
}
