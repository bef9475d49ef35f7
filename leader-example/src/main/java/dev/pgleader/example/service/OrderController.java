package dev.pgleader.example.service;

import java.math.BigDecimal;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;

/** Takes orders, on every instance: a follower is as good as the leader for that. */
@RestController
class OrderController {

    /** What a customer sends. */
    record NewOrder(@Nullable String customer, @Nullable BigDecimal amount) {}

    /** What a customer gets. */
    record PlacedOrder(long id) {}

    private final Orders orders;

    OrderController(Orders orders) {
        this.orders = orders;
    }

    @PostMapping("/orders")
    @ResponseStatus(HttpStatus.CREATED)
    PlacedOrder place(@RequestBody NewOrder order) {
        String customer = order.customer();
        BigDecimal amount = order.amount();
        if (customer == null || customer.isBlank()) {
            throw new ResponseStatusException(HttpStatus.BAD_REQUEST, "An order needs a customer");
        }
        if (amount == null || amount.signum() <= 0) {
            throw new ResponseStatusException(
                    HttpStatus.BAD_REQUEST, "An order needs an amount greater than 0, not " + amount);
        }
        return new PlacedOrder(orders.place(customer, amount));
    }
}
