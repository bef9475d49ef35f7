package dev.pgleader.spring;

import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;

@Component
class DocumentedReports {

    private final JdbcTemplate jdbc;
    final AtomicInteger sent = new AtomicInteger();

    DocumentedReports(JdbcTemplate jdbc) {
        this.jdbc = jdbc;
    }

    @LeaderOnly
    public void sendIfDue() {
        if (Boolean.TRUE.equals(jdbc.queryForObject("SELECT sent_on < current_date FROM report", Boolean.class))) {
            sent.incrementAndGet();
            jdbc.update("UPDATE report SET sent_on = current_date");
        }
    }
}
