package dev.pgleader.testkit;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.concurrent.ThreadLocalRandom;

/** Picks free TCP ports of the loopback interface. */
final class LoopbackPorts {

    static final String HOST = "127.0.0.1";

    // Below the range from which the kernel takes the ports of outgoing connections. While a server of ours is down,
    // nobody is given its port then, and a client that keeps dialling it can't end up connected to itself.
    private static final int FIRST = 15_000;
    private static final int COUNT = 17_000;

    private LoopbackPorts() {}

    /** Returns a port on which nobody listens now. */
    static int free() {
        for (int attempt = 0; attempt < 1_000; attempt++) {
            int port = FIRST + ThreadLocalRandom.current().nextInt(COUNT);
            if (isFree(port)) {
                return port;
            }
        }
        throw new IllegalStateException("no free port from " + FIRST + " to " + (FIRST + COUNT - 1));
    }

    static InetSocketAddress address(int port) {
        return new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    }

    private static boolean isFree(int port) {
        try (ServerSocket socket = new ServerSocket()) {
            socket.bind(address(port));
            return socket.isBound();
        } catch (IOException e) {
            return false;
        }
    }
}
