package dev.pgleader.example.service;

import java.math.BigDecimal;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

/** The orders. Whoever wants to know of a new one hears of it by the outbox. */
@Service
class Orders {

    private final JdbcClient database;

    Orders(JdbcClient database) {
        this.database = database;
    }

    /** Keeps an order and its message, or neither. */
    @Transactional
    public long place(String customer, BigDecimal amount) {
        long id = database.sql("INSERT INTO orders (customer, amount) VALUES (?, ?) RETURNING id")
                .params(customer, amount)
                .query(Long.class)
                .single();
        database.sql("INSERT INTO outbox (message) VALUES (?)")
                .param("order " + id + " placed")
                .update();
        return id;
    }
}
