package dev.pgleader.example.lab.web;

import dev.pgleader.example.lab.supervisor.EventLog;
import dev.pgleader.example.lab.supervisor.Supervisor;
import jakarta.annotation.PreDestroy;
import java.io.IOException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import org.jspecify.annotations.Nullable;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.servlet.mvc.method.annotation.SseEmitter;

/**
 * Sends the log of the lab to pages as server-sent events: what is kept first, then what happens, and every second what time
 * it is there. A page that reconnects goes on where it was.
 */
@RestController
final class EventController {

    private static final int MOST_PAGES = 20;
    private static final long BETWEEN_TIMES_MILLIS = 1_000;

    /** The time of the log. */
    record Time(long atMillis) {}

    private final Supervisor supervisor;
    private final Semaphore pages = new Semaphore(MOST_PAGES);
    private final ExecutorService threads = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work, "page-events");
        thread.setDaemon(true);
        return thread;
    });

    EventController(Supervisor supervisor) {
        this.supervisor = supervisor;
    }

    @GetMapping("/events")
    SseEmitter events(@RequestHeader(name = "Last-Event-ID", defaultValue = "0") long lastEventId) {
        if (!pages.tryAcquire()) {
            throw new ResponseStatusException(
                    HttpStatus.SERVICE_UNAVAILABLE, "More than " + MOST_PAGES + " pages are open; close some");
        }
        SseEmitter emitter = new SseEmitter(0L);
        threads.execute(() -> {
            try (EventLog.Subscription subscription = supervisor.log().subscribe(lastEventId)) {
                send(subscription, emitter);
                emitter.complete();
            } catch (IOException | IllegalStateException e) {
                // The page was closed, and the server has cleaned up.
            } catch (InterruptedException e) {
                // The lab ends, and the server has ended before.
                Thread.currentThread().interrupt();
            } finally {
                pages.release();
            }
        });
        return emitter;
    }

    private void send(EventLog.Subscription subscription, SseEmitter emitter) throws IOException, InterruptedException {
        long lastTimeMillis = -BETWEEN_TIMES_MILLIS;
        while (!subscription.isOverrun()) {
            long nowMillis = supervisor.millis();
            if (nowMillis - lastTimeMillis >= BETWEEN_TIMES_MILLIS) {
                emitter.send(SseEmitter.event().name("time").data(new Time(nowMillis)));
                lastTimeMillis = nowMillis;
            }
            EventLog.@Nullable Entry entry =
                    subscription.next(Math.max(1, lastTimeMillis + BETWEEN_TIMES_MILLIS - nowMillis));
            if (entry != null) {
                emitter.send(SseEmitter.event()
                        .id(Long.toString(entry.id()))
                        .name(entry.event().type())
                        .data(entry));
            }
        }
    }

    @PreDestroy
    void close() {
        threads.shutdownNow();
    }
}
