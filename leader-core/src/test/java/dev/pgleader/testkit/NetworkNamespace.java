package dev.pgleader.testkit;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A network of its own for a client's process, with a cable to the machine's that can be pulled: the kernel of neither
 * side ever hears of the other again. Linux only, for root: see {@link #available}.
 *
 * <p>It ends with this JVM, however that ends. Not safe for use by several threads.
 */
public final class NetworkNamespace implements AutoCloseable {

    // https://www.rfc-editor.org/rfc/rfc2544: for tests of networks, so nobody's real address.
    private static final String PREFIX = "198.18.";

    private final Process holder;
    private final String interfaceName;
    private final String subnet;
    private final int firstHost;

    private NetworkNamespace() throws IOException {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        interfaceName = "pgl" + Integer.toHexString(random.nextInt(0x1000_0000));
        subnet = PREFIX + random.nextInt(256) + ".";
        firstHost = 4 * random.nextInt(64) + 1;
        // The namespace lives as long as a process in it: one that ends with its standard input.
        holder = new ProcessBuilder("unshare", "--net", "sh", "-c", "echo ready; exec cat").start();
    }

    /** Makes a network, with the cable plugged in. */
    public static NetworkNamespace create() {
        try {
            NetworkNamespace network = new NetworkNamespace();
            try {
                network.plug();
                return network;
            } catch (IOException e) {
                network.holder.destroyForcibly();
                throw e;
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Tells whether this user on this machine may make one. */
    public static boolean available() {
        try {
            Command.run(List.of("unshare", "--net", "ip", "link", "set", "lo", "up"));
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    /** Returns the machine's address, as seen from within. */
    public String serverAddress() {
        return subnet + firstHost;
    }

    String clientAddress() {
        return subnet + (firstHost + 1);
    }

    /** Returns what starts a program within: the command continues with the program. */
    List<String> launcher() {
        return List.of("nsenter", "--net=/proc/" + holder.pid() + "/ns/net", "--");
    }

    /** Pulls the cable for good. */
    public void unplug() {
        try {
            // At the far end: here there is still a route, and what is sent is lost.
            within("ip", "link", "set", peer(), "down");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Ends the network; processes within should have ended before. */
    @Override
    public void close() {
        try {
            // The kernel itself would keep it for as long as it tries to say goodbye for connections within.
            Command.run(List.of("ip", "link", "delete", interfaceName));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            holder.destroyForcibly();
        }
        try {
            holder.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void plug() throws IOException {
        // Once it has said so, it is in its own namespace.
        if (holder.getInputStream().read() < 0) {
            throw new IOException("no network namespace: "
                    + new String(holder.getErrorStream().readAllBytes(), UTF_8));
        }
        String peer = peer();
        // Both ends in one step, so that none stays behind whenever this JVM is killed.
        Command.run(List.of(
                "ip",
                "link",
                "add",
                interfaceName,
                "type",
                "veth",
                "peer",
                "name",
                peer,
                "netns",
                Long.toString(holder.pid())));
        Command.run(List.of("ip", "address", "add", serverAddress() + "/30", "dev", interfaceName));
        Command.run(List.of("ip", "link", "set", interfaceName, "up"));
        within("ip", "address", "add", clientAddress() + "/30", "dev", peer);
        within("ip", "link", "set", peer, "up");
    }

    private void within(String... command) throws IOException {
        List<String> all = new ArrayList<>(launcher());
        all.addAll(List.of(command));
        Command.run(all);
    }

    private String peer() {
        return interfaceName + "p";
    }
}
