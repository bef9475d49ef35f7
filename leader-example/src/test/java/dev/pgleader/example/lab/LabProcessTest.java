package dev.pgleader.example.lab;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The lab as the command that starts it: what it says, how it ends, and what is left of it. */
class LabProcessTest {

    @TempDir
    Path temporaryFiles;

    @ParameterizedTest
    @ValueSource(strings = {"TERM", "KILL"})
    void leavesNothingBehindHoweverItEnds(String signal) throws Exception {
        try (Command lab = new Command("--port", "0", "--nodes", "2")) {
            String address = lab.awaitAddress();
            // What is stopped doesn't see that its supervisor is gone.
            press(address, "/api/nodes/node-1/pause");
            List<ProcessHandle> all = lab.processes();
            assertThat(all)
                    .as("lab, guard, two nodes, the server and its children")
                    .hasSizeGreaterThan(8);

            lab.send(signal);
            assertThat(lab.process.waitFor(60, TimeUnit.SECONDS)).isTrue();
            RunningLab.until("all processes have ended")
                    .until(() -> all.stream().noneMatch(ProcessHandle::isAlive));
            RunningLab.until("its data is removed").until(() -> {
                try (Stream<Path> files = Files.list(temporaryFiles)) {
                    return files.noneMatch(file -> file.getFileName().toString().startsWith("pg-leader-lab-"));
                }
            });
        }
    }

    @Test
    void saysWhichPortIsTaken() throws Exception {
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                Command lab = new Command("--port", Integer.toString(taken.getLocalPort()))) {
            assertThat(lab.output())
                    .isEqualTo("The port " + taken.getLocalPort() + " is taken; choose another one with --port");
            assertThat(lab.process.waitFor()).isEqualTo(1);
        }
    }

    @Test
    void saysThatThereIsNoMemory() throws Exception {
        try (Command lab = new Command("--port", "0", "--nodes", "1", "--node-heap", "1000000")) {
            assertThat(lab.output()).startsWith("There is no memory for another node: 1000064 MiB are needed, and ");
            assertThat(lab.process.waitFor()).isEqualTo(1);
        }
    }

    @Test
    void saysWhichOptionItDoesNotKnow() throws Exception {
        try (Command lab = new Command("--prot", "8081")) {
            assertThat(lab.output()).startsWith("Unknown option --prot; usage: ");
            assertThat(lab.process.waitFor()).isEqualTo(2);
        }
    }

    private Optional<Path> serverData() throws IOException {
        try (Stream<Path> files = Files.list(temporaryFiles)) {
            return files.filter(file -> file.getFileName().toString().startsWith("pg-leader-lab-"))
                    .findFirst();
        }
    }

    /** The server isn't a child of the lab. */
    private ProcessHandle server() throws IOException {
        Path pidFile = serverData().orElseThrow().resolve("postmaster.pid");
        return ProcessHandle.of(Long.parseLong(Files.readAllLines(pidFile).get(0)))
                .orElseThrow();
    }

    private static void press(String address, String path) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address + path))
                .header("Origin", address)
                .POST(BodyPublishers.noBody())
                .build();
        assertThat(HttpClient.newHttpClient()
                        .send(request, BodyHandlers.ofString())
                        .statusCode())
                .isEqualTo(200);
    }

    /** The command of the lab in a process of its own. */
    private final class Command implements AutoCloseable {

        final Process process;
        private final BufferedReader output;

        Command(String... arguments) throws IOException {
            List<String> command = new ArrayList<>();
            command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
            command.addAll(List.of("-XX:TieredStopAtLevel=1", "-Djava.io.tmpdir=" + temporaryFiles));
            command.addAll(List.of("-cp", System.getProperty("java.class.path"), LabApplication.class.getName()));
            command.addAll(List.of(arguments));
            process = new ProcessBuilder(command).redirectErrorStream(true).start();
            output = process.inputReader(UTF_8);
        }

        String awaitAddress() throws IOException {
            String line = output.readLine();
            assertThat(line).startsWith("The lab is at http://127.0.0.1:");
            return line.split(" ", 6)[4];
        }

        /** All that it prints until it ends. */
        String output() {
            return String.join("\n", output.lines().toList());
        }

        List<ProcessHandle> processes() throws IOException {
            List<ProcessHandle> all = new ArrayList<>();
            for (ProcessHandle root : List.of(process.toHandle(), server())) {
                all.add(root);
                all.addAll(root.descendants().toList());
            }
            return all;
        }

        void send(String signal) throws Exception {
            int exit = new ProcessBuilder("sh", "-c", "kill -s " + signal + " " + process.pid())
                    .start()
                    .waitFor();
            assertThat(exit).isZero();
        }

        @Override
        public void close() {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
        }
    }
}
