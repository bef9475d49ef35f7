package dev.pgleader.example.service;

import java.time.Duration;
import java.time.ZoneId;
import org.springframework.boot.context.properties.ConfigurationProperties;

/**
 * What the service is configured with, beside its schedules.
 *
 * @param zone where a day begins and ends, and what the schedules mean by three o'clock
 * @param relayPause how long the relay waits when it has nothing to send
 */
@ConfigurationProperties("orders")
record OrdersProperties(ZoneId zone, Duration relayPause) {}
