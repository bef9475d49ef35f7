package dev.pgleader.docs;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Runs what a reader would paste into psql: statements that end with a semicolon at the end of a line, or with {@code
 * \gset}, a few of psql's own commands, and variables as {@code :name} or {@code :'name'}, which may have others in them.
 */
final class PsqlScript {

    /** What a statement gave: its rows, or how many it changed. */
    record Result(String sql, List<Map<String, String>> rows, int changed) {}

    private static final Pattern COMMAND = Pattern.compile("\\\\(set|unset|echo|if|else|endif)\\b *(\\S*) *(.*)");
    private static final Pattern IS_SET = Pattern.compile(":\\{\\?(\\w+)}");
    private static final Pattern END = Pattern.compile("(?:;|\\\\gset *(\\w*))\\s*$");
    private static final String QUOTED = "'[^']*'|(?s:\\$(\\w*)\\$.*?\\$\\1\\$)|--[^\n]*";
    private static final Pattern QUOTES = Pattern.compile(QUOTED);
    private static final Pattern VARIABLES =
            Pattern.compile("(?<!:):'(\\w+)'|(?<!:):([a-z]\\w*)|" + QUOTED.replace("\\1", "\\3"));

    private final Connection connection;
    private final Map<String, String> variables = new HashMap<>();

    PsqlScript(Connection connection) {
        this.connection = connection;
    }

    Connection connection() {
        return connection;
    }

    /** One that runs on another connection, with this one's variables. */
    PsqlScript on(Connection other) {
        PsqlScript script = new PsqlScript(other);
        script.variables.putAll(variables);
        return script;
    }

    void set(String name, String value) {
        variables.put(name, value);
    }

    String variable(String name) {
        String value = variables.get(name);
        if (value == null) {
            throw new IllegalStateException("No variable " + name + " among " + variables.keySet());
        }
        return value;
    }

    List<Result> run(String text) throws SQLException {
        List<Result> results = new ArrayList<>();
        StringBuilder statement = new StringBuilder();
        boolean skips = false;
        for (String line : text.lines().toList()) {
            Matcher command = COMMAND.matcher(line.strip());
            if (statement.toString().isBlank() && command.matches()) {
                skips = switch (command.group(1)) {
                    case "if" -> !isSet(command.group(2));
                    case "else" -> !skips;
                    case "endif" -> false;
                    default -> skips || execute(command);
                };
            } else if (!skips) {
                statement.append(line).append('\n');
                if (isWithoutCode(statement.toString())) {
                    statement.setLength(0);
                } else if (ends(statement.toString())) {
                    results.add(execute(statement.toString()));
                    statement.setLength(0);
                }
            }
        }
        if (!statement.toString().isBlank()) {
            throw new IllegalStateException("Not ended: " + statement);
        }
        return results;
    }

    private boolean isSet(String condition) {
        Matcher matcher = IS_SET.matcher(condition);
        if (!matcher.matches()) {
            throw new IllegalStateException("A condition that isn't understood: " + condition);
        }
        return variables.containsKey(matcher.group(1));
    }

    /** Executes a command of psql's own; returns false. */
    private boolean execute(Matcher command) {
        if (command.group(1).equals("set")) {
            variables.put(command.group(2), command.group(3).replaceAll("^'|'$", ""));
        }
        return false;
    }

    private static boolean isWithoutCode(String statement) {
        return statement.lines().allMatch(line -> line.isBlank() || line.strip().startsWith("--"));
    }

    private boolean ends(String statement) {
        String outsideOfQuotes = QUOTES.matcher(statement).replaceAll("");
        return !outsideOfQuotes.contains("'")
                && !outsideOfQuotes.contains("$")
                && END.matcher(substitute(statement)).find();
    }

    private Result execute(String statement) throws SQLException {
        String code = substitute(statement);
        Matcher end = END.matcher(code);
        if (!end.find()) {
            throw new IllegalStateException("Not ended: " + code);
        }
        String sql = code.substring(0, end.start());
        Result result = executeSql(sql);
        if (end.group().startsWith("\\gset")) {
            if (result.rows().size() != 1) {
                throw new IllegalStateException("\\gset needs one row, but got " + result);
            }
            result.rows().get(0).forEach((name, value) -> variables.put(end.group(1) + name, value));
        }
        return result;
    }

    private String substitute(String sql) {
        return VARIABLES.matcher(sql).replaceAll(match -> {
            String replacement = match.group();
            if (match.group(1) != null) {
                replacement = "'" + variable(match.group(1)).replace("'", "''") + "'";
            } else if (match.group(2) != null) {
                replacement = substitute(variable(match.group(2)));
            }
            return Matcher.quoteReplacement(replacement);
        });
    }

    private Result executeSql(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            if (!statement.execute(sql)) {
                return new Result(sql, List.of(), statement.getUpdateCount());
            }
            try (ResultSet rows = statement.getResultSet()) {
                List<Map<String, String>> read = new ArrayList<>();
                while (rows.next()) {
                    Map<String, String> row = new LinkedHashMap<>();
                    for (int column = 1; column <= rows.getMetaData().getColumnCount(); column++) {
                        row.put(rows.getMetaData().getColumnLabel(column), rows.getString(column));
                    }
                    read.add(row);
                }
                return new Result(sql, read, 0);
            }
        }
    }
}
