package dev.pgleader.example.lab.supervisor;

/** What was asked for can't be done now; the message says why and what to do. Nothing was changed. */
public final class LabRefusal extends RuntimeException {

    private static final long serialVersionUID = 1;

    /** A refusal with a message for people. */
    public LabRefusal(String message) {
        super(message);
    }
}
