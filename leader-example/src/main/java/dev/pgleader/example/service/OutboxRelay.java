package dev.pgleader.example.service;

import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import jakarta.annotation.PostConstruct;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;

/**
 * Sends what is in the outbox, in order. One instance does, because two would mix up the order.
 *
 * <p>A message is marked as sent after it was sent, so none is lost. One may be sent twice, by a leader that dies in between, or
 * that goes on for a moment after it has lost leadership: receivers have to know a message by its number.
 */
@Component
class OutboxRelay {

    private static final Logger LOG = LoggerFactory.getLogger(OutboxRelay.class);
    private static final int BATCH = 100;

    private record Message(long id, String message) {}

    private final JdbcClient database;
    private final LeaderElector elector;
    private final OrdersProperties properties;

    OutboxRelay(JdbcClient database, LeaderElector elector, OrdersProperties properties) {
        this.database = database;
        this.elector = elector;
        this.properties = properties;
    }

    /** Before the first election: that begins when all beans are there. */
    @PostConstruct
    void register() {
        elector.runWhileLeader(this::relay);
    }

    /**
     * Runs on a thread of its own for one term. The interrupt at its end wakes the pause. As long as it runs, a leader that gives
     * up in order keeps the lock: the next one begins when this one has ended. If it throws, another instance gets its chance.
     */
    private void relay(Leadership leadership) throws InterruptedException {
        LOG.info("Relays the outbox in term {}", leadership.term());
        try {
            while (leadership.isValid()) {
                if (sendBatch(leadership) == 0) {
                    TimeUnit.MILLISECONDS.sleep(properties.relayPause().toMillis());
                }
            }
        } finally {
            LOG.info("No longer relays the outbox in term {}", leadership.term());
        }
    }

    private int sendBatch(Leadership leadership) {
        List<Message> batch = database.sql("SELECT id, message FROM outbox WHERE sent_at IS NULL ORDER BY id LIMIT ?")
                .param(BATCH)
                .query(Message.class)
                .list();
        for (Message message : batch) {
            // Before each effect, not once for the batch: this is how little a former leader can still do.
            leadership.ensureValid();
            LOG.info("Message {}: {}", message.id(), message.message());
            database.sql("UPDATE outbox SET sent_at = now(), sent_by = ? WHERE id = ?")
                    .params(elector.instanceId(), message.id())
                    .update();
        }
        return batch.size();
    }
}
