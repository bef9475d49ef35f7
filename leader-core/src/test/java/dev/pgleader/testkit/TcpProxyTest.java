package dev.pgleader.testkit;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.testkit.TcpProxy.Direction;
import dev.pgleader.testkit.TcpProxy.Flow;
import dev.pgleader.testkit.TcpProxy.Trigger;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.time.Duration;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(300)
class TcpProxyTest {

    private static final Duration SOON = Duration.ofSeconds(20);
    private static final int SILENCE_MILLIS = 150;

    private final ServerSocket target;
    private final TcpProxy proxy;
    private final Socket client;
    private final Socket server;

    TcpProxyTest() throws IOException {
        target = listen();
        proxy = new TcpProxy(target.getLocalPort());
        client = connect();
        server = target.accept();
    }

    @AfterEach
    void close() throws IOException {
        proxy.close();
        client.close();
        server.close();
        target.close();
    }

    @Test
    void forwardsBothWaysAndTheEndOfAStream() throws IOException {
        send(client, "question");
        assertReceives(server, "question");
        send(server, "answer");
        assertReceives(client, "answer");
        client.shutdownOutput();
        assertThat(server.getInputStream().read()).isEqualTo(-1);
        send(server, "late answer");
        assertReceives(client, "late answer");
        server.close();
        assertThat(client.getInputStream().read()).isEqualTo(-1);
        await().until(() -> proxy.connections().isEmpty());
    }

    @Test
    void forwardsAReset() throws IOException {
        client.setSoLinger(true, 0);
        client.close();
        assertThatThrownBy(() -> server.getInputStream().read()).isInstanceOf(SocketException.class);
    }

    @Test
    void forwardsMuchToASlowReader() throws IOException {
        byte[] much = new byte[20_000_000];
        much[much.length - 1] = 1;
        Thread sender = new Thread(() -> sendQuietly(client, much));
        sender.start();
        assertThat(server.getInputStream().readNBytes(much.length)).isEqualTo(much);
    }

    @Test
    void swallowsOneWayOnly() throws IOException {
        proxy.existing().flow(Direction.CLIENT_TO_SERVER, Flow.SWALLOW);
        send(client, "lost");
        assertSilence(server);
        send(server, "answer");
        assertReceives(client, "answer");
    }

    @Test
    void keepsBothSidesInTheDarkAboutEachOthersEndWhileItSwallows() throws IOException {
        proxy.all().flow(Flow.SWALLOW);
        client.close();
        assertSilence(server);
    }

    @Test
    void holdsAndThenDeliversInOrder() throws IOException {
        proxy.all().flow(Direction.CLIENT_TO_SERVER, Flow.HOLD);
        send(client, "first,");
        assertSilence(server);
        send(client, "second");
        client.shutdownOutput();
        proxy.all().flow(Flow.PASS);
        assertReceives(server, "first,second");
        assertThat(server.getInputStream().read()).isEqualTo(-1);
    }

    @Test
    void aStalledSenderIsBlockedAndLosesNothing() throws Exception {
        proxy.all().flow(Direction.CLIENT_TO_SERVER, Flow.STALL);
        byte[] much = new byte[20_000_000];
        Thread sender = new Thread(() -> sendQuietly(client, much));
        sender.start();
        sender.join(300);
        assertThat(sender.isAlive()).isTrue();
        proxy.all().flow(Flow.PASS);
        assertThat(server.getInputStream().readNBytes(much.length)).isEqualTo(much);
        sender.join();
    }

    @Test
    void aHeldSenderIsNotBlocked() throws Exception {
        proxy.all().flow(Direction.CLIENT_TO_SERVER, Flow.HOLD);
        client.getOutputStream().write(new byte[20_000_000]);
        assertSilence(server);
    }

    @Test
    void delaysWithoutAddingUpDelays() throws IOException {
        proxy.all().delay(Direction.CLIENT_TO_SERVER, Duration.ofMillis(800));
        long start = System.nanoTime();
        for (int i = 0; i < 10; i++) {
            send(client, i + ",");
        }
        assertReceives(server, "0,1,2,3,4,5,6,7,8,9,");
        assertThat(Duration.ofNanos(System.nanoTime() - start))
                .isBetween(Duration.ofMillis(800), Duration.ofMillis(800).multipliedBy(10));
        proxy.all().delay(Direction.CLIENT_TO_SERVER, SOON.multipliedBy(3));
        send(client, "late");
        send(server, "at once");
        assertReceives(client, "at once");
    }

    @Test
    void delaysTheNextChunkThatMatches() throws IOException {
        Trigger trigger =
                proxy.delayNext(Direction.SERVER_TO_CLIENT, TcpProxy.containing("slow"), Duration.ofMillis(800));
        send(server, "quick");
        assertReceives(client, "quick");
        assertThat(trigger.hasFired()).isFalse();
        long start = System.nanoTime();
        send(server, "slow");
        assertThat(trigger.await(SOON)).isEqualTo(proxy.connections().get(0));
        send(server, ",next");
        assertReceives(client, "slow,next");
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isGreaterThanOrEqualTo(Duration.ofMillis(800));
        assertThat(IntStream.range(0, 5).mapToObj(i -> timeOfEcho("slow")))
                .as("no longer slow, though the machine may pause")
                .anyMatch(time -> time.compareTo(Duration.ofMillis(800)) < 0);
    }

    @Test
    void canHoldExactlyTheAnswerThatATestWaitsFor() throws IOException {
        Trigger trigger = proxy.onNext(
                Direction.SERVER_TO_CLIENT,
                TcpProxy.containing("granted"),
                connection -> connection.flow(Direction.SERVER_TO_CLIENT, Flow.HOLD));
        send(server, "granted");
        TcpProxy.Connection held = trigger.await(SOON);
        assertSilence(client);
        held.flow(Flow.PASS);
        assertReceives(client, "granted");
    }

    @Test
    void canResetAConnectionInsteadOfForwardingARequest() throws IOException {
        Trigger trigger = proxy.onNext(Direction.CLIENT_TO_SERVER, TcpProxy.anything(), TcpProxy.Connection::reset);
        send(client, "request");
        assertThat(trigger.await(SOON).isOpen()).isFalse();
        assertThatThrownBy(() -> server.getInputStream().read()).isInstanceOf(SocketException.class);
        assertThatThrownBy(() -> client.getInputStream().read()).isInstanceOf(SocketException.class);
    }

    @Test
    void cutsInGoodOrder() throws IOException {
        proxy.cut();
        assertThat(client.getInputStream().read()).isEqualTo(-1);
        assertThat(server.getInputStream().read()).isEqualTo(-1);
        await().until(() -> proxy.connections().isEmpty());
    }

    @Test
    void resets() {
        proxy.reset();
        assertThatThrownBy(() -> client.getInputStream().read()).isInstanceOf(SocketException.class);
        assertThatThrownBy(() -> server.getInputStream().read()).isInstanceOf(SocketException.class);
    }

    @Test
    void canResetTheClientAndKeepTheServerInTheDark() throws IOException {
        proxy.connections().get(0).resetClient();
        assertThatThrownBy(() -> client.getInputStream().read()).isInstanceOf(SocketException.class);
        send(server, "anybody there?");
        assertSilence(server);
    }

    @Test
    void refusesAndAcceptsAgainOnTheSamePort() throws IOException {
        proxy.refuse();
        assertThatThrownBy(this::connect).isInstanceOf(ConnectException.class);
        send(client, "still there");
        assertReceives(server, "still there");
        proxy.accept();
        try (Socket other = connect();
                Socket otherServer = target.accept()) {
            send(other, "new");
            assertReceives(otherServer, "new");
        }
        assertThat(proxy.acceptedConnections()).isEqualTo(2);
    }

    @Test
    void leadsNewConnectionsElsewhereAndTreatsThemByTheirOwnRules() throws IOException {
        try (ServerSocket otherTarget = listen()) {
            proxy.target(otherTarget.getLocalPort());
            proxy.future().flow(Direction.SERVER_TO_CLIENT, Flow.SWALLOW);
            try (Socket other = connect();
                    Socket otherServer = otherTarget.accept()) {
                send(other, "new");
                assertReceives(otherServer, "new");
                send(otherServer, "lost");
                assertSilence(other);
            }
            send(server, "old");
            assertReceives(client, "old");
        }
    }

    @Test
    void resetsAClientWhoseTargetRefuses() throws IOException {
        target.close();
        try (Socket other = connect()) {
            assertThatThrownBy(() -> other.getInputStream().read()).isInstanceOf(SocketException.class);
        }
    }

    @Test
    void closingResetsAllAndFreesThePort() throws IOException {
        proxy.all().flow(Flow.SWALLOW);
        proxy.close();
        assertThatThrownBy(() -> client.getInputStream().read()).isInstanceOf(SocketException.class);
        assertThatThrownBy(this::connect).isInstanceOf(ConnectException.class);
        assertThat(Thread.getAllStackTraces().keySet())
                .noneMatch(thread -> thread.getName().equals("TCP proxy on port " + proxy.port()));
    }

    private Socket connect() throws IOException {
        return new Socket(InetAddress.getLoopbackAddress(), proxy.port());
    }

    private static ServerSocket listen() throws IOException {
        return new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    }

    private Duration timeOfEcho(String text) {
        long start = System.nanoTime();
        try {
            send(server, text);
            assertReceives(client, text);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return Duration.ofNanos(System.nanoTime() - start);
    }

    private static void send(Socket socket, String text) throws IOException {
        socket.getOutputStream().write(text.getBytes(US_ASCII));
    }

    private static void sendQuietly(Socket socket, byte[] bytes) {
        try {
            socket.getOutputStream().write(bytes);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static void assertReceives(Socket socket, String text) throws IOException {
        socket.setSoTimeout(Math.toIntExact(SOON.toMillis()));
        assertThat(new String(socket.getInputStream().readNBytes(text.length()), US_ASCII))
                .isEqualTo(text);
    }

    private static void assertSilence(Socket socket) throws IOException {
        socket.setSoTimeout(SILENCE_MILLIS);
        assertThatThrownBy(() -> socket.getInputStream().read()).isInstanceOf(SocketTimeoutException.class);
        socket.setSoTimeout(0);
    }
}
