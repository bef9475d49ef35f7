package dev.pgleader.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.UserPrincipal;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The user that servers run as. PostgreSQL and PgBouncer refuse to run as root, so tests that run as root start them as
 * {@code nobody}; an ordinary user starts them as himself.
 */
final class UnprivilegedUser {

    private static final String NOBODY = "nobody";

    // Its name differs between distributions.
    private static final int NO_GROUP = 65_534;

    // Beyond those that systems give away.
    private static final int FIRST_FREE_USER = 1_000_000_000;

    private UnprivilegedUser() {}

    static String name() throws IOException {
        return isRoot() ? NOBODY : System.getProperty("user.name");
    }

    /** Returns {@code command} such that it runs as this user, with the process id that the caller's child gets. */
    static List<String> command(List<String> command) throws IOException {
        if (!isRoot()) {
            return command;
        }
        List<String> dropped =
                new ArrayList<>(List.of("setpriv", "--reuid=" + NOBODY, "--regid=" + NO_GROUP, "--clear-groups", "--"));
        dropped.addAll(command);
        return dropped;
    }

    /** What to begin a command with, so that it runs as a user who is nobody else, and may read all files. */
    static List<String> launcherThatReadsAll() {
        try {
            String caps = "-all,+dac_override";
            String user = Integer.toString(
                    FIRST_FREE_USER + ThreadLocalRandom.current().nextInt(100_000));
            return isRoot()
                    ? List.of(
                            "setpriv",
                            "--reuid=" + user,
                            "--clear-groups",
                            "--inh-caps=" + caps,
                            "--ambient-caps=" + caps,
                            "--")
                    : List.of();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Makes this user the owner of {@code path}. */
    static void own(Path path) throws IOException {
        if (isRoot()) {
            UserPrincipal nobody =
                    path.getFileSystem().getUserPrincipalLookupService().lookupPrincipalByName(NOBODY);
            Files.setOwner(path, nobody);
        }
    }

    private static boolean isRoot() throws IOException {
        return Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0);
    }
}
