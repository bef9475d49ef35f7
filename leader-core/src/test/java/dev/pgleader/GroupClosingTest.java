package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** R17, R19, R20, R21: how electors end, whatever hangs; on sessions without a database. */
@Timeout(180)
class GroupClosingTest {

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final ScriptedSession.Server server = new ScriptedSession.Server();
    private final List<String> journal = new CopyOnWriteArrayList<>();
    private final List<ScriptedSession> sessions = new CopyOnWriteArrayList<>();
    private final CountDownLatch goOn = new CountDownLatch(1);

    @AfterEach
    void letGo() {
        goOn.countDown();
    }

    private LockSession session(LockSession.Settings settings) {
        ScriptedSession session = new ScriptedSession(server, journal::add);
        session.waitsForReal = true;
        sessions.add(session);
        return session;
    }

    private LeaderElectorGroup group(LockSession.Opener opener) {
        return LeaderElectorGroup.builder()
                .sessions(opener)
                .options(ElectorOptions.builder()
                        .healthCheckTimeout(Duration.ofSeconds(1))
                        .revokeTimeout(Duration.ofMinutes(10))
                        .build())
                .build();
    }

    private LeadershipListener listener(boolean hangs) {
        return new LeadershipListener() {
            @Override
            public void onElected(Leadership leadership) {
                journal.add("onElected");
            }

            @Override
            public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
                if (hangs) {
                    goOn.await();
                }
                journal.add("onRevoked");
            }
        };
    }

    private LeaderElector leader(LeaderElectorGroup group, boolean hangs) throws Exception {
        LeaderElector elector =
                group.elector("closing").listener(listener(hangs)).build();
        elector.start();
        assertThat(elector.awaitLeadership(PATIENCE)).isPresent();
        await().atMost(PATIENCE).until(() -> journal.contains("onElected"));
        return elector;
    }

    private static Duration timed(Runnable action) {
        long begun = System.nanoTime();
        action.run();
        return Duration.ofNanos(System.nanoTime() - begun);
    }

    /** R20: the revoke timeout is ten minutes; the budget counts. */
    @Test
    void aBudgetEndsAnElectorWhoseCallbacksHang() throws Exception {
        LeaderElector elector = leader(group(this::session), true);
        Duration took = timed(() -> elector.close(Duration.ofSeconds(2)));
        assertThat(elector.isLeader()).isFalse();
        assertThat(took).isLessThan(Duration.ofSeconds(60));
        await().atMost(PATIENCE).until(() -> sessions.get(0).isEnded());
    }

    /** R20: a small budget must not cut off callbacks that need only a part of it. */
    @Test
    void aSmallBudgetLeavesCallbacksTheirTime() throws Exception {
        LeaderElector elector = leader(group(this::session), true);
        Thread closing = new Thread(() -> elector.close(PATIENCE.dividedBy(2)));
        closing.start();
        await().atMost(PATIENCE).until(() -> !elector.isLeader());
        assertThat(journal).noneMatch(entry -> entry.startsWith("release"));
        goOn.countDown();
        closing.join(PATIENCE.toMillis());
        assertThat(journal).containsSubsequence("onRevoked", "release [" + elector.key() + "]", "close");
        assertThat(journal).doesNotContain("abort");
    }

    @Test
    void aBudgetOfNothingRevokesAndReturns() throws Exception {
        LeaderElector elector = leader(group(this::session), true);
        elector.close(Duration.ZERO);
        assertThat(elector.isLeader()).isFalse();
        assertThatThrownBy(() -> elector.close(Duration.ofMillis(-1))).isInstanceOf(IllegalArgumentException.class);
        await().atMost(PATIENCE).until(() -> sessions.get(0).isEnded());
    }

    /** R17, R20: a login that hangs is broken off, and no term begins afterwards. */
    @Test
    void aLoginThatHangsIsBrokenOff() throws Exception {
        CountDownLatch opening = new CountDownLatch(1);
        LeaderElectorGroup group = group(settings -> {
            opening.countDown();
            try {
                goOn.await();
            } catch (InterruptedException e) {
                throw new LockSessionException(Fault.UNREACHABLE, "interrupted", e);
            }
            return session(settings);
        });
        LeaderElector elector =
                group.elector("closing").listener(listener(false)).build();
        elector.start();
        opening.await();
        assertThat(timed(group::close)).isLessThan(PATIENCE);
        assertThat(elector.left()).isDone();
        assertThat(journal).isEmpty();
    }

    /** R20: group.close() waited 28.7 s for electors that never led. */
    @Test
    void electorsThatNeverLedAreNotWaitedFor() {
        LeaderElectorGroup group = group(settings -> {
            throw new LockSessionException(Fault.UNREACHABLE, "scripted");
        });
        for (int i = 0; i < 50; i++) {
            group.elector("closing/" + i).build();
        }
        group.elector("closing/never").paused(true).build();
        group.electors().subList(0, 25).forEach(LeaderElector::start);
        Duration took = timed(group::close);
        assertThat(took).isLessThan(Duration.ofSeconds(10));
        assertThat(group.electors()).isEmpty();
    }

    /** R21: commands for a closed elector were kept for ever. */
    @Test
    void nothingIsKeptOfWhatIsAskedOfAClosedElector() throws Exception {
        LeaderElectorGroup group = group(this::session);
        LeaderElector elector = leader(group, false);
        elector.close();
        for (int i = 0; i < 1_000; i++) {
            elector.resume();
            assertThat(elector.verify()).isCompletedExceptionally();
            assertThat(elector.currentLeader()).isCompletedExceptionally();
            assertThat(elector.resign()).isCompletedExceptionally();
            assertThatThrownBy(() -> elector.awaitLeadership(Duration.ofDays(1)))
                    .isInstanceOf(IllegalStateException.class);
        }
        assertThat(group.electors()).isEmpty();
        assertThat(elector.status().role()).isEqualTo(LeaderStatus.Role.STOPPED);
    }

    @Test
    void whoIsClosedHearsSoAsTheLastEvent() throws Exception {
        LeaderElector elector = leader(group(this::session), false);
        List<String> heard = new CopyOnWriteArrayList<>();
        elector.addObserver(new ElectionObserver() {
            @Override
            public void revoked(Leadership leadership, RevocationReason reason, Duration lasted) {
                heard.add("revoked");
            }

            @Override
            public void closed() {
                heard.add("closed");
            }
        });
        elector.close();
        elector.close();
        await().atMost(PATIENCE).until(() -> heard.contains("closed"));
        assertThat(heard).containsExactly("revoked", "closed");
    }

    @Test
    void anElectorThatIsStoppedMayBeStartedAgainAtOnce() throws Exception {
        LeaderElectorGroup group = group(this::session);
        LeaderElector elector = leader(group, false);
        for (int i = 0; i < 20; i++) {
            elector.stop();
            assertThat(elector.isLeader()).isFalse();
            elector.start();
            assertThat(elector.status().role()).isNotEqualTo(LeaderStatus.Role.STOPPED);
            assertThat(elector.awaitLeadership(PATIENCE)).isPresent();
        }
        elector.close();
        assertThat(elector.left().get(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isNull();
        assertThat(sessions).allMatch(ScriptedSession::isEnded);
    }
}
