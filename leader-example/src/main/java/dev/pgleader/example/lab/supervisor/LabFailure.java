package dev.pgleader.example.lab.supervisor;

import org.jspecify.annotations.Nullable;

/** Something that the lab can't do without has failed; the message says what and what to do. */
public final class LabFailure extends RuntimeException {

    private static final long serialVersionUID = 1;

    /** A failure with a message for people. */
    public LabFailure(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
