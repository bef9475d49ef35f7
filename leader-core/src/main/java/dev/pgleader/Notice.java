package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.util.Optional;

/**
 * What sessions tell each other by notification, as a line of text that an operator can send by hand. Anybody in the database can
 * send one, so a notice decides nothing: it makes its readers look.
 */
sealed interface Notice {

    LockKey key();

    /** The lock is free. */
    record Released(LockKey key) implements Notice {
        @Override
        public String toString() {
            return "released " + key;
        }
    }

    /** Whoever leads is asked to resign. */
    record ResignRequest(LockKey key) implements Notice {
        @Override
        public String toString() {
            return "resign " + key;
        }
    }

    /** Reads exactly what {@code toString()} of a notice writes; empty for anything else, which isn't for this version. */
    static Optional<Notice> parse(String payload) {
        int space = payload.indexOf(' ');
        if (space < 0) {
            return Optional.empty();
        }
        try {
            LockKey key = LockKey.parse(payload.substring(space + 1));
            Optional<Notice> notice = switch (payload.substring(0, space)) {
                case "released" -> Optional.of(new Released(key));
                case "resign" -> Optional.of(new ResignRequest(key));
                default -> Optional.empty();
            };
            return notice.filter(read -> read.toString().equals(payload));
        } catch (IllegalArgumentException e) {
            return Optional.empty();
        }
    }
}
