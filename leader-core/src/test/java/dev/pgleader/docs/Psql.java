package dev.pgleader.docs;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.pgleader.testkit.PostgresServer;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** PostgreSQL's own psql, where it's installed. */
final class Psql {

    private Psql() {}

    static boolean isInstalled() {
        return Pattern.compile(File.pathSeparator)
                .splitAsStream(System.getenv().getOrDefault("PATH", ""))
                .flatMap(directory -> Stream.of(Path.of(directory, "psql")))
                .anyMatch(Files::isExecutable);
    }

    /** What it prints when somebody types this, with a file of variables that it reads when it starts. */
    static String run(PostgresServer server, String database, Map<String, String> variables, Path file, String typed)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("psql", "--no-password"));
        variables.forEach((name, value) -> command.addAll(List.of("-v", name + "=" + value)));
        command.add("host=127.0.0.1 port=" + server.port() + " dbname=" + database + " user=" + server.superuser());
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().put("PSQLRC", file.toString());
        builder.environment().put("PGPASSWORD", server.superuserPassword());
        Process process = builder.start();
        process.getOutputStream().write(typed.getBytes(UTF_8));
        process.getOutputStream().close();
        String output = new String(process.getInputStream().readAllBytes(), UTF_8);
        process.waitFor();
        return output;
    }
}
