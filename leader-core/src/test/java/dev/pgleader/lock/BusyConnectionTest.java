package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.pgleader.testkit.PostgresServer;
import java.util.concurrent.ThreadLocalRandom;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The part of {@link LenderContractTest} that takes real time: work that leaves a COPY, so that the lock's end has to wait. */
@Timeout(120)
class BusyConnectionTest {

    private static final PostgresServer SERVER = PostgresServer.shared();

    @AutoClose
    private static final LenderDatabase DATABASE = LenderDatabase.create("busy_connection");

    private final LockKey key = LockKey.of(ThreadLocalRandom.current().nextLong());

    @DisplayName(
            "N05, R27: a COPY that the work of a session lock leaves ends with its session, and the slot is lent again")
    @ParameterizedTest
    @MethodSource("dev.pgleader.lock.Lender#ofThisRun")
    void sessionLock(Lender lender) throws Exception {
        try (Lender.Open open = lender.open(DATABASE.url(), 1)) {
            String settings = LenderDatabase.settings(open);
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource(), Mess.NETWORK_TIMEOUT_OF_BUSY);
            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() ->
                            locks.tryRunLocked(key, connection -> Mess.LEAVES_COPY.make(SERVER, connection, false)));
            DATABASE.assertWhole(open, 1, settings, key);
        }
    }

    @DisplayName(
            "N05, R27: a COPY that the work of a transaction leaves ends with its session, and the slot is lent again")
    @ParameterizedTest
    @MethodSource("dev.pgleader.lock.Lender#ofThisRun")
    void transactionLock(Lender lender) throws Exception {
        try (Lender.Open open = lender.open(DATABASE.url(), 1)) {
            String settings = LenderDatabase.settings(open);
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource(), Mess.NETWORK_TIMEOUT_OF_BUSY);
            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> locks.tryRunInTransaction(
                            key, connection -> Mess.LEAVES_COPY.make(SERVER, connection, true)));
            DATABASE.assertWhole(open, 1, settings, key);
        }
    }
}
