package dev.pgleader;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.Nullable;

/** How an instance calls itself where nobody names it: by its host, its process and a few random digits. */
final class InstanceId {

    /** What remains of the 63 bytes of an application name, after {@code pg-leader/}. */
    static final int LONGEST = 53;

    private static final String UNKNOWN = "unknown-host";

    private InstanceId() {}

    static String ofThisProcess() {
        return of(
                hostName(),
                System.getenv("HOSTNAME"),
                ProcessHandle.current().pid(),
                ThreadLocalRandom.current().nextInt(0x1000, 0x10000));
    }

    private static @Nullable String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            // A container's own name often doesn't resolve in it.
            return null;
        }
    }

    /**
     * Shortens at the front: the pods of one deployment have names that differ in their ends.
     *
     * @param hostName null if it doesn't resolve
     * @param fromEnvironment what the platform says; null if it says nothing
     */
    static String of(@Nullable String hostName, @Nullable String fromEnvironment, long pid, int random) {
        String host = hostName != null ? hostName : fromEnvironment != null ? fromEnvironment : "";
        String printable = host.isBlank() ? UNKNOWN : host.strip().replaceAll("[^A-Za-z0-9._-]", "_");
        String unique = "-" + pid + "-" + Integer.toHexString(random);
        int longest = LONGEST - unique.length();
        return printable.substring(Math.max(0, printable.length() - longest)) + unique;
    }
}
