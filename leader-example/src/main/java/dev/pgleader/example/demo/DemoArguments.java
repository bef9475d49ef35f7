package dev.pgleader.example.demo;

import dev.pgleader.example.CommandLine;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * What the demo is told on its command line.
 *
 * @param url the database to use; empty to start one
 * @param user the role to log in as there
 * @param password its password
 */
record DemoArguments(Optional<String> url, String user, String password) {

    static final String USAGE =
            "usage: [--url jdbc:postgresql://host:port/database] [--user NAME] [--password PASSWORD]";

    private static final Set<String> OPTIONS = Set.of("--url", "--user", "--password");

    /** @throws IllegalArgumentException if there is something else, with what to do */
    static DemoArguments parse(String... args) {
        Map<String, String> values = CommandLine.parse(OPTIONS, USAGE, args);
        if (!values.containsKey("--url") && !values.isEmpty()) {
            throw new IllegalArgumentException("A user or a password needs a --url; " + USAGE);
        }
        return new DemoArguments(
                Optional.ofNullable(values.get("--url")),
                values.getOrDefault("--user", "postgres"),
                values.getOrDefault("--password", ""));
    }

    @Override
    public String toString() {
        return "DemoArguments[url=" + url + ", user=" + user + "]";
    }
}
