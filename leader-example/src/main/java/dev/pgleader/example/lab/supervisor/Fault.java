package dev.pgleader.example.lab.supervisor;

/** What can be done to a node or to the server. */
public enum Fault {
    KILL("kill -9"),
    RESTART("restart"),
    PAUSE("pause"),
    CONTINUE("continue"),
    CUT("cut network"),
    HEAL("heal network"),
    TERMINATE_SESSION("terminate session"),
    RESIGN("resign"),
    SUSPEND("suspend"),
    WAKE("wake up"),
    FORGE_NOTICES("forged notices"),
    ROLL_OUT("rolling deployment"),
    RESTART_SERVER("restart PostgreSQL");

    private final String label;

    Fault(String label) {
        this.label = label;
    }

    /** Whether it undoes another one, and so takes the leadership from nobody. */
    boolean heals() {
        return this == CONTINUE || this == HEAL || this == WAKE;
    }

    /** What people call it. */
    public String label() {
        return label;
    }
}
