package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.Optional;

/** What the instances tell each other by notification, as text that an operator can send by hand. */
sealed interface Notice {

    LockKey key();

    /** The key was given up by its leader, in order. */
    record Released(LockKey key) implements Notice {
        @Override
        public String toString() {
            return "released " + key;
        }
    }

    /** The key was given up by one that never led under it, so nothing is known of the leader before. */
    record Freed(LockKey key) implements Notice {
        @Override
        public String toString() {
            return "freed " + key;
        }
    }

    /** Somebody leads. */
    record Elected(LockKey key, LeaderInfo leader) implements Notice {
        @Override
        public String toString() {
            return "elected " + key + " " + leader.backendPid() + " "
                    + leader.since().orElseThrow() + " " + leader.instanceId();
        }
    }

    /** Whoever leads is asked to resign. */
    record ResignRequest(LockKey key) implements Notice {
        @Override
        public String toString() {
            return "resign " + key;
        }
    }

    /** Whoever leads is asked to say so. */
    record WhoLeads(LockKey key) implements Notice {
        @Override
        public String toString() {
            return "who " + key;
        }
    }

    /** Reads what {@code toString()} of a notice writes; empty for anything else, which isn't for this version. */
    static Optional<Notice> parse(String payload) {
        String[] words = payload.split(" ", 5);
        if (words.length < 2) {
            return Optional.empty();
        }
        try {
            LockKey key = LockKey.parse(words[1]);
            return switch (words[0]) {
                case "released" -> Optional.of(new Released(key));
                case "freed" -> Optional.of(new Freed(key));
                case "resign" -> Optional.of(new ResignRequest(key));
                case "who" -> Optional.of(new WhoLeads(key));
                case "elected" ->
                    words.length < 5
                            ? Optional.empty()
                            : Optional.of(new Elected(
                                    key,
                                    new LeaderInfo(
                                            words[4],
                                            Integer.parseInt(words[2]),
                                            Optional.of(Instant.parse(words[3])))));
                default -> Optional.empty();
            };
        } catch (IllegalArgumentException | DateTimeParseException e) {
            return Optional.empty();
        }
    }
}
