package dev.pgleader.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.pgleader.testkit.LockTable.AdvisoryRow;
import dev.pgleader.testkit.PostgresServer.ShutdownMode;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import org.awaitility.core.ConditionTimeoutException;
import org.junit.jupiter.api.Test;

class LockTableTest {

    @Test
    void showsWhoHoldsAKeyAndHowThatSessionIs() throws SQLException {
        PostgresServer server = PostgresServer.shared();
        server.createDatabase("lock_table_test");
        try (Connection holder = server.connect("lock_table_test");
                LockTable table = new LockTable(server, "lock_table_test")) {
            assertThat(table.holders(-5)).isEmpty();
            assertThatThrownBy(() -> table.awaitHolder(-5, Duration.ofMillis(50)))
                    .isInstanceOf(ConditionTimeoutException.class);
            Sql.execute(holder, "SET application_name = 'lock-table-test/1'");
            assertThat(Sql.tryLock(holder, -5)).isTrue();

            int pid = Sql.backendPid(holder);
            assertThat(table.awaitHolder(-5, Duration.ofSeconds(5))).isEqualTo(pid);
            assertThat(table.holders(-5)).containsExactly(pid);
            assertThat(table.advisoryRows())
                    .containsExactly(new AdvisoryRow(pid, 4_294_967_295L, 4_294_967_291L, 1, true));
            assertThat(table.sessions("lock-table-test/")).singleElement().satisfies(session -> {
                assertThat(session.pid()).isEqualTo(pid);
                assertThat(session.user()).isEqualTo(server.superuser());
                assertThat(session.state()).isEqualTo("idle");
                assertThat(session.transactionStart()).isNull();
                assertThat(session.backendXmin()).isNull();
            });

            holder.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            holder.setAutoCommit(false);
            assertThat(Sql.unlock(holder, -5)).isTrue();
            table.awaitFree(-5, Duration.ofSeconds(5));
            assertThat(table.session(pid)).hasValueSatisfying(session -> {
                assertThat(session.state()).isEqualTo("idle in transaction");
                assertThat(session.transactionStart()).isNotNull();
                assertThat(session.backendXmin()).isNotNull();
            });
        }
    }

    @Test
    void goesOnAfterARestartOfTheServer() throws SQLException {
        try (PostgresServer server = PostgresServer.launch();
                LockTable table = new LockTable(server, PostgresServer.DEFAULT_DATABASE)) {
            assertThat(table.holders(1)).isEmpty();
            server.restart(ShutdownMode.FAST);
            try (Connection holder = server.connect()) {
                assertThat(Sql.tryLock(holder, 1)).isTrue();
                assertThat(table.awaitHolder(1, Duration.ofSeconds(5))).isEqualTo(Sql.backendPid(holder));
            }
        }
    }
}
