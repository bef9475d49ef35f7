package dev.pgleader.lock;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The connection as the work sees it: everything goes through to the real one, but for the calls that would end the
 * lock under the work. A guard against mistakes, not against intent: {@link Connection#unwrap} leads past it.
 */
final class GuardedConnection implements InvocationHandler {

    /** Method name and number of parameters, since rolling back to a savepoint is no end of a transaction. */
    private static final Set<String> ENDS_CONNECTION = Set.of("close/0", "abort/1");

    private static final Set<String> ENDS_TRANSACTION =
            Set.of("close/0", "abort/1", "commit/0", "rollback/0", "setAutoCommit/1");

    private final Connection target;
    private final Set<String> refused;
    private final String reason;

    private GuardedConnection(Connection target, Set<String> refused, String reason) {
        this.target = target;
        this.refused = refused;
        this.reason = reason;
    }

    static Connection forSession(Connection target, LockKey key) {
        return guard(new GuardedConnection(
                target,
                ENDS_CONNECTION,
                "the session of this connection holds lock " + PinnedConnection.describe(key)
                        + ", and ends when the lock is closed"));
    }

    static Connection forTransaction(Connection target, LockKey key) {
        return guard(new GuardedConnection(
                target,
                ENDS_TRANSACTION,
                "the transaction of this connection holds lock " + PinnedConnection.describe(key)
                        + ", and ends with the work: return to commit, throw to roll back"));
    }

    private static Connection guard(GuardedConnection guard) {
        return (Connection) Proxy.newProxyInstance(
                GuardedConnection.class.getClassLoader(), new Class<?>[] {Connection.class}, guard);
    }

    @Override
    public @Nullable Object invoke(Object proxy, Method method, @Nullable Object @Nullable [] arguments)
            throws Throwable {
        if (refused.contains(method.getName() + "/" + method.getParameterCount())) {
            throw new SQLException(method.getName() + " is refused: " + reason);
        }
        if (method.getDeclaringClass() == Object.class && arguments != null) {
            return proxy == arguments[0];
        }
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause() == null ? e : e.getCause();
        }
    }
}
