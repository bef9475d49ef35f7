package dev.pgleader.lock;

import java.sql.SQLException;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A lock session can't be opened, or can't be trusted any more. In either case there is no session afterwards: whoever
 * gets this exception from a session aborts it.
 */
public final class LockSessionException extends Exception {

    private static final long serialVersionUID = 1L;

    /** What is wrong, as far as that makes a difference to what one does about it. */
    public enum Fault {
        /** No connection is to be had: the server is down, the address is wrong, it has no connection to spare. */
        UNREACHABLE,
        /** The server refuses the user: the password is wrong, or {@code pg_hba.conf} doesn't let the user in. */
        LOGIN_REFUSED,
        /** The connection is gone: the backend was terminated, the server stopped, the network reset it. */
        CONNECTION_LOST,
        /** The server didn't answer in time. */
        TIMEOUT,
        /** The server is a standby: it has locks of its own, which the primary doesn't know. */
        STANDBY,
        /** The server takes no writes ({@code transaction_read_only}): it may have been fenced off after a failover. */
        READ_ONLY,
        /**
         * Statements of one connection don't stay on one backend of their own, as behind a pooler in transaction or
         * statement mode.
         */
        SHARED_BACKEND,
        /** A granted lock doesn't show in {@code pg_locks}: the server only pretends to have advisory locks. */
        LOCKS_NOT_REAL,
        /** The session no longer holds a lock that it should hold, though it lives. */
        LOCK_LOST,
        /** The server doesn't end silent sessions ({@code idle_session_timeout}): it refuses the setting or has lost it. */
        LEASE_NOT_ENFORCED,
        /** The server's lock table is full ({@code max_locks_per_transaction}). */
        LOCK_TABLE_FULL,
        /** The server is older than PostgreSQL 14, or not PostgreSQL. */
        UNSUPPORTED_SERVER,
        /** The server answered with another error. */
        STATEMENT_FAILED
    }

    private final Fault fault;

    /** A fault, told in a sentence, with the exception that showed it, if one did. */
    public LockSessionException(Fault fault, String message, @Nullable Throwable cause) {
        super(message, cause);
        this.fault = fault;
    }

    /** A fault, told in a sentence. */
    public LockSessionException(Fault fault, String message) {
        this(fault, message, null);
    }

    /** What is wrong. */
    public Fault fault() {
        return fault;
    }

    /** The <a href="https://www.postgresql.org/docs/current/errcodes-appendix.html">SQLSTATE</a> behind it, if there is one. */
    public Optional<String> sqlState() {
        for (Throwable cause = getCause(); cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException sql && sql.getSQLState() != null) {
                return Optional.of(sql.getSQLState());
            }
        }
        return Optional.empty();
    }
}
