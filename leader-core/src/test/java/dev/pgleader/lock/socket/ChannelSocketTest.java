package dev.pgleader.lock.socket;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(300)
class ChannelSocketTest {

    private static final Duration LIMIT = Duration.ofMillis(300);
    /** How late a loaded machine may be. */
    private static final Duration SLACK = Duration.ofSeconds(20);

    /** A time that no test waits for. */
    private static final Duration LONG = SLACK.multipliedBy(3);

    private static final long LONG_NANOS = LONG.toNanos();

    private final ExecutorService executor = Executors.newCachedThreadPool();
    private final ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    private ChannelSocket socket;
    private Socket peer;

    ChannelSocketTest() throws IOException {}

    @BeforeEach
    void connect() throws IOException {
        socket = new ChannelSocket(LIMIT);
        socket.connect(listener.getLocalSocketAddress(), 20_000);
        peer = listener.accept();
    }

    @AfterEach
    void close() throws IOException {
        executor.shutdownNow();
        peer.close();
        socket.close();
        listener.close();
    }

    @Test
    void aReadEndsAtItsTimeout() throws IOException {
        socket.setSoTimeout(150);
        assertTimesOut(Duration.ofMillis(150), () -> socket.getInputStream().read());
        assertThat(socket.getSoTimeout()).isEqualTo(150);
        assertStillWorks();
    }

    @Test
    void aReadWithoutTimeoutEndsAtTheLimit() throws IOException {
        socket.setSoTimeout(0);
        assertTimesOut(LIMIT, () -> socket.getInputStream().read());
    }

    @Test
    void aReadThatTookTheWholeLimitIsTheLast() throws IOException {
        assertTimesOut(LIMIT, () -> socket.getInputStream().read());
        assertThat(socket.isClosed()).isTrue();
        for (Callable<?> call : List.<Callable<?>>of(
                () -> socket.getInputStream().read(),
                () -> socket.getInputStream().available(),
                () -> socket.awaitReadable(LONG_NANOS))) {
            assertThatThrownBy(call::call)
                    .isExactlyInstanceOf(IOException.class)
                    .hasCauseInstanceOf(SocketTimeoutException.class);
        }
    }

    @Test
    void aWriteToAPeerThatDoesNotReadEndsAtTheLimit() throws Exception {
        byte[] chunk = new byte[1 << 20];
        long start = System.nanoTime();
        assertThatThrownBy(() -> {
                    while (true) {
                        socket.getOutputStream().write(chunk);
                    }
                })
                .isInstanceOf(SocketTimeoutException.class)
                .hasMessageContaining("Write");
        assertThat(elapsed(start)).isBetween(LIMIT, LIMIT.plus(SLACK));
    }

    @Test
    void aWriteGoesOnWhenThePeerReadsAgain() throws Exception {
        int size = 8 << 20;
        byte[] sent = new byte[size];
        for (int i = 0; i < size; i++) {
            sent[i] = (byte) ((i * 31) >> 3);
        }
        Future<byte[]> received = executor.submit(() -> peer.getInputStream().readNBytes(size));
        socket.getOutputStream().write(sent);
        assertThat(received.get(20, TimeUnit.SECONDS)).isEqualTo(sent);
    }

    @Test
    void aConnectToWhoDoesNotAcceptEndsAtItsTimeoutOrTheLimit() throws Exception {
        // Once the queue of connections that nobody accepts is full, the kernel doesn't answer further ones.
        List<Socket> queued = new ArrayList<>();
        try (ServerSocket full = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            for (int i = 0; i < 2; i++) {
                queued.add(new Socket(full.getInetAddress(), full.getLocalPort()));
            }
            for (int timeout : new int[] {0, 150}) {
                try (ChannelSocket connecting = new ChannelSocket(LIMIT)) {
                    assertTimesOut(timeout == 0 ? LIMIT : Duration.ofMillis(timeout), () -> {
                        connecting.connect(full.getLocalSocketAddress(), timeout);
                        return null;
                    });
                }
            }
        } finally {
            for (Socket waiting : queued) {
                waiting.close();
            }
        }
    }

    @Test
    void aRefusedConnectAndAnUnknownHostFailAtOnce() throws Exception {
        int port;
        try (ServerSocket closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = closed.getLocalPort();
        }
        try (ChannelSocket connecting = new ChannelSocket(LIMIT)) {
            assertThatThrownBy(() -> connecting.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port)))
                    .isInstanceOf(ConnectException.class);
        }
        try (ChannelSocket connecting = new ChannelSocket(LIMIT)) {
            assertThatThrownBy(() -> connecting.connect(InetSocketAddress.createUnresolved("no.such.host.invalid", 1)))
                    .isInstanceOf(UnknownHostException.class)
                    .hasMessage("no.such.host.invalid");
        }
    }

    @Test
    void readsAheadAndTellsHowMuchIsThere() throws Exception {
        InputStream in = socket.getInputStream();
        assertThat(in.available()).isZero();
        send("hello");
        await().until(() -> in.available() == 5);
        assertThat(in.read()).isEqualTo('h');
        assertThat(in.available()).isEqualTo(4);
        byte[] target = new byte[10];
        assertThat(in.read(target, 2, 2)).isEqualTo(2);
        assertThat(new String(target, 2, 2, US_ASCII)).isEqualTo("el");
        assertThat(in.read(target, 0, 0)).isZero();
        assertThat(in.read(target)).isEqualTo(2);
        assertThat(in.available()).isZero();
    }

    @Test
    void whatWasReadAheadIsReadable() throws Exception {
        send("ab");
        await().until(() -> socket.getInputStream().available() == 2);
        assertThat(socket.getInputStream().read()).isEqualTo('a');
        assertThat(socket.awaitReadable(LONG_NANOS)).isTrue();
        assertThat(socket.awaitReadable(0)).isTrue();
        assertThat(socket.getInputStream().read()).isEqualTo('b');
        assertThat(socket.awaitReadable(0)).isFalse();
    }

    @Test
    void readsBytesAsUnsigned() throws Exception {
        peer.getOutputStream().write(0xff);
        assertThat(socket.getInputStream().read()).isEqualTo(0xff);
        socket.getOutputStream().write(0xfe);
        assertThat(peer.getInputStream().read()).isEqualTo(0xfe);
    }

    @Test
    void bytesThatComeOneByOneMakeAWhole() throws Exception {
        byte[] sent = "a message in pieces".getBytes(US_ASCII);
        Future<?> sending = executor.submit(() -> {
            peer.setTcpNoDelay(true);
            for (byte piece : sent) {
                peer.getOutputStream().write(piece);
            }
            return null;
        });
        byte[] received = new byte[sent.length];
        int count = 0;
        while (count < sent.length) {
            assertThat(socket.awaitReadable(LONG_NANOS)).isTrue();
            count += socket.getInputStream().read(received, count, sent.length - count);
        }
        assertThat(received).isEqualTo(sent);
        sending.get();
    }

    @Test
    void theEndOfThePeerIsReadableAndStaysTheEnd() throws Exception {
        send("x");
        peer.close();
        assertThat(socket.awaitReadable(LONG_NANOS)).isTrue();
        assertThat(socket.getInputStream().read()).isEqualTo('x');
        assertThat(socket.awaitReadable(LONG_NANOS)).isTrue();
        for (int i = 0; i < 3; i++) {
            assertThat(socket.getInputStream().read()).isEqualTo(-1);
            assertThat(socket.getInputStream().read(new byte[5])).isEqualTo(-1);
            assertThat(socket.getInputStream().available()).isZero();
        }
    }

    @Test
    void aResetOfThePeerIsReadableAndAnError() throws Exception {
        Future<Boolean> waiting = executor.submit(() -> socket.awaitReadable(LONG_NANOS));
        peer.setSoLinger(true, 0);
        peer.close();
        assertThat(waiting.get(20, TimeUnit.SECONDS)).isTrue();
        assertThatThrownBy(() -> socket.getInputStream().read()).isInstanceOf(IOException.class);
    }

    @Test
    void closeFromAnotherThreadEndsAReadAWriteAndAWait() throws Exception {
        for (String blocked : List.of("read", "write", "wait")) {
            ChannelSocket closed = new ChannelSocket(LONG);
            try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                closed.connect(server.getLocalSocketAddress());
                try (Socket silent = server.accept()) {
                    CountDownLatch begun = new CountDownLatch(1);
                    Future<?> waiting = executor.submit(() -> {
                        begun.countDown();
                        return switch (blocked) {
                            case "read" -> closed.getInputStream().read();
                            case "wait" -> closed.awaitReadable(LONG_NANOS);
                            default -> writeForEver(closed.getOutputStream());
                        };
                    });
                    begun.await();
                    assertThatThrownBy(() -> waiting.get(100, TimeUnit.MILLISECONDS))
                            .as(blocked)
                            .isInstanceOf(TimeoutException.class);
                    long start = System.nanoTime();
                    closed.close();
                    assertThatThrownBy(() -> waiting.get(20, TimeUnit.SECONDS))
                            .as(blocked)
                            .isInstanceOf(ExecutionException.class)
                            .hasCauseInstanceOf(IOException.class);
                    assertThat(elapsed(start)).isLessThan(SLACK);
                    assertThat(closed.isClosed()).isTrue();
                    if (!blocked.equals("write")) {
                        assertThat(silent.getInputStream().read()).isEqualTo(-1);
                    }
                }
            } finally {
                closed.close();
            }
        }
    }

    private static Object writeForEver(OutputStream out) throws IOException {
        byte[] chunk = new byte[1 << 16];
        while (true) {
            out.write(chunk);
        }
    }

    @Test
    void anInterruptEndsAReadAndAWaitAndClosesTheSocket() throws Exception {
        for (boolean reading : new boolean[] {true, false}) {
            try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                    ChannelSocket interrupted = new ChannelSocket(LONG)) {
                interrupted.connect(server.getLocalSocketAddress());
                CountDownLatch ended = new CountDownLatch(1);
                List<Throwable> failures = new ArrayList<>();
                Thread thread = new Thread(() -> {
                    try {
                        Object unexpected = reading
                                ? interrupted.getInputStream().read()
                                : (Object) interrupted.awaitReadable(LONG_NANOS);
                        failures.add(new AssertionError(unexpected));
                    } catch (IOException e) {
                        failures.add(e);
                        if (!Thread.currentThread().isInterrupted()) {
                            failures.add(new AssertionError("no longer interrupted"));
                        }
                    } finally {
                        ended.countDown();
                    }
                });
                thread.start();
                thread.interrupt();
                assertThat(ended.await(20, TimeUnit.SECONDS)).isTrue();
                assertThat(failures).singleElement().isInstanceOf(InterruptedIOException.class);
                assertThat(interrupted.isClosed()).isTrue();
            }
        }
    }

    @Test
    void aWaitEndsOnTime() throws Exception {
        long start = System.nanoTime();
        assertThat(socket.awaitReadable(TimeUnit.MILLISECONDS.toNanos(200))).isFalse();
        assertThat(elapsed(start))
                .isBetween(Duration.ofMillis(200), Duration.ofMillis(200).plus(SLACK));
        assertThat(socket.awaitReadable(0)).isFalse();
        assertThat(socket.awaitReadable(-1)).isFalse();
        assertThat(socket.awaitReadable(Long.MIN_VALUE)).isFalse();
    }

    @Test
    void aWaitTakesNoProcessorTime() throws Exception {
        Future<Long> used = executor.submit(() -> {
            long before = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            assertThat(socket.awaitReadable(TimeUnit.MILLISECONDS.toNanos(500))).isFalse();
            return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before;
        });
        // Processor time, not time: a loop that asks again and again would use most of the 500 ms.
        assertThat(Duration.ofNanos(used.get())).isLessThan(Duration.ofMillis(100));
    }

    @Test
    void wakeEndsTheCurrentWait() throws Exception {
        Future<Boolean> waiting = executor.submit(() -> socket.awaitReadable(Long.MAX_VALUE));
        assertThatThrownBy(() -> waiting.get(100, TimeUnit.MILLISECONDS)).isInstanceOf(TimeoutException.class);
        socket.wake();
        assertThat(waiting.get(20, TimeUnit.SECONDS)).isFalse();
    }

    @Test
    void wakesBeforeAWaitCountOnce() throws Exception {
        socket.wake();
        socket.wake();
        long start = System.nanoTime();
        assertThat(socket.awaitReadable(LONG_NANOS)).isFalse();
        assertThat(elapsed(start)).isLessThan(SLACK);
        start = System.nanoTime();
        assertThat(socket.awaitReadable(TimeUnit.MILLISECONDS.toNanos(200))).isFalse();
        assertThat(elapsed(start)).isGreaterThanOrEqualTo(Duration.ofMillis(200));
    }

    @Test
    void wakeDisturbsNoReadAndIsNotUsedUpByOne() throws Exception {
        Future<?> waking = executor.submit(() -> {
            while (!Thread.currentThread().isInterrupted()) {
                socket.wake();
            }
        });
        Future<byte[]> read = executor.submit(() -> socket.getInputStream().readNBytes(200));
        socket.setSoTimeout(20_000);
        for (int i = 0; i < 200; i++) {
            peer.getOutputStream().write(i);
        }
        assertThat(read.get(20, TimeUnit.SECONDS)).hasSize(200);
        waking.cancel(true);
        socket.wake();
        send("x");
        assertThat(socket.getInputStream().read()).isEqualTo('x');
        long start = System.nanoTime();
        assertThat(socket.awaitReadable(LONG_NANOS)).isFalse();
        assertThat(elapsed(start)).isLessThan(SLACK);
    }

    @Test
    void aReadOfWhatWasWokenInVainStillEndsAtItsTimeout() throws Exception {
        socket.setSoTimeout(200);
        socket.wake();
        assertTimesOut(Duration.ofMillis(200), () -> socket.getInputStream().read());
    }

    /** The driver looks so before each wait, and a wake-up in the meantime would wait with it. */
    @Test
    void aLookWithTheShortestTimeoutDoesNotWait() throws Exception {
        socket.setSoTimeout(1);
        assertThatThrownBy(() -> socket.getInputStream().read())
                .isInstanceOf(SocketTimeoutException.class)
                .hasMessage("There is nothing to read now");
        socket.setSoTimeout(0);
        send("x");
        assertThat(socket.getInputStream().read()).isEqualTo('x');
    }

    @Test
    void aClosedSocketRefusesEverything() throws Exception {
        socket.close();
        socket.close();
        socket.wake();
        assertThat(socket.isClosed()).isTrue();
        assertThatThrownBy(() -> socket.setSoTimeout(1)).isInstanceOf(SocketException.class);
        assertThatThrownBy(() -> socket.awaitReadable(LONG_NANOS)).isInstanceOf(IOException.class);
        assertThatThrownBy(() -> socket.getInputStream().read()).isInstanceOf(IOException.class);
        assertThatThrownBy(() -> socket.getOutputStream().write(1)).isInstanceOf(IOException.class);
        assertThatThrownBy(() -> socket.setTcpNoDelay(true)).isInstanceOf(SocketException.class);
    }

    @Test
    void closingAStreamClosesTheSocket() throws Exception {
        socket.getOutputStream().close();
        assertThat(socket.isClosed()).isTrue();
        assertThat(peer.getInputStream().read()).isEqualTo(-1);
    }

    @Test
    void optionsAndAddressesAreThoseOfTheChannel() throws Exception {
        socket.setTcpNoDelay(true);
        assertThat(socket.getTcpNoDelay()).isTrue();
        socket.setKeepAlive(true);
        assertThat(socket.getKeepAlive()).isTrue();
        socket.setSoLinger(true, 3);
        assertThat(socket.getSoLinger()).isEqualTo(3);
        socket.setSendBufferSize(32_768);
        assertThat(socket.getSendBufferSize()).isPositive();
        socket.setReceiveBufferSize(32_768);
        assertThat(socket.getReceiveBufferSize()).isPositive();
        assertThat(socket.isConnected()).isTrue();
        assertThat(socket.isBound()).isTrue();
        assertThat(socket.getPort()).isEqualTo(listener.getLocalPort());
        assertThat(socket.getLocalPort()).isEqualTo(peer.getPort());
        assertThat(socket.getRemoteSocketAddress()).isEqualTo(peer.getLocalSocketAddress());
        assertThat(socket.getLocalSocketAddress()).isEqualTo(peer.getRemoteSocketAddress());
        assertThat(socket.getInetAddress()).isEqualTo(peer.getLocalAddress());
        assertThat(socket.getLocalAddress()).isEqualTo(peer.getInetAddress());
        socket.shutdownOutput();
        assertThat(socket.isOutputShutdown()).isTrue();
        assertThat(peer.getInputStream().read()).isEqualTo(-1);
        socket.shutdownInput();
        assertThat(socket.isInputShutdown()).isTrue();
    }

    @Test
    void theFactoryMakesSocketsOnlyForAConnectionThatIsBeingOpened() throws Exception {
        String token;
        try (ChannelSocketFactory.Connecting connecting = ChannelSocketFactory.connecting(LIMIT)) {
            token = connecting.token();
            assertThat(connecting.socket()).isEmpty();
            ChannelSocketFactory factory = new ChannelSocketFactory(token);
            try (Socket first = factory.createSocket();
                    Socket second = factory.createSocket()) {
                assertThat(second).isNotSameAs(first);
                assertThat(connecting.socket()).containsSame((ChannelSocket) second);
            }
        }
        assertThatThrownBy(() -> new ChannelSocketFactory(token)).isInstanceOf(IllegalArgumentException.class);
    }

    private void send(String text) throws IOException {
        peer.getOutputStream().write(text.getBytes(US_ASCII));
        peer.getOutputStream().flush();
    }

    private void assertStillWorks() throws IOException {
        send("!");
        assertThat(socket.getInputStream().read()).isEqualTo('!');
    }

    private static void assertTimesOut(Duration timeout, Callable<?> call) {
        long start = System.nanoTime();
        assertThatThrownBy(call::call)
                .isInstanceOf(SocketTimeoutException.class)
                .hasMessageContaining(timeout.toMillis() + " ms");
        assertThat(elapsed(start)).isBetween(timeout, timeout.plus(SLACK));
    }

    private static Duration elapsed(long startNanos) {
        return Duration.ofNanos(System.nanoTime() - startNanos);
    }
}
