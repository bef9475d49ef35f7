package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.JavaProcess.Line;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.slf4j.LoggerFactory;

/**
 * R15, R16: a real process whose heap is full, that gets no thread or no file for a while. When the shortage is over it competes
 * again, and each term's callbacks have come, once and in order.
 */
@Timeout(300)
class PoorProcessTest {

    private static final Duration SHORTAGE = Duration.ofSeconds(2);
    /** A shortage of the user's own code. */
    private static final Duration BAD_MOOD = Duration.ofMillis(Long.getLong("poor.millis", 300));
    /** A second is what it takes; more is the machine's. */
    private static final Duration RECOVERY = Duration.ofSeconds(20);

    private final PostgresServer server = PostgresServer.shared();
    private final long bits = freshKeyBits();
    private final LockTable locks = new LockTable(server, PostgresServer.DEFAULT_DATABASE);
    private JavaProcess process;

    @BeforeEach
    void start() {
        assumeTrue(JavaProcess.canBeLimited(), "setpriv and prlimit (util-linux) can't be used here");
        process = startProcess(false);
    }

    private JavaProcess startProcess(boolean moody) {
        JavaProcess started = JavaProcess.builder(PoorProcess.class)
                .asOrdinaryUser()
                .jvmOption("-Xmx40m")
                .systemProperty("pgleader.log", moody ? "TRACE" : "OFF")
                .arguments(
                        server.url(PostgresServer.DEFAULT_DATABASE),
                        server.superuser(),
                        server.superuserPassword(),
                        Long.toString(bits),
                        Boolean.toString(moody))
                .start();
        started.awaitLine("^ready", PATIENCE);
        return started;
    }

    @AfterEach
    void close() throws Exception {
        if (process != null) {
            process.close();
        }
        locks.close();
    }

    private String ask(String command) {
        List<Line> lines = process.lines();
        Line asked = lines.get(lines.size() - 1);
        process.sendLine(command);
        return process.awaitLineAfter(asked, line -> line.startsWith(command + ":"), PATIENCE)
                .text()
                .substring(command.length() + 1)
                .strip();
    }

    private void awaitLeading() {
        await().atMost(PATIENCE).until(() -> ask("role").equals("LEADER true"));
    }

    /** It leads, and the last callback that came is that of this term. */
    private void awaitRecovered(String shortage) {
        long over = System.nanoTime();
        await().atMost(RECOVERY)
                .pollInterval(Duration.ofMillis(20))
                .until(() ->
                        ask("role").equals("LEADER true") && ask("callbacks").endsWith("elected"));
        System.out.println(shortage + ": leads "
                + Duration.ofNanos(System.nanoTime() - over).toMillis() + " ms after it, " + ask("callbacks"));
        assertCallbacksPair();
    }

    private void assertCallbacksPair() {
        assertThat(ask("callbacks")).matches("(elected revoked ?)*(elected)?");
    }

    private void last(Duration duration) {
        long start = System.nanoTime();
        await().atMost(PATIENCE).until(() -> System.nanoTime() - start >= duration.toNanos());
    }

    @Test
    void aFullHeapEndsNothing() {
        ask("start");
        awaitLeading();
        ask("fill");
        awaitRecovered("Heap of 40 MB full for 4 s");
        ask("resign");
        awaitRecovered("The resignation after that");
    }

    /**
     * Once while it holds a lock, and once while it has to connect. It has lost a session before: here each class is a file of its
     * own, in production they are in a few that are open.
     */
    @ParameterizedTest
    @CsvSource({"nproc, 1, threads", "nofile, 16, files"})
    void withoutThreadsOrFilesNothingEnds(String resource, String limit, String name) throws Exception {
        ask("start");
        awaitLeading();
        server.terminateBackend(locks.awaitHolder(bits, PATIENCE));
        await().atMost(PATIENCE).until(() -> ask("callbacks").equals("elected revoked elected"));
        process.limit(resource, limit);
        last(SHORTAGE);
        server.terminateBackend(locks.awaitHolder(bits, PATIENCE));
        last(SHORTAGE);
        process.limit(resource, "4096");
        awaitRecovered("No " + name + " for 4 s");
        assertThat(ask("callbacks")).isEqualTo("elected revoked elected revoked elected");
    }

    @Test
    void aStartWithoutThreadsThrowsAndCanBeRepeated() {
        process.limit("nproc", "1");
        assertThat(ask("start")).startsWith("java.lang.OutOfMemoryError");
        assertThat(ask("role")).startsWith("STOPPED");
        process.limit("nproc", "4096");
        assertThat(ask("start")).isEqualTo("done");
        awaitRecovered("A start without threads");
    }

    @Test
    void anElectionWithoutThreadsIsToldOfLater() throws Exception {
        try (TestCandidate other = TestCandidate.startLeader("other", TestCandidate.direct(server), LockKey.of(bits))) {
            ask("start");
            // The driver's first connection starts a thread; without it, no other one of that process ever succeeds.
            await().atMost(PATIENCE).until(() -> ask("role").equals("FOLLOWER false, knows other"));
            process.limit("nproc", "1");
            other.elector().stop();
            await().atMost(PATIENCE).until(() -> ask("role").equals("LEADER true"));
            last(SHORTAGE);
            process.limit("nproc", "4096");
            awaitRecovered("An election without threads");
        }
    }

    @Test
    void aRevocationWithoutThreadsIsToldOfLater() {
        ask("start");
        awaitRecovered("The start");
        awaitNoCallbackThreads();
        process.limit("nproc", "1");
        ask("resign");
        last(SHORTAGE);
        process.limit("nproc", "4096");
        awaitRecovered("A revocation without threads");
        assertThat(ask("callbacks")).isEqualTo("elected revoked elected");
    }

    @Test
    void aCloseWithoutThreadsReturnsInTimeAndFreesTheLock() {
        ask("start");
        awaitRecovered("The start");
        awaitNoCallbackThreads();
        process.limit("nproc", "1");
        long asked = System.nanoTime();
        ask("close");
        assertThat(Duration.ofNanos(System.nanoTime() - asked)).isLessThan(PoorProcess.CLOSE_TIMEOUT.plus(RECOVERY));
        process.limit("nproc", "4096");
        await().atMost(RECOVERY).until(() -> locks.holders(bits).isEmpty());
        await().atMost(RECOVERY).until(() -> ask("callbacks").equals("elected revoked"));
        await().atMost(RECOVERY).until(() -> ask("threads").isEmpty());
    }

    /** R15: what the user's executor and logger do for a while, a term that ends and the next one's begin among it. */
    @Test
    void anExecutorOrALoggerThatFailsEndsNothing() throws Exception {
        process.close();
        process = startProcess(true);
        ask("start");
        awaitRecovered("The start");
        String callbacks = "elected";
        for (Mood mood : Mood.values()) {
            ask(mood.name());
            ask("resign");
            last(BAD_MOOD);
            ask(Mood.FINE.name());
            awaitRecovered("Executor or logger that " + mood);
            callbacks += " revoked elected";
            assertThat(ask("callbacks")).isEqualTo(callbacks);

            ask(mood.name());
            server.terminateBackend(locks.awaitHolder(bits, PATIENCE));
            last(BAD_MOOD);
            ask(Mood.FINE.name());
            awaitRecovered("Session lost, executor or logger that " + mood);
            callbacks += " revoked elected";
            assertThat(ask("callbacks")).isEqualTo(callbacks);
        }
        ask("close");
        assertThat(ask("callbacks")).isEqualTo(callbacks + " revoked");
    }

    /** How the executor and the logger are. */
    private enum Mood {
        FINE,
        REFUSES,
        TAKES_AND_THROWS,
        BLOCKS,
        RUNS_INLINE,
        LOGGER_THROWS
    }

    /** They go when there is nothing to do for some seconds; then the next callback needs a thread. */
    private void awaitNoCallbackThreads() {
        await().atMost(PATIENCE).until(() -> !ask("threads").contains("-callback-"));
    }

    /** Does what it's told; its callbacks are written down without needing memory. */
    static final class PoorProcess {

        static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(6);
        private static final Duration FULL = Duration.ofSeconds(4);

        private static final boolean[] CALLBACKS = new boolean[1_000];
        private static final AtomicInteger COUNT = new AtomicInteger();
        private static final ExecutorService POOL = Executors.newCachedThreadPool();

        private static volatile Mood mood = Mood.FINE;

        private PoorProcess() {}

        public static void main(String[] args) throws Exception {
            LeaderElector.Builder builder = LeaderElector.builder();
            if (Boolean.parseBoolean(args[4])) {
                builder.callbackExecutor(PoorProcess::execute);
                logThroughMood();
            }
            LeaderElector elector = builder.connectTo(ConnectionSource.of(args[0], args[1], args[2]))
                    .key(LockKey.of(Long.parseLong(args[3])))
                    .name("poor")
                    .options(TestCandidate.FAST.toBuilder()
                            .leaseDuration(Duration.ofSeconds(15))
                            .revokeTimeout(Duration.ofSeconds(3))
                            .build())
                    .listener(new LeadershipListener() {
                        @Override
                        public void onElected(Leadership leadership) {
                            CALLBACKS[COUNT.getAndIncrement()] = true;
                        }

                        @Override
                        public void onRevoked(Leadership leadership, RevocationReason reason) {
                            CALLBACKS[COUNT.getAndIncrement()] = false;
                        }
                    })
                    .build();
            JavaProcess.exitWithParent(command -> System.out.println(command + ": " + answer(elector, command)));
            System.out.println("ready");
            new CountDownLatch(1).await();
        }

        private static String answer(LeaderElector elector, String command) {
            try {
                return switch (command) {
                    case "start" -> done(elector::start);
                    case "resign" ->
                        done(() -> {
                            var unused = elector.resign();
                        });
                    case "close" -> done(elector::close);
                    case "fill" -> done(PoorProcess::fill);
                    case "FINE", "REFUSES", "TAKES_AND_THROWS", "BLOCKS", "RUNS_INLINE", "LOGGER_THROWS" ->
                        done(() -> mood = Mood.valueOf(command));
                    case "role" ->
                        elector.status().role() + " " + elector.isLeader()
                                + elector.status()
                                        .knownLeader()
                                        .filter(leader -> !elector.isLeader())
                                        .map(leader -> ", knows " + leader.instanceId())
                                        .orElse("");
                    case "callbacks" -> callbacks();
                    case "threads" ->
                        Thread.getAllStackTraces().keySet().stream()
                                .map(Thread::getName)
                                .filter(name -> name.contains("pg-leader"))
                                .toList()
                                .stream()
                                .reduce("", (a, b) -> (a + " " + b).strip());
                    default -> throw new IllegalArgumentException(command);
                };
            } catch (Throwable e) {
                return e.toString();
            }
        }

        private static void execute(Runnable task) {
            switch (mood) {
                case REFUSES -> throw new RejectedExecutionException("refused");
                case RUNS_INLINE -> task.run();
                case TAKES_AND_THROWS -> {
                    POOL.execute(task);
                    throw new IllegalStateException("taken all the same");
                }
                case BLOCKS -> {
                    while (mood == Mood.BLOCKS) {
                        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
                    }
                    POOL.execute(task);
                }
                case FINE, LOGGER_THROWS -> POOL.execute(task);
            }
        }

        private static void logThroughMood() {
            Logger root = (Logger) LoggerFactory.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);
            root.detachAndStopAllAppenders();
            AppenderBase<ILoggingEvent> appender = new AppenderBase<>() {
                @Override
                public synchronized void doAppend(ILoggingEvent event) {
                    if (mood == Mood.LOGGER_THROWS && event.getLoggerName().startsWith("dev.pgleader")) {
                        throw new IllegalStateException("no log");
                    }
                }

                @Override
                protected void append(ILoggingEvent event) {}
            };
            appender.start();
            root.addAppender(appender);
        }

        private static String done(Runnable action) {
            action.run();
            return "done";
        }

        private static String callbacks() {
            List<String> all = new ArrayList<>();
            for (int i = 0; i < COUNT.get(); i++) {
                all.add(CALLBACKS[i] ? "elected" : "revoked");
            }
            return String.join(" ", all);
        }

        /** Takes all memory there is, and all that becomes free, until the time is over. */
        private static void fill() {
            Object[] chain = null;
            long end = System.nanoTime() + FULL.toNanos();
            int size = 1 << 20;
            while (System.nanoTime() < end) {
                try {
                    Object[] next = new Object[size];
                    next[0] = chain;
                    chain = next;
                } catch (OutOfMemoryError e) {
                    size = Math.max(1, size / 2);
                    if (size == 1) {
                        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
                    }
                }
            }
        }
    }
}
