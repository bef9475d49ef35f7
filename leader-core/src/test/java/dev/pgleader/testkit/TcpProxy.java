package dev.pgleader.testkit;

import static java.net.StandardSocketOptions.SO_LINGER;
import static java.net.StandardSocketOptions.TCP_NODELAY;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * A network between a client and a server that breaks on demand: it forwards TCP connections from a loopback port of
 * its own to a target, and can swallow, hold, delay, cut and reset them.
 *
 * <p>Safe for use by several threads. One thread of the proxy does all the work, changes included: when a method has
 * returned, no byte is treated by the rules from before.
 */
public final class TcpProxy implements AutoCloseable {

    /** One of the two ways through a connection. */
    public enum Direction {
        CLIENT_TO_SERVER,
        SERVER_TO_CLIENT;

        private Direction opposite() {
            return this == CLIENT_TO_SERVER ? SERVER_TO_CLIENT : CLIENT_TO_SERVER;
        }
    }

    /** What happens to bytes (and to the end of a stream, and to resets) that come in at one end. */
    public enum Flow {
        /** They go on, after whatever was held before. */
        PASS,
        /**
         * They are read and dropped, as are those held or delayed: the sender believes them delivered, and neither side
         * ever learns that the other is gone. Not to be healed: a stream that has lost bytes must not pass on.
         */
        SWALLOW,
        /**
         * They are read and kept until they may {@link #PASS}: a network that is down for a while, to a sender with
         * little to say.
         */
        HOLD,
        /** They aren't read: the sender's writes block once the buffers of the kernel are full. Nothing is lost. */
        STALL
    }

    /** The connections that a change applies to. */
    public interface Traffic {

        /** Changes what happens in one direction. */
        void flow(Direction direction, Flow flow);

        /** Delays what comes in from now on in one direction; the order is kept. {@link Duration#ZERO} ends that. */
        void delay(Direction direction, Duration delay);

        /** Changes what happens in both directions. */
        default void flow(Flow flow) {
            flow(Direction.CLIENT_TO_SERVER, flow);
            flow(Direction.SERVER_TO_CLIENT, flow);
        }
    }

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final int port;
    private final Selector selector;
    private final Thread thread;
    private final AtomicInteger accepted = new AtomicInteger();
    private final AtomicInteger requests = new AtomicInteger();
    private final Queue<FutureTask<?>> orders = new ArrayDeque<>();
    private boolean ended; // guarded by orders

    // For the thread of the proxy only.
    private final List<Connection> connections = new ArrayList<>();
    private final List<Trigger> triggers = new ArrayList<>();
    private final Map<Direction, Flow> initialFlows = new EnumMap<>(Direction.class);
    private final Map<Direction, Duration> initialDelays = new EnumMap<>(Direction.class);
    private InetSocketAddress target;
    private @Nullable ServerSocketChannel listener;
    private boolean closing;

    /** Forwards to a port of the loopback interface. */
    public TcpProxy(int targetPort) {
        this(LoopbackPorts.address(targetPort));
    }

    public TcpProxy(InetSocketAddress target) {
        this.target = target;
        port = LoopbackPorts.free();
        try {
            selector = Selector.open();
            listener = listen();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        thread = new Thread(this::run, "TCP proxy on port " + port);
        thread.setDaemon(true);
        thread.start();
    }

    /** Returns the port to connect to, on the loopback interface. It stays the same for the life of the proxy. */
    public int port() {
        return port;
    }

    /** Leads new connections to another port of the loopback interface; open connections stay where they are. */
    public void target(int newPort) {
        order(() -> target = LoopbackPorts.address(newPort));
    }

    /** Returns how many connections have been accepted since the start. */
    public int acceptedConnections() {
        return accepted.get();
    }

    /**
     * Returns how many requests clients have begun since the start: how often one of them spoke first, or after the
     * server had spoken on its connection.
     */
    public int requests() {
        return requests.get();
    }

    /** Returns the open connections, oldest first; those of which one side is kept in the dark are among them. */
    public List<Connection> connections() {
        return ask(() -> List.copyOf(connections));
    }

    /** Refuses new connections (the port is closed) until {@link #accept}. */
    public void refuse() {
        order(this::closeListener);
    }

    /** Accepts connections again, on the same port. */
    public void accept() {
        order(() -> {
            if (listener == null) {
                listener = listen();
            }
        });
    }

    /** The connections that are open when the change is made. */
    public Traffic existing() {
        return traffic(true, false);
    }

    /** The connections that are opened after the change. */
    public Traffic future() {
        return traffic(false, true);
    }

    /** The connections that are open when the change is made, and those that are opened after it. */
    public Traffic all() {
        return traffic(true, true);
    }

    /** Closes each open connection in good order (FIN); what is still held or delayed is lost. */
    public void cut() {
        connections().forEach(Connection::cut);
    }

    /** Resets each open connection (RST), at both ends. */
    public void reset() {
        connections().forEach(Connection::reset);
    }

    /**
     * Acts once, on the next chunk of any connection that satisfies a predicate, before that chunk is treated: the
     * action may for instance have its connection hold, swallow or reset it.
     *
     * <p>A chunk is what one read from the socket returns; small messages are seen whole. Of a prepared statement,
     * pgjdbc sends the SQL text only until the server has been told a name for it (see its {@code prepareThreshold}).
     *
     * @param action is called by the thread of the proxy: must not block
     */
    public Trigger onNext(Direction direction, Predicate<byte[]> wanted, Consumer<Connection> action) {
        return trigger(direction, wanted, Duration.ZERO, action);
    }

    /**
     * Delays, once, the next chunk of any connection that satisfies a predicate, and with it those that come after it.
     */
    public Trigger delayNext(Direction direction, Predicate<byte[]> wanted, Duration delay) {
        return trigger(direction, wanted, delay, connection -> {});
    }

    /** Accepts chunks that contain a text. */
    public static Predicate<byte[]> containing(String text) {
        return bytes -> new String(bytes, UTF_8).contains(text);
    }

    /** Accepts each chunk. */
    public static Predicate<byte[]> anything() {
        return bytes -> true;
    }

    /** Closes the port and resets all connections. */
    @Override
    public void close() {
        synchronized (orders) {
            if (ended) {
                return;
            }
        }
        order(() -> closing = true);
        try {
            thread.join(PATIENCE.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public String toString() {
        return "TCP proxy on port " + port;
    }

    /** Waits for the chunk that {@link #onNext} or {@link #delayNext} is about. */
    public static final class Trigger {

        private final Direction direction;
        private final Predicate<byte[]> wanted;
        private final Duration delay;
        private final Consumer<Connection> action;
        private final CompletableFuture<Connection> fired = new CompletableFuture<>();

        private Trigger(Direction direction, Predicate<byte[]> wanted, Duration delay, Consumer<Connection> action) {
            this.direction = direction;
            this.wanted = wanted;
            this.delay = delay;
            this.action = action;
        }

        public boolean hasFired() {
            return fired.isDone();
        }

        /**
         * Waits until the chunk has come and the action has been carried out, and returns its connection.
         *
         * @throws AssertionError if it doesn't come in time
         */
        public Connection await(Duration timeout) {
            return result(fired, timeout, "no such chunk within " + timeout);
        }
    }

    /** One proxied connection: two sockets that are one to the client and the server. */
    public final class Connection implements Traffic {

        private final SocketChannel client;
        private final SocketChannel server;
        private final SelectionKey clientKey;
        private final SelectionKey serverKey;
        private final Map<Direction, ProxyLane> lanes = new EnumMap<>(Direction.class);
        private Direction lastDirection = Direction.SERVER_TO_CLIENT;

        private Connection(SocketChannel client, SocketChannel server) throws IOException {
            this.client = client;
            this.server = server;
            lanes.put(Direction.CLIENT_TO_SERVER, lane(Direction.CLIENT_TO_SERVER, client, server));
            lanes.put(Direction.SERVER_TO_CLIENT, lane(Direction.SERVER_TO_CLIENT, server, client));
            clientKey = client.register(selector, 0, this);
            serverKey = server.register(selector, 0, this);
        }

        @Override
        public void flow(Direction direction, Flow flow) {
            order(() -> lane(direction).flow(flow));
        }

        @Override
        public void delay(Direction direction, Duration delay) {
            order(() -> lane(direction).delay(delay));
        }

        /** Closes both ends in good order (FIN); what is still held or delayed is lost. */
        public void cut() {
            order(() -> {
                drain(client);
                drain(server);
                close(client, false);
                close(server, false);
            });
        }

        /** Resets both ends (RST). */
        public void reset() {
            order(() -> {
                close(client, true);
                close(server, true);
            });
        }

        /**
         * Resets the client's end and keeps the server in the dark, as when a gateway between them forgets the
         * connection.
         */
        public void resetClient() {
            order(() -> {
                lane(Direction.CLIENT_TO_SERVER).flow(Flow.SWALLOW);
                lane(Direction.SERVER_TO_CLIENT).flow(Flow.SWALLOW);
                close(client, true);
            });
        }

        /** Tells whether both ends are still open, as far as the proxy knows. */
        public boolean isOpen() {
            return client.isOpen() && server.isOpen();
        }

        private ProxyLane lane(Direction direction) {
            ProxyLane lane = lanes.get(direction);
            if (lane == null) {
                throw new AssertionError(direction);
            }
            return lane;
        }

        private ProxyLane lane(Direction direction, SocketChannel from, SocketChannel to) {
            ProxyLane.Events events = new ProxyLane.Events() {
                @Override
                public void finished() {
                    if (lane(direction.opposite()).isFinished()) {
                        cut();
                    }
                }

                @Override
                public void resetDelivered() {
                    reset();
                }

                @Override
                public void receiverLost() {
                    lane(direction.opposite()).sourceReset();
                }
            };
            return new ProxyLane(
                    from,
                    to,
                    initialFlows.getOrDefault(direction, Flow.PASS),
                    initialDelays.getOrDefault(direction, Duration.ZERO),
                    events,
                    bytes -> fire(direction, bytes, this));
        }

        private void ready(SelectionKey key) {
            if (key.isValid() && key.isConnectable()) {
                finishConnect();
            }
            if (key.isValid() && key.isReadable()) {
                lane(key == clientKey ? Direction.CLIENT_TO_SERVER : Direction.SERVER_TO_CLIENT)
                        .read();
            }
        }

        private void connect(InetSocketAddress address) {
            try {
                server.connect(address);
            } catch (IOException e) {
                lane(Direction.SERVER_TO_CLIENT).sourceReset();
            }
        }

        private void finishConnect() {
            try {
                server.finishConnect();
            } catch (IOException e) {
                lane(Direction.SERVER_TO_CLIENT).sourceReset();
            }
        }

        /**
         * Delivers what is due, and returns in how many nanoseconds there will be more, {@link Long#MAX_VALUE} if
         * never.
         */
        private long proceed() {
            lanes.values().forEach(ProxyLane::deliver);
            // One look at the clock for both questions, or else what becomes due in between would be forgotten.
            long now = System.nanoTime();
            ProxyLane toServer = lane(Direction.CLIENT_TO_SERVER);
            ProxyLane toClient = lane(Direction.SERVER_TO_CLIENT);
            interest(clientKey, toServer.wantsToRead(), toClient.hasDeliverable(now));
            if (server.isConnectionPending()) {
                serverKey.interestOps(SelectionKey.OP_CONNECT);
            } else {
                interest(serverKey, toClient.wantsToRead(), toServer.hasDeliverable(now));
            }
            return Math.min(toServer.nanosUntilDue(now), toClient.nanosUntilDue(now));
        }

        private void interest(SelectionKey key, boolean read, boolean write) {
            if (key.isValid()) {
                key.interestOps((read ? SelectionKey.OP_READ : 0) | (write ? SelectionKey.OP_WRITE : 0));
            }
        }

        private boolean isGone() {
            return !client.isOpen() && !server.isOpen();
        }
    }

    /** Something that is done by the thread of the proxy. */
    @FunctionalInterface
    private interface Order {
        void carryOut() throws IOException;
    }

    private Traffic traffic(boolean existing, boolean future) {
        return new Traffic() {
            @Override
            public void flow(Direction direction, Flow flow) {
                order(() -> {
                    if (existing) {
                        connections.forEach(connection -> connection.flow(direction, flow));
                    }
                    if (future) {
                        initialFlows.put(direction, flow);
                    }
                });
            }

            @Override
            public void delay(Direction direction, Duration delay) {
                order(() -> {
                    if (existing) {
                        connections.forEach(connection -> connection.delay(direction, delay));
                    }
                    if (future) {
                        initialDelays.put(direction, delay);
                    }
                });
            }
        };
    }

    private Trigger trigger(
            Direction direction, Predicate<byte[]> wanted, Duration delay, Consumer<Connection> action) {
        Trigger trigger = new Trigger(direction, wanted, delay, action);
        order(() -> triggers.add(trigger));
        return trigger;
    }

    private Duration fire(Direction direction, byte[] bytes, Connection connection) {
        if (direction == Direction.CLIENT_TO_SERVER && connection.lastDirection != direction) {
            requests.incrementAndGet();
        }
        connection.lastDirection = direction;
        Duration delay = Duration.ZERO;
        for (Trigger trigger : List.copyOf(triggers)) {
            if (trigger.direction == direction && trigger.wanted.test(bytes)) {
                triggers.remove(trigger);
                trigger.action.accept(connection);
                delay = delay.plus(trigger.delay);
                trigger.fired.complete(connection);
            }
        }
        return delay;
    }

    private void order(Order order) {
        ask(() -> {
            order.carryOut();
            return order;
        });
    }

    private <T> T ask(Callable<T> question) {
        if (Thread.currentThread().equals(thread)) {
            try {
                return question.call();
            } catch (Exception e) {
                throw new IllegalStateException(this + " failed", e);
            }
        }
        FutureTask<T> task = new FutureTask<>(() -> {
            T answer = question.call();
            // A closed channel that is registered with a selector lets go of its socket only at the next selection.
            selector.selectNow(key -> {});
            return answer;
        });
        synchronized (orders) {
            if (ended) {
                throw new IllegalStateException(this + " is closed");
            }
            orders.add(task);
        }
        selector.wakeup();
        return result(task, PATIENCE, this + " doesn't answer");
    }

    private static <T> T result(Future<T> future, Duration timeout, String failure) {
        try {
            return future.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted: " + failure, e);
        } catch (TimeoutException | ExecutionException | CancellationException e) {
            throw new AssertionError(failure, e);
        }
    }

    private void run() {
        try {
            long nanosUntilDue = Long.MAX_VALUE;
            while (!closing) {
                // An argument of 0 is without limit.
                selector.select(
                        this::ready,
                        nanosUntilDue == Long.MAX_VALUE ? 0 : TimeUnit.NANOSECONDS.toMillis(nanosUntilDue) + 1);
                carryOutOrders();
                nanosUntilDue = connections.stream()
                        .mapToLong(Connection::proceed)
                        .min()
                        .orElse(Long.MAX_VALUE);
                connections.removeIf(Connection::isGone);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            end();
        }
    }

    private void ready(SelectionKey key) {
        if (key.attachment() instanceof Connection connection) {
            connection.ready(key);
        } else if (key.isValid() && key.isAcceptable()) {
            acceptConnection();
        }
    }

    private void acceptConnection() {
        try {
            SocketChannel client = listener == null ? null : listener.accept();
            if (client != null) {
                accepted.incrementAndGet();
                forward(client);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void forward(SocketChannel client) throws IOException {
        SocketChannel server = SocketChannel.open();
        try {
            for (SocketChannel channel : List.of(client, server)) {
                channel.setOption(TCP_NODELAY, true);
                channel.configureBlocking(false);
            }
            Connection connection = new Connection(client, server);
            connections.add(connection);
            connection.connect(target);
        } catch (IOException e) {
            // The client has already gone away.
            client.close();
            server.close();
        }
    }

    private void carryOutOrders() throws IOException {
        List<FutureTask<?>> taken;
        synchronized (orders) {
            taken = List.copyOf(orders);
            orders.clear();
        }
        for (FutureTask<?> order : taken) {
            order.run();
        }
    }

    private ServerSocketChannel listen() throws IOException {
        ServerSocketChannel opened = ServerSocketChannel.open();
        opened.bind(LoopbackPorts.address(port));
        opened.configureBlocking(false).register(selector, SelectionKey.OP_ACCEPT);
        return opened;
    }

    private void closeListener() throws IOException {
        if (listener != null) {
            listener.close();
            listener = null;
        }
    }

    private void end() {
        synchronized (orders) {
            ended = true;
            orders.forEach(order -> order.cancel(false));
            orders.clear();
        }
        try {
            closeListener();
            for (Connection connection : connections) {
                close(connection.client, true);
                close(connection.server, true);
            }
            selector.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void close(SocketChannel channel, boolean reset) throws IOException {
        if (reset && channel.isOpen()) {
            channel.setOption(SO_LINGER, 0);
        }
        channel.close();
    }

    private static void drain(SocketChannel channel) {
        // The kernel resets a connection that is closed with bytes unread.
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        try {
            while (channel.isConnected() && channel.read(buffer) > 0) {
                buffer.clear();
            }
        } catch (IOException e) {
            // Already broken: there is nothing to close in good order.
        }
    }
}
