package dev.pgleader.docs;

import static java.time.temporal.ChronoUnit.MILLIS;

import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.lock.ConnectionSource;
import java.time.LocalTime;
import java.time.ZoneId;

public class NightlyRun implements LeadershipListener {

    public static void main(String[] args) throws InterruptedException {
        LeaderElector elector = LeaderElector.builder()
                .connectTo(ConnectionSource.of(args[0], args[1], args[2])) // URL, user, password
                .key("billing/nightly-run")
                .listener(new NightlyRun())
                .build();
        // When the process is told to end, it stops its work, then releases the lock: the next instance leads at once.
        Runtime.getRuntime().addShutdownHook(new Thread(elector::close));
        elector.start(); // returns at once, and competes until it's closed
        // Its threads keep no process alive, so something of yours has to: here, the main thread.
        Thread.currentThread().join();
    }

    @Override
    public void onElected(Leadership leadership) {
        System.out.println(
                LocalTime.now(ZoneId.systemDefault()).truncatedTo(MILLIS) + " leads, term " + leadership.term());
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {
        System.out.println(LocalTime.now(ZoneId.systemDefault()).truncatedTo(MILLIS) + " no longer leads: " + reason);
    }
}
