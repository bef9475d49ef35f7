package dev.pgleader.lock;

import java.lang.reflect.Method;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Recognises what changes a session for good, by the calls that the work makes: settings, subscriptions, locks of its own.
 * Nothing but the end of the session surely takes all that back. What a function of the database's own does inside isn't
 * seen; a call that only looks like a change costs the pool a new connection.
 */
final class SessionChanges {

    private static final String START = "(?:^|;)(?:\\s|--[^\\n]*+\\n|/\\*.*?\\*/)*+";

    /** Which isolation the next transactions have is put back by the helper. */
    private static final String ISOLATION =
            "SESSION\\s++CHARACTERISTICS\\s++AS\\s++TRANSACTION\\s++ISOLATION\\b(?![^;]*\\bREAD\\s++(?:ONLY|WRITE)\\b)";

    private static final Pattern SQL = Pattern.compile(
            START + "(?:SET\\s++(?!LOCAL\\b|TRANSACTION\\b|CONSTRAINTS\\b|" + ISOLATION
                    + ")|RESET\\b|DISCARD\\b|LISTEN\\b|LOAD\\b)"
                    + "|\\bset_config\\s*+\\((?![^()]*,\\s*+true\\s*+\\))"
                    + "|\\bpg_(?:try_)?advisory_lock",
            Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

    private static final Set<String> METHODS = Set.of("setSchema", "setClientInfo");

    private SessionChanges() {}

    static boolean isMadeBy(Method method, @Nullable Object @Nullable [] arguments) {
        if (METHODS.contains(method.getName())) {
            return true;
        }
        return arguments != null
                && arguments.length > 0
                && arguments[0] instanceof String sql
                && isStatement(method.getName())
                && SQL.matcher(sql).find();
    }

    private static boolean isStatement(String method) {
        return method.startsWith("prepare") || method.startsWith("execute") || method.equals("addBatch");
    }
}
