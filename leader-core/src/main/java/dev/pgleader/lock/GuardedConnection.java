package dev.pgleader.lock;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * The connection as the work sees it, and what it makes: everything goes through to the real one, but for the calls that
 * would end the lock under the work. Statements, results and metadata lead back to it, not to the pool's handle, whose
 * {@code close()} would lend the locked session to somebody else. A guard against mistakes, not against intent: {@link
 * Connection#unwrap} leads past it.
 *
 * <p>Each call takes its turn with the helper's own statements, but those that may come in the middle of another one.
 */
final class GuardedConnection {

    /** Method name and number of parameters, since rolling back to a savepoint is no end of a transaction. */
    private static final Set<String> ENDS_CONNECTION = Set.of("close/0", "abort/1");

    private static final Set<String> ENDS_TRANSACTION =
            Set.of("close/0", "abort/1", "commit/0", "rollback/0", "setAutoCommit/1");

    private static final Set<String> NEEDS_NO_TURN =
            Set.of("cancel/0", "close/0", "isClosed/0", "isWrapperFor/1", "unwrap/1", "hashCode/0", "toString/0");

    private static final Set<Class<?>> LEADS_BACK = Set.of(
            Statement.class, PreparedStatement.class, CallableStatement.class, ResultSet.class, DatabaseMetaData.class);

    private final PinnedConnection pinned;
    private final Set<String> refused;
    private final String reason;
    private final Connection proxy;

    private GuardedConnection(PinnedConnection pinned, Set<String> refused, String reason) {
        this.pinned = pinned;
        this.refused = refused;
        this.reason = reason;
        this.proxy = (Connection) guarded(Connection.class, pinned.handle());
    }

    static Connection forSession(PinnedConnection pinned, LockKey key) {
        return new GuardedConnection(
                        pinned,
                        ENDS_CONNECTION,
                        "the session of this connection holds lock " + PinnedConnection.describe(key)
                                + ", and ends when the lock is closed")
                .proxy;
    }

    static Connection forTransaction(PinnedConnection pinned, LockKey key) {
        return new GuardedConnection(
                        pinned,
                        ENDS_TRANSACTION,
                        "the transaction of this connection holds lock " + PinnedConnection.describe(key)
                                + ", and ends with the work: return to commit, throw to roll back")
                .proxy;
    }

    private Object guarded(Class<?> type, Object target) {
        return Proxy.newProxyInstance(
                GuardedConnection.class.getClassLoader(), new Class<?>[] {type}, new Guard(target));
    }

    /** One object that the work has in its hands. */
    private final class Guard implements InvocationHandler {

        private final Object target;

        Guard(Object target) {
            this.target = target;
        }

        @Override
        public @Nullable Object invoke(Object self, Method method, @Nullable Object @Nullable [] arguments)
                throws Throwable {
            String call = method.getName() + "/" + method.getParameterCount();
            if (target instanceof Connection && refused.contains(call)) {
                throw new SQLException(method.getName() + " is refused: " + reason);
            }
            if (call.equals("equals/1") && arguments != null) {
                return self == arguments[0];
            }
            if (call.equals("unwrap/1") && arguments != null && ((Class<?>) arguments[0]).isInstance(self)) {
                return self;
            }
            if (SessionChanges.isMadeBy(method, arguments)) {
                pinned.sessionChanges();
            }
            if (NEEDS_NO_TURN.contains(call)) {
                return call(method, arguments);
            }
            ReentrantLock turn = pinned.turn();
            turn.lock();
            try {
                return call(method, arguments);
            } finally {
                turn.unlock();
            }
        }

        private @Nullable Object call(Method method, @Nullable Object @Nullable [] arguments) throws Throwable {
            Object result;
            try {
                result = method.invoke(target, arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause() == null ? e : e.getCause();
            }
            if (result == null) {
                return null;
            }
            Class<?> type = method.getReturnType();
            if (type == Connection.class) {
                return proxy;
            }
            return LEADS_BACK.contains(type) ? guarded(type, result) : result;
        }
    }
}
