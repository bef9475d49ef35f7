package dev.pgleader.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.util.ArrayList;
import java.util.List;

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
    }

    /** Sends this signal to each of the processes that still exists. */
    void sendToAll(List<ProcessHandle> processes) {
        List<Long> pids = processes.stream().map(ProcessHandle::pid).toList();
        if (!pids.isEmpty() && !sent(pids) && processes.stream().allMatch(ProcessHandle::isAlive)) {
            throw new IllegalStateException("SIG" + this + " could not be sent to each of the processes " + pids);
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
