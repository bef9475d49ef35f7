package dev.pgleader;

import dev.pgleader.ElectorProcess.Led;
import dev.pgleader.lock.Credentials;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Direction;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** An instance of the soak: an elector in a JVM of its own, on a machine and behind a network of its own. */
final class SoakNode implements AutoCloseable {

    private enum Condition {
        RUNS,
        STOPPED,
        SUSPENDED
    }

    private final String id;
    private final PostgresServer server;
    private final ElectorOptions options;
    private final long bits;
    private final Map<String, String> urlParameters;
    private final TcpProxy network;
    private final Suspension suspension = new Suspension();
    private final List<Led> ledBefore = new ArrayList<>();
    private JavaProcess process;
    private int starts;
    private boolean cutOff;
    private Condition condition = Condition.RUNS;

    /** @param port where its road to the server begins: the server's, or a pooler's */
    SoakNode(
            String id,
            PostgresServer server,
            int port,
            Map<String, String> urlParameters,
            ElectorOptions options,
            long bits) {
        this.id = id;
        this.server = server;
        this.options = options;
        this.bits = bits;
        this.urlParameters = urlParameters;
        network = new TcpProxy(port);
        process = start();
    }

    private JavaProcess start() {
        String url = PostgresServer.url(network.port(), PostgresServer.DEFAULT_DATABASE, urlParameters);
        Credentials superuser = new Credentials(server.superuser(), server.superuserPassword());
        return suspension
                .of(ElectorProcess.describe(url, superuser, bits, id + "." + starts++, options))
                .start();
    }

    boolean runs() {
        return condition == Condition.RUNS;
    }

    /** Whether the session with this name is of a node that the server can reach. */
    boolean isReachableAs(String applicationName) {
        return !cutOff && runs() && applicationName.startsWith("pg-leader/" + id + ".");
    }

    void reset() {
        network.reset();
    }

    void cut() {
        network.cut();
    }

    void cutOff(Consumer<TcpProxy> how) {
        cutOff = true;
        how.accept(network);
    }

    void stop() {
        process.pause();
        condition = Condition.STOPPED;
    }

    /** Nothing runs, nothing that is sent is answered, and the monotonic clock stands still. */
    void suspend() {
        cutOff(road -> road.all().flow(Flow.SWALLOW));
        suspension.suspend(process);
        condition = Condition.SUSPENDED;
    }

    void tell(String command) {
        process.sendLine(command);
    }

    void replace() {
        process.kill();
        ledBefore.addAll(ElectorProcess.led(process));
        process.close();
        condition = Condition.RUNS;
        process = start();
    }

    /** It goes on, and knows as much of the world as before: a network that was cut off is still so. */
    void goOn() {
        switch (condition) {
            case RUNS -> {}
            case STOPPED -> process.resume();
            case SUSPENDED -> suspension.resume(process);
        }
        condition = Condition.RUNS;
    }

    void reconnect() {
        if (cutOff) {
            // What was swallowed can't be delivered, so these connections end; the client may still wait for them.
            network.existing().delay(Direction.SERVER_TO_CLIENT, Duration.ZERO);
            network.cut();
            network.future().flow(Flow.PASS);
            network.future().delay(Direction.SERVER_TO_CLIENT, Duration.ZERO);
            cutOff = false;
        }
    }

    /** When it led, as far as it has told. */
    List<Led> led() {
        List<Led> all = new ArrayList<>(ledBefore);
        all.addAll(ElectorProcess.led(process));
        return all;
    }

    @Override
    public String toString() {
        return id;
    }

    @Override
    public void close() {
        process.close();
        network.close();
        suspension.close();
    }
}
