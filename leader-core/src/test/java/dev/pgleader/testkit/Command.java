package dev.pgleader.testkit;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.util.List;

/** A program that runs to its end. */
final class Command {

    private Command() {}

    /**
     * Runs a program without input and waits for its end.
     *
     * @throws IOException if it can't be started or fails; the message has its output
     */
    static void run(List<String> command) throws IOException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String output = new String(process.getInputStream().readAllBytes(), UTF_8);
        try {
            int exitCode = process.waitFor();
            if (exitCode != 0) {
                throw new IOException(command + " ended with " + exitCode + ": " + output);
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while waiting for " + command, e);
        }
    }
}
