package dev.pgleader.example.service;

import dev.pgleader.lock.AdvisoryLocks;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockOutcome;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.LocalDate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/**
 * Adds up the orders of a day. It only writes to the database, so it needs no leader: the lock is taken by the transaction that
 * writes, and ends with it. Nothing can be written without the lock, not even by an instance that was stopped in the middle.
 */
@Component
class DailyTotals {

    static final LockKey KEY = LockKey.named("orders/daily-totals");

    private static final Logger LOG = LoggerFactory.getLogger(DailyTotals.class);

    private final AdvisoryLocks locks;
    private final OrdersProperties properties;

    DailyTotals(AdvisoryLocks locks, OrdersProperties properties) {
        this.locks = locks;
        this.properties = properties;
    }

    /** On every instance at the same time. One does it; the others skip it, or find it done. */
    @Scheduled(cron = "${orders.totals.cron}", zone = "${orders.zone}")
    void addUpYesterday() throws SQLException {
        LocalDate yesterday = LocalDate.now(properties.zone()).minusDays(1);
        LockOutcome<Boolean> outcome = addUp(yesterday);
        if (outcome.wasSkipped()) {
            LOG.info("Another instance adds up {}", yesterday);
        } else {
            LOG.info(outcome.value() ? "Added up {}" : "{} was added up before", yesterday);
        }
    }

    /** Whether there were no totals of that day yet; skipped if another instance is at it. */
    LockOutcome<Boolean> addUp(LocalDate day) throws SQLException {
        return locks.tryRunInTransaction(KEY, connection -> insertTotals(connection, day));
    }

    private boolean insertTotals(Connection connection, LocalDate day) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("""
                INSERT INTO daily_totals (day, orders, amount)
                SELECT ?, count(*), coalesce(sum(amount), 0) FROM orders WHERE (placed_at AT TIME ZONE ?)::date = ?
                ON CONFLICT (day) DO NOTHING
                """)) {
            insert.setObject(1, day);
            insert.setString(2, properties.zone().getId());
            insert.setObject(3, day);
            return insert.executeUpdate() == 1;
        }
    }
}
