package dev.pgleader.example.lab.supervisor;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;

/** A POSIX signal that {@link ProcessHandle} can't send. */
enum Signal {
    STOP,
    CONT;

    /** @throws LabRefusal if there is no such process */
    void send(long pid) {
        try {
            // The shell's own kill: a slim container has no kill program.
            Process kill = new ProcessBuilder("sh", "-c", "kill -s \"$0\" \"$1\"", name(), Long.toString(pid))
                    .redirectErrorStream(true)
                    .redirectOutput(Redirect.DISCARD)
                    .start();
            if (kill.waitFor() != 0) {
                throw new LabRefusal("SIG" + this + " could not be sent: process " + pid + " has ended");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LabRefusal("Interrupted while sending SIG" + this);
        }
    }
}
