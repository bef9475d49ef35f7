package dev.pgleader.example.service;

import dev.pgleader.lock.AdvisoryLocks;
import dev.pgleader.lock.LockKey;
import jakarta.annotation.PostConstruct;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import org.springframework.stereotype.Component;

/**
 * Makes the tables, if they aren't there. All instances start at the same time, and {@code IF NOT EXISTS} doesn't keep two of
 * them from the same table: one makes it, the others wait for the lock and find it made. A team with a migration tool leaves
 * this to the tool, which locks too.
 */
@Component
class Schema {

    private static final LockKey KEY = LockKey.named("orders/schema");
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final String TABLES = """
            CREATE TABLE IF NOT EXISTS orders (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                customer text NOT NULL,
                amount numeric(12, 2) NOT NULL,
                placed_at timestamptz NOT NULL DEFAULT now(),
                paid boolean NOT NULL DEFAULT false,
                reminded_on date,
                reminded_by text);
            CREATE TABLE IF NOT EXISTS outbox (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                message text NOT NULL,
                sent_at timestamptz,
                sent_by text);
            CREATE INDEX IF NOT EXISTS outbox_unsent ON outbox (id) WHERE sent_at IS NULL;
            CREATE TABLE IF NOT EXISTS daily_totals (
                day date PRIMARY KEY,
                orders bigint NOT NULL,
                amount numeric NOT NULL)
            """;

    private final AdvisoryLocks locks;

    Schema(AdvisoryLocks locks) {
        this.locks = locks;
    }

    @PostConstruct
    void create() throws SQLException, InterruptedException {
        locks.runInTransaction(KEY, PATIENCE, connection -> {
            try (Statement statement = connection.createStatement()) {
                return statement.execute(TABLES);
            }
        });
    }
}
