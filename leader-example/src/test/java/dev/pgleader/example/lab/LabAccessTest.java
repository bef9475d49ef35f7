package dev.pgleader.example.lab;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.example.lab.node.LabSettings;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.Socket;
import java.net.URI;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.context.ConfigurableApplicationContext;

/** Who may ask the lab for what. The lab itself isn't started: what passes is refused later, for another reason. */
class LabAccessTest {

    private static ConfigurableApplicationContext context;
    private static int port;

    @BeforeAll
    static void serve() {
        context = LabApplication.serve(new LabArguments(0, 1, 48), LabSettings.DEFAULT);
        port = URI.create(LabApplication.address(context)).getPort();
    }

    @AfterAll
    static void end() {
        context.close();
    }

    @ParameterizedTest
    @ValueSource(strings = {"127.0.0.1", "localhost"})
    void theOwnPageMayReadAndAct(String name) throws IOException {
        String host = name + ":" + port;
        assertThat(status("GET", "/", "Host: " + host)).isEqualTo(200);
        assertThat(status("GET", "/api/state", "Host: " + host, "Origin: http://" + host))
                .isEqualTo(200);
        assertThat(status("POST", "/api/nodes/node-1/kill", "Host: " + host, "Origin: http://" + host))
                .isEqualTo(409);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:PORT"})
    void aForeignHostIsRefused(String host) throws IOException {
        String value = host.replace("PORT", Integer.toString(port));
        assertThat(status("GET", "/", "Host: " + value)).isEqualTo(403);
        assertThat(status("GET", "/events", "Host: " + value)).isEqualTo(403);
        assertThat(status("POST", "/api/nodes", "Host: " + value, "Origin: http://" + value))
                .isEqualTo(403);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "http://evil.example",
                "http://127.0.0.1:1",
                "https://127.0.0.1:PORT",
                "http://localhost:PORT",
                "http://127.0.0.1:PORT.evil.example",
                "null"
            })
    void aForeignOriginIsRefused(String origin) throws IOException {
        String value = origin.replace("PORT", Integer.toString(port));
        String host = "Host: 127.0.0.1:" + port;
        assertThat(status("POST", "/api/nodes", host, "Origin: " + value)).isEqualTo(403);
        assertThat(status("GET", "/events", host, "Origin: " + value)).isEqualTo(403);
    }

    @Test
    void whatActsNeedsAnOriginAndIsAPost() throws IOException {
        String host = "Host: 127.0.0.1:" + port;
        String origin = "Origin: http://127.0.0.1:" + port;
        for (String path : List.of("/api/nodes", "/api/nodes/node-1/kill", "/api/server/restart", "/api/lab/restart")) {
            assertThat(status("POST", path, host)).as(path).isEqualTo(403);
            assertThat(status("GET", path, host, origin)).as(path).isEqualTo(405);
        }
    }

    @Test
    void thePageLoadsNothingFromElsewhere() throws IOException {
        String answer = request("GET", "/", "Host: 127.0.0.1:" + port);
        assertThat(answer).contains("Content-Security-Policy: default-src 'self'");
        assertThat(answer.substring(answer.indexOf("<!doctype")))
                .doesNotContain("http:", "https:", "src=\"//", "href=\"//", "style=", "<style");
    }

    @Test
    void onlyTheLoopbackInterfaceListens() throws IOException {
        List<InetAddress> others = NetworkInterface.networkInterfaces()
                .flatMap(NetworkInterface::inetAddresses)
                .filter(address -> !address.isLoopbackAddress() && !address.isLinkLocalAddress())
                .toList();
        for (InetAddress address : others) {
            assertThat(connects(address)).as("%s", address).isFalse();
        }
        assertThat(connects(InetAddress.getByAddress(new byte[] {127, 0, 0, 1})))
                .isTrue();
        assertThat(connects(InetAddress.getByAddress(new byte[] {127, 0, 0, 2})))
                .as("bound to one address, not to all")
                .isFalse();
    }

    private static boolean connects(InetAddress address) throws IOException {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(address, port), 2_000);
            return true;
        } catch (ConnectException e) {
            return false;
        }
    }

    private static int status(String method, String path, String... headers) throws IOException {
        return Integer.parseInt(request(method, path, headers).split(" ", 3)[1]);
    }

    /** By hand, since Java's own client chooses the host and the origin itself. */
    private static String request(String method, String path, String... headers) throws IOException {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(10_000);
            String request = method + " " + path + " HTTP/1.1\r\n" + String.join("\r\n", headers)
                    + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            socket.getOutputStream().write(request.getBytes(UTF_8));
            return new String(socket.getInputStream().readAllBytes(), UTF_8);
        }
    }
}
