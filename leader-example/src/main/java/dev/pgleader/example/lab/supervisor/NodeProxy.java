package dev.pgleader.example.lab.supervisor;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A node's network: forwards connections from a loopback port of its own to the server. While it is cut, whatever is sent is
 * swallowed, in both directions, also the end of a connection: neither side learns that the other can't be reached.
 * Thread-safe.
 */
final class NodeProxy implements AutoCloseable {

    private static final int BUFFER_BYTES = 1 << 14;
    private static final int CONNECT_TIMEOUT_MILLIS = 2_000;

    private final String name;
    private final int targetPort;
    private final ServerSocket listener;
    private final Set<Link> links = ConcurrentHashMap.newKeySet();
    private volatile boolean cut;

    NodeProxy(String node, int targetPort) throws IOException {
        this.name = node + "-proxy";
        this.targetPort = targetPort;
        this.listener = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());
        start(this::acceptAll);
    }

    int port() {
        return listener.getLocalPort();
    }

    boolean isCut() {
        return cut;
    }

    void cut() {
        cut = true;
    }

    /** New connections pass. Those that were open lost bytes, and end. */
    void heal() {
        cut = false;
        links.forEach(Link::endIfTorn);
    }

    @Override
    public void close() throws IOException {
        listener.close();
        links.forEach(Link::end);
    }

    private void acceptAll() {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                start(() -> connect(client));
            } catch (IOException e) {
                // Closed, or the client is gone already.
            }
        }
    }

    private void connect(Socket client) {
        Socket server = new Socket();
        Link link = new Link(client, server);
        links.add(link);
        try {
            if (cut) {
                link.torn = true;
            } else {
                server.connect(
                        new InetSocketAddress(InetAddress.getLoopbackAddress(), targetPort), CONNECT_TIMEOUT_MILLIS);
                server.setTcpNoDelay(true);
                start(() -> link.forward(server, client));
            }
            client.setTcpNoDelay(true);
            link.forward(client, server);
        } catch (IOException e) {
            link.end();
        }
    }

    private void start(Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Two sockets that are one connection to client and server. */
    private final class Link {

        private final Socket client;
        private final Socket server;
        /** Something was swallowed, so that nothing may pass any more. */
        private volatile boolean torn;

        Link(Socket client, Socket server) {
            this.client = client;
            this.server = server;
        }

        void forward(Socket from, Socket to) {
            byte[] buffer = new byte[BUFFER_BYTES];
            try {
                InputStream in = from.getInputStream();
                for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
                    if (isTorn()) {
                        continue;
                    }
                    OutputStream out = to.getOutputStream();
                    out.write(buffer, 0, count);
                }
            } catch (IOException e) {
                // A reset ends a connection as an orderly end does.
            }
            if (!isTorn()) {
                end();
            }
        }

        /** Called for whatever is to be forwarded: it's lost if the network is cut, and then the link is of no use. */
        private boolean isTorn() {
            if (cut) {
                torn = true;
            }
            if (torn && !cut) {
                end(); // it was healed in the meantime
            }
            return torn;
        }

        void endIfTorn() {
            if (torn) {
                end();
            }
        }

        void end() {
            links.remove(this);
            closeQuietly(client);
            closeQuietly(server);
        }

        private void closeQuietly(Socket socket) {
            try {
                socket.close();
            } catch (IOException e) {
                // It's of no use any more either way.
            }
        }
    }
}
