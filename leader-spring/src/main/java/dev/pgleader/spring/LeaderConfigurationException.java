package dev.pgleader.spring;

import org.jspecify.annotations.Nullable;

/** The application can't start like this. The message says what is wrong; {@link #action} what to do. */
final class LeaderConfigurationException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    private final String action;

    LeaderConfigurationException(String message, String action, @Nullable Throwable cause) {
        super(message, cause);
        this.action = action;
    }

    LeaderConfigurationException(String message, String action) {
        this(message, action, null);
    }

    String action() {
        return action;
    }
}
