package dev.pgleader.example.service;

import dev.pgleader.LeaderElector;
import dev.pgleader.spring.LeaderOnly;
import java.time.LocalDate;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/**
 * Reminds customers of what they haven't paid. Every instance has the schedule, the leader runs it: if the leader changes at
 * 02:59, the new one reminds them at 03:00. If there is no leader at 03:00, nobody does before the next night, when all who are
 * due are reminded.
 */
@Component
class NightlyReminders {

    private static final Logger LOG = LoggerFactory.getLogger(NightlyReminders.class);

    private final JdbcClient database;
    private final LeaderElector elector;
    private final OrdersProperties properties;

    NightlyReminders(JdbcClient database, LeaderElector elector, OrdersProperties properties) {
        this.database = database;
        this.elector = elector;
        this.properties = properties;
    }

    @LeaderOnly
    @Scheduled(cron = "${orders.reminders.cron}", zone = "${orders.zone}")
    void remindAll() {
        LocalDate today = LocalDate.now(properties.zone());
        List<Long> due = database.sql(
                        "SELECT id FROM orders WHERE NOT paid AND reminded_on IS DISTINCT FROM ? ORDER BY id")
                .param(today)
                .query(Long.class)
                .list();
        for (long order : due) {
            // @LeaderOnly asks once, when the run begins. A long run may outlive the leadership.
            if (!elector.isLeader()) {
                LOG.info("No longer the leader; the others are reminded by the next run");
                return;
            }
            remind(order, today);
        }
    }

    /**
     * Claims the order first, in a statement that only one instance can succeed with. Leadership makes it unlikely that two work
     * at the same time, not impossible, and no customer likes two reminders.
     */
    private void remind(long order, LocalDate today) {
        int claimed = database.sql("UPDATE orders SET reminded_on = :today, reminded_by = :instance"
                        + " WHERE id = :order AND reminded_on IS DISTINCT FROM :today")
                .param("today", today)
                .param("instance", elector.instanceId())
                .param("order", order)
                .update();
        if (claimed == 1) {
            LOG.info("Reminded the customer of order {}", order);
        }
    }
}
