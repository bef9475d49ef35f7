package dev.pgleader.testkit;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.UserPrincipal;
import java.util.ArrayList;
import java.util.List;

/**
 * The user that servers run as. PostgreSQL and PgBouncer refuse to run as root, so tests that run as root start them as
 * {@code nobody}; an ordinary user starts them as himself.
 */
final class UnprivilegedUser {

    private static final String NOBODY = "nobody";

    // Its name differs between distributions.
    private static final int NO_GROUP = 65_534;

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
