package dev.pgleader;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.Credentials;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/**
 * An elector in a JVM of its own. It prints {@code elected TERM} and {@code revoked TERM REASON}. A worker thread, which asks
 * {@code isLeader()} all the time, prints {@code led TERM FROM TO} now and then and at the end of each term: between these two
 * readings of {@link System#nanoTime()}, which all processes of a machine share on Linux, this instance led. It prints {@code
 * woke LEADS} when it notices that the process was stopped for a while.
 */
final class ElectorProcess {

    private static final Duration STOPPED = Duration.ofSeconds(1);
    private static final Duration TELL_EVERY = Duration.ofMillis(20);

    private ElectorProcess() {}

    static JavaProcess start(PostgresServer server, int port, long bits, String id, ElectorOptions options) {
        String url = "jdbc:postgresql://localhost:" + port + "/" + PostgresServer.DEFAULT_DATABASE;
        Credentials superuser = new Credentials(server.superuser(), server.superuserPassword());
        return describe(url, superuser, bits, id, options).start();
    }

    /** A process that isn't started yet. */
    static JavaProcess.Builder describe(
            String url, Credentials credentials, long bits, String id, ElectorOptions options) {
        return JavaProcess.builder(ElectorProcess.class)
                .arguments(
                        url,
                        credentials.user(),
                        credentials.password(),
                        Long.toString(bits),
                        id,
                        options.leaseDuration().toString(),
                        options.safetyMargin().toString(),
                        options.healthCheckInterval().toString(),
                        options.healthCheckTimeout().toString(),
                        options.retryInterval().toString(),
                        options.takeoverDelay().toString(),
                        Boolean.toString(options.unenforcedLeaseAccepted()));
    }

    /** A time in which a process was sure to lead, in {@link System#nanoTime()}. */
    record Led(long term, long from, long to) {}

    /** The terms of a process in their order, as far as it has told; its last word on each counts. */
    static List<Led> led(JavaProcess process) {
        Map<Long, Led> terms = new TreeMap<>();
        for (JavaProcess.Line line : process.lines()) {
            String[] words = line.text().split(" ", -1);
            if (words[0].equals("led")) {
                long term = Long.parseLong(words[1]);
                terms.put(term, new Led(term, Long.parseLong(words[2]), Long.parseLong(words[3])));
            }
        }
        return List.copyOf(terms.values());
    }

    /** The last moment at which a process was sure to lead in a term, as far as it has told. */
    static long lastLed(JavaProcess process, long term) {
        return led(process).stream()
                .filter(each -> each.term() == term)
                .findFirst()
                .orElseThrow(() -> new AssertionError(process + " never led in term " + term))
                .to();
    }

    public static void main(String[] args) throws InterruptedException {
        LeaderElectorGroup group = LeaderElectorGroup.builder()
                .connectTo(ConnectionSource.of(args[0], args[1], args[2]))
                .instanceId(args[4])
                .ticker(Suspension.ticker())
                .options(ElectorOptions.builder()
                        .leaseDuration(Duration.parse(args[5]))
                        .safetyMargin(Duration.parse(args[6]))
                        .healthCheckInterval(Duration.parse(args[7]))
                        .healthCheckTimeout(Duration.parse(args[8]))
                        .retryInterval(Duration.parse(args[9]))
                        .takeoverDelay(takeoverDelay(args[10]))
                        .unenforcedLeaseAccepted(Boolean.parseBoolean(args[11]))
                        .build())
                .build();
        LeaderElector elector = group.elector(LockKey.of(Long.parseLong(args[3])))
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
                case "resign" -> {
                    var unused = elector.resign();
                }
                case "close" -> group.close();
                case "ask-to-resign" -> {
                    // It fails while there is no session, which is a part of the game.
                    var unused = elector.requestResignation();
                }
                default -> throw new IllegalArgumentException(command);
            }
        });
        elector.start();
        worker.start();
        new CountDownLatch(1).await();
    }

    private static TakeoverDelay takeoverDelay(String text) {
        return switch (text) {
            case "NONE" -> TakeoverDelay.NONE;
            case "AUTO" -> TakeoverDelay.AUTO;
            default -> TakeoverDelay.of(Duration.parse(text));
        };
    }

    private static void work(LeaderElector elector) {
        long term = 0;
        long from = 0;
        long to = 0;
        long toldAt = System.nanoTime();
        long last = toldAt;
        while (true) {
            long before = System.nanoTime();
            Leadership leadership = elector.leadership().orElse(null);
            boolean leads = leadership != null && leadership.isValid();
            long after = System.nanoTime();
            if (term != 0 && (!leads || leadership.term() != term)) {
                say("led " + term + " " + from + " " + to);
                term = 0;
            }
            if (leads && term == 0) {
                term = leadership.term();
                from = after;
            }
            if (leads) {
                // It led at some time between the two readings, and at "from": so it did until the first of them.
                to = Math.max(before, from);
                if (after - toldAt > TELL_EVERY.toNanos()) {
                    say("led " + term + " " + from + " " + to);
                    toldAt = after;
                }
            }
            if (before - last > STOPPED.toNanos()) {
                say("woke " + leads);
            }
            last = after;
            LockSupport.parkNanos(300_000);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
