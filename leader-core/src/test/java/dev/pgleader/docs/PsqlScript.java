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
 * \gset}, {@code \set}, and variables as {@code :name} or {@code :'name'}.
 */
final class PsqlScript {

    /** What a statement gave: its rows, or how many it changed. */
    record Result(String sql, List<Map<String, String>> rows, int changed) {}

    private static final Pattern SET = Pattern.compile("\\\\set (\\w+) '?([^']*)'?");
    private static final Pattern VARIABLE_OR_LITERAL = Pattern.compile("(?<!:):'(\\w+)'|'[^']*'|(?<!:):([a-z]\\w*)");

    private final Connection connection;
    private final Map<String, String> variables = new HashMap<>();

    PsqlScript(Connection connection) {
        this.connection = connection;
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
            throw new IllegalStateException("No variable " + name + " among " + variables);
        }
        return value;
    }

    List<Result> run(String text) throws SQLException {
        List<Result> results = new ArrayList<>();
        StringBuilder statement = new StringBuilder();
        for (String line : text.lines().toList()) {
            Matcher set = SET.matcher(line.strip());
            if (statement.toString().isBlank() && set.matches()) {
                variables.put(set.group(1), set.group(2));
                continue;
            }
            statement.append(line).append('\n');
            String code = statement.toString().strip();
            boolean keeps = code.endsWith("\\gset");
            if (keeps || code.endsWith(";")) {
                Result result = execute(substitute(code.replaceAll("(;|\\\\gset)$", "")));
                results.add(result);
                statement.setLength(0);
                if (keeps) {
                    if (result.rows().size() != 1) {
                        throw new IllegalStateException("\\gset needs one row, but got " + result);
                    }
                    variables.putAll(result.rows().get(0));
                }
            }
        }
        if (!statement.toString().isBlank()) {
            throw new IllegalStateException("Not ended: " + statement);
        }
        return results;
    }

    private String substitute(String sql) {
        return VARIABLE_OR_LITERAL.matcher(sql).replaceAll(match -> {
            String replacement = match.group();
            if (match.group(1) != null) {
                replacement = "'" + variable(match.group(1)).replace("'", "''") + "'";
            } else if (match.group(2) != null) {
                replacement = variable(match.group(2));
            }
            return Matcher.quoteReplacement(replacement);
        });
    }

    private Result execute(String sql) throws SQLException {
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
