package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.pgleader.testkit.PostgresServer;
import java.sql.SQLException;
import java.util.concurrent.ThreadLocalRandom;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The part of {@link LenderContractTest} that takes real time: work that leaves a COPY, so that the lock's end has to wait. */
@Timeout(120)
class BusyConnectionTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static LenderDatabase database;

    private final LockKey key = LockKey.of(ThreadLocalRandom.current().nextLong());

    @BeforeAll
    static void createDatabase() throws SQLException {
        database = new LenderDatabase(SERVER, "busy_connection");
    }

    @AfterAll
    static void closeDatabase() throws SQLException {
        database.close();
    }

    @DisplayName(
            "N05, R27: a COPY that the work of a session lock leaves ends with its session, and the slot is lent again")
    @ParameterizedTest
    @EnumSource(Lender.class)
    void sessionLock(Lender lender) throws Exception {
        try (Lender.Open open = lender.open(database.url(), 1)) {
            String settings = LenderDatabase.settings(open);
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource(), Mess.NETWORK_TIMEOUT_OF_BUSY);
            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() ->
                            locks.tryRunLocked(key, connection -> Mess.LEAVES_COPY.make(SERVER, connection, false)));
            database.assertWhole(open, 1, settings, key);
        }
    }

    @DisplayName(
            "N05, R27: a COPY that the work of a transaction leaves ends with its session, and the slot is lent again")
    @ParameterizedTest
    @EnumSource(Lender.class)
    void transactionLock(Lender lender) throws Exception {
        try (Lender.Open open = lender.open(database.url(), 1)) {
            String settings = LenderDatabase.settings(open);
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource(), Mess.NETWORK_TIMEOUT_OF_BUSY);
            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> locks.tryRunInTransaction(
                            key, connection -> Mess.LEAVES_COPY.make(SERVER, connection, true)));
            database.assertWhole(open, 1, settings, key);
        }
    }
}
