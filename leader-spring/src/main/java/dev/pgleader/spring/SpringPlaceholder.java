package dev.pgleader.spring;

import dev.pgleader.Placeholder;
import org.jspecify.annotations.Nullable;

/** Placeholder of the integration. */
public final class SpringPlaceholder {

    private SpringPlaceholder() {}

    /**
     * Returns the number of attempts.
     *
     * @param configured the configured number, or null for the default
     * @return at least one
     */
    public static int attempts(@Nullable Integer configured) {
        return configured == null ? Placeholder.attempts() : configured;
    }
}
