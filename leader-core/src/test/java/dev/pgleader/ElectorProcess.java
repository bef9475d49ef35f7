package dev.pgleader;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/**
 * An elector in a JVM of its own. It prints {@code elected TERM} and {@code revoked TERM REASON}; a worker thread prints {@code
 * work TERM} whenever it finds that the instance leads, and {@code woke LEADS} when it notices that the process was stopped
 * for a while.
 */
final class ElectorProcess {

    private static final Duration STOPPED = Duration.ofSeconds(1);

    private ElectorProcess() {}

    static JavaProcess start(PostgresServer server, int port, long bits, String id, ElectorOptions options) {
        return JavaProcess.builder(ElectorProcess.class)
                .arguments(
                        "jdbc:postgresql://localhost:" + port + "/" + PostgresServer.DEFAULT_DATABASE,
                        server.superuser(),
                        server.superuserPassword(),
                        Long.toString(bits),
                        id,
                        options.leaseDuration().toString(),
                        options.safetyMargin().toString(),
                        options.healthCheckInterval().toString(),
                        options.healthCheckTimeout().toString(),
                        options.retryInterval().toString())
                .start();
    }

    public static void main(String[] args) throws InterruptedException {
        LeaderElector elector = LeaderElector.builder()
                .connectTo(ConnectionSource.of(args[0], args[1], args[2]))
                .key(LockKey.of(Long.parseLong(args[3])))
                .instanceId(args[4])
                .options(ElectorOptions.builder()
                        .leaseDuration(Duration.parse(args[5]))
                        .safetyMargin(Duration.parse(args[6]))
                        .healthCheckInterval(Duration.parse(args[7]))
                        .healthCheckTimeout(Duration.parse(args[8]))
                        .retryInterval(Duration.parse(args[9]))
                        .takeoverDelay(TakeoverDelay.NONE)
                        .build())
                .listener(new LeadershipListener() {
                    @Override
                    public void onElected(Leadership leadership) {
                        say("elected " + leadership.term());
                    }

                    @Override
                    public void onRevoked(Leadership leadership, RevocationReason reason) {
                        say("revoked " + leadership.term() + " " + reason);
                    }
                })
                .build();
        Thread worker = new Thread(() -> work(elector), "worker");
        worker.setDaemon(true);
        JavaProcess.exitWithParent(command -> {
            switch (command) {
                case "resign" -> elector.resign().join();
                case "close" -> elector.close();
                default -> throw new IllegalArgumentException(command);
            }
        });
        elector.start();
        worker.start();
        new CountDownLatch(1).await();
    }

    private static void work(LeaderElector elector) {
        long last = System.nanoTime();
        while (true) {
            long now = System.nanoTime();
            boolean leads = elector.isLeader();
            if (now - last > STOPPED.toNanos()) {
                say("woke " + leads);
            }
            last = now;
            LockSupport.parkNanos(1_000_000);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
