package dev.pgleader.example.lab.node;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Work that takes time and doesn't listen to interrupts. */
final class Work {

    private Work() {}

    static void take(Duration duration) {
        new CompletableFuture<Void>()
                .completeOnTimeout(null, duration.toNanos(), TimeUnit.NANOSECONDS)
                .join();
    }
}
