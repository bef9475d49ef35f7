package dev.pgleader.example.plain;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.TakeoverDelay;
import dev.pgleader.lock.ConnectionSource;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * One instance of a service. It takes its configuration from the environment, says on its standard output when it begins and
 * ceases to lead, obeys {@code resign} on its standard input, and ends when that ends.
 */
public final class PlainService {

    private static final String KEY = "example/plain-service";

    private PlainService() {}

    /**
     * Runs an instance.
     *
     * @param args none
     * @throws IOException if the standard input breaks
     */
    public static void main(String[] args) throws IOException {
        Map<String, String> environment = System.getenv();
        LeaderElector elector = LeaderElector.builder()
                .connectTo(ConnectionSource.of(
                        required(environment, "DATABASE_URL"),
                        required(environment, "DATABASE_USER"),
                        required(environment, "DATABASE_PASSWORD")))
                .key(KEY)
                .instanceId(required(environment, "INSTANCE_ID"))
                .options(ElectorOptions.builder()
                        .takeoverDelay(
                                environment.containsKey("FRESH_DATABASE") ? TakeoverDelay.NONE : TakeoverDelay.AUTO)
                        .build())
                .listener(new Announcer())
                .build();
        try (elector;
                BufferedReader commands =
                        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            elector.start();
            for (String command = commands.readLine(); command != null; command = commands.readLine()) {
                if (command.equals("resign")) {
                    elector.resign().join();
                }
            }
        }
    }

    private static String required(Map<String, String> environment, String name) {
        String value = environment.get(name);
        if (value == null) {
            throw new IllegalArgumentException("The environment variable " + name + " is missing");
        }
        return value;
    }

    private static final class Announcer implements LeadershipListener {

        @Override
        public void onElected(Leadership leadership) {
            System.out.println("elected " + leadership.term());
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            System.out.println("revoked " + reason);
        }
    }
}
