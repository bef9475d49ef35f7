package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.testkit.JavaProcess;
import java.time.Duration;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * R36: a callback that calls {@link System#exit} waits for the shutdown hooks, and a hook that closes the elector waited for
 * the callback: for 30 s, with the lock held.
 */
@Timeout(180)
class JvmExitTest {

    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration BOUND = Duration.ofSeconds(10);

    @ParameterizedTest
    @ValueSource(strings = {"onElected", "onRevoked", "work", "work-at-revocation"})
    void aProcessThatExitsInACallbackIsGoneInTime(String where) {
        try (JavaProcess process = JavaProcess.start(ExitingProcess.class, where)) {
            process.awaitLine("^leads", PATIENCE);
            long asked = System.nanoTime();
            if (where.equals("onRevoked") || where.equals("work-at-revocation")) {
                process.stop();
            } else {
                process.sendLine("exit");
            }
            process.exitCode(PATIENCE);
            assertThat(Duration.ofNanos(System.nanoTime() - asked)).isLessThan(BOUND);
            assertThat(process.lines()).extracting(JavaProcess.Line::text).contains("released");
        }
    }

    /** An elector that is closed by a shutdown hook, with default options. */
    static final class ExitingProcess {

        public static void main(String[] arguments) throws Exception {
            String where = arguments[0];
            java.util.concurrent.CountDownLatch exit = new java.util.concurrent.CountDownLatch(1);
            JavaProcess.exitWithParent(command -> exit.countDown());
            ScriptedSession.Server server = new ScriptedSession.Server();
            LeaderElectorGroup group = LeaderElectorGroup.builder()
                    .sessions(settings -> {
                        ScriptedSession session = new ScriptedSession(server, call -> {
                            if (call.startsWith("release")) {
                                System.out.println("released");
                            }
                        });
                        session.waitsForReal = true;
                        return session;
                    })
                    .build();
            LeaderElector elector = group.elector("exiting")
                    .listener(new LeadershipListener() {
                        @Override
                        public void onElected(Leadership leadership) throws Exception {
                            System.out.println("leads");
                            if (where.equals("onElected")) {
                                exit.await();
                                System.exit(1);
                            }
                        }

                        @Override
                        public void onRevoked(Leadership leadership, RevocationReason reason) {
                            if (where.equals("onRevoked")) {
                                System.exit(1);
                            }
                        }
                    })
                    .build();
            if (where.startsWith("work")) {
                elector.runWhileLeader(leadership -> {
                    try {
                        exit.await();
                    } catch (InterruptedException e) {
                        System.out.println("interrupted");
                    }
                    System.exit(1);
                });
            }
            Runtime.getRuntime().addShutdownHook(new Thread(group::close));
            group.start();
            new java.util.concurrent.CountDownLatch(1).await();
        }
    }
}
