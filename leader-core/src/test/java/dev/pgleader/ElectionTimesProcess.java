package dev.pgleader;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;

/**
 * An elector in a JVM of its own that does nothing but to tell the time. It prints {@code tried} whenever it has tried in
 * vain to get the lock, {@code elected NANOS}, and, when it is told to {@code resign} or to {@code close}, {@code resigning NANOS}
 * or {@code closing NANOS}. These are readings of {@link System#nanoTime()}, which all processes of a machine share on Linux.
 */
final class ElectionTimesProcess {

    private ElectionTimesProcess() {}

    static JavaProcess.Builder builder(PostgresServer server, String id, ElectorOptions options) {
        return JavaProcess.builder(ElectionTimesProcess.class)
                .systemProperty("pgleader.log", "WARN")
                .arguments(
                        server.url(PostgresServer.DEFAULT_DATABASE),
                        server.superuser(),
                        server.superuserPassword(),
                        id,
                        options.acquisitionMode().toString(),
                        options.retryInterval().toString(),
                        options.coolDown().toString());
    }

    public static void main(String[] args) throws InterruptedException {
        LeaderElector elector = LeaderElector.builder()
                .connectTo(ConnectionSource.of(args[0], args[1], args[2]))
                .key("benchmark")
                .instanceId(args[3])
                .options(ElectorOptions.builder()
                        .acquisitionMode(AcquisitionMode.valueOf(args[4]))
                        .retryInterval(Duration.parse(args[5]))
                        .retryJitter(0)
                        .coolDown(Duration.parse(args[6]))
                        .takeoverDelay(TakeoverDelay.NONE)
                        .build())
                .listener(new LeadershipListener() {
                    @Override
                    public void onElected(Leadership leadership) {
                        say("elected " + System.nanoTime());
                    }

                    @Override
                    public void onRevoked(Leadership leadership, RevocationReason reason) {}
                })
                .observer(new ElectionObserver() {
                    @Override
                    public void attempted(boolean granted, Duration took) {
                        if (!granted) {
                            say("tried");
                        }
                    }
                })
                .build();
        JavaProcess.exitWithParent(command -> {
            // Told afterwards: to make a line of text for the first time takes a JVM longer than to close.
            long toldAt = System.nanoTime();
            switch (command) {
                case "resign" -> {
                    var unused = elector.resign();
                    say("resigning " + toldAt);
                }
                case "close" -> {
                    elector.close();
                    say("closing " + toldAt);
                }
                default -> throw new IllegalArgumentException(command);
            }
        });
        elector.start();
        new CountDownLatch(1).await();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
