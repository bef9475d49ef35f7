package dev.pgleader.lock;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** Starts a {@code main} of the tests in a JVM of its own. */
final class ForkedJvm {

    private ForkedJvm() {}

    static Process start(String classPath, List<String> options, Class<?> main, String... arguments)
            throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(options);
        command.addAll(List.of("-cp", classPath, main.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command).redirectErrorStream(true).start();
    }

    static String classPath() {
        return System.getProperty("java.class.path");
    }

    static String classPathWithout(String... artifacts) {
        return Arrays.stream(classPath().split(File.pathSeparator))
                .filter(entry -> Arrays.stream(artifacts).noneMatch(entry::contains))
                .collect(Collectors.joining(File.pathSeparator));
    }
}
