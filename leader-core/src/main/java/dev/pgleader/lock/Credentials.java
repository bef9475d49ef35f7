package dev.pgleader.lock;

import java.util.Objects;

/**
 * A user name and a password. {@link #toString()} doesn't show the password.
 *
 * @param user the role to log in as
 * @param password its password; empty where the server asks for none
 */
public record Credentials(String user, String password) {

    /** Refuses null. */
    public Credentials {
        Objects.requireNonNull(user, "user");
        Objects.requireNonNull(password, "password");
    }

    @Override
    public String toString() {
        return "Credentials[user=" + user + "]";
    }
}
