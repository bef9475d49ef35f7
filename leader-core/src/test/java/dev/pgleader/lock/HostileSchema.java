package dev.pgleader.lock;

import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A database with a schema of a stranger's in its path, which has a trap for each name in our SQL: for each function and
 * operator of that name in {@code pg_catalog} one that takes the same, and others that fit the driver's parameters better;
 * for each type a domain, for each relation a view. Who falls into one leaves a count that no rollback takes back, and fails.
 */
public final class HostileSchema {

    static final String SERVICE = "hostile_service";
    private static final String STRANGER = "hostile_stranger";

    private static final Pattern IDENTIFIER = Pattern.compile("[a-z_][a-z0-9_]*");
    private static final Pattern OPERATOR = Pattern.compile("[-+*/<>=~!@#%^&|`]+");
    private static final List<String> PARAMETER_TYPES = List.of(
            "int2", "int4", "int8", "numeric", "float8", "text", "varchar", "name", "bpchar", "oid", "xid", "bool");

    private final PostgresServer server;
    private final String database;

    private HostileSchema(PostgresServer server, String database) {
        this.server = server;
        this.database = database;
    }

    /** The SQL of a class: each text that is a constant of it. */
    static List<String> textsOf(Class<?>... classes) {
        return Stream.of(classes)
                .flatMap(type -> Stream.of(type.getDeclaredFields()))
                .filter(field -> Modifier.isStatic(field.getModifiers()) && field.getType() == String.class)
                .map(HostileSchema::value)
                .toList();
    }

    private static String value(Field field) {
        try {
            field.setAccessible(true);
            return (String) field.get(null);
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Sets the traps in a database of its own.
     *
     * @param path of the database, in which the stranger's schema is called {@code trap}
     */
    public static HostileSchema create(PostgresServer server, String database, String path, List<String> texts)
            throws SQLException {
        server.createDatabase(database);
        try (Connection connection = server.connect(database)) {
            Sql.execute(connection, """
                    DO $$ BEGIN
                        CREATE ROLE hostile_service LOGIN;
                        CREATE ROLE hostile_stranger LOGIN;
                    EXCEPTION WHEN duplicate_object THEN NULL; END $$;
                    CREATE SCHEMA trap;
                    GRANT CREATE, USAGE ON SCHEMA trap TO PUBLIC;
                    """);
            Sql.execute(connection, "ALTER DATABASE " + database + " SET search_path = " + path);
        }
        HostileSchema schema = new HostileSchema(server, database);
        try (Connection stranger = server.connect(database, STRANGER, "")) {
            Sql.execute(stranger, "SET search_path = pg_catalog");
            schema.setTraps(stranger, texts);
        }
        return schema;
    }

    private void setTraps(Connection stranger, List<String> texts) throws SQLException {
        Set<String> names = matches(IDENTIFIER, texts);
        Set<String> operators = matches(OPERATOR, texts);
        Sql.execute(stranger, """
                CREATE SEQUENCE trap.fired;
                GRANT USAGE ON SEQUENCE trap.fired TO PUBLIC;
                CREATE FUNCTION trap.spring(what text) RETURNS boolean LANGUAGE plpgsql AS $$
                BEGIN
                    PERFORM nextval('trap.fired');
                    RAISE EXCEPTION 'the trap % fired', what;
                END $$;
                """);
        setTrapsForFunctions(stranger, names);
        setTrapsForOperators(stranger, operators);
        for (String type : strings(
                stranger,
                "SELECT typname FROM pg_type WHERE typname = ANY (" + array(names)
                        + ") AND typtype = 'b' AND typnamespace = 'pg_catalog'::regnamespace")) {
            Sql.execute(
                    stranger,
                    "CREATE DOMAIN trap.\"%1$s\" AS pg_catalog.\"%1$s\" CHECK (trap.spring('%1$s'))".formatted(type));
        }
        for (String relation : strings(
                stranger,
                "SELECT relname FROM pg_class WHERE relname = ANY (" + array(names)
                        + ") AND relkind IN ('r', 'v') AND relnamespace = 'pg_catalog'::regnamespace")) {
            Sql.execute(
                    stranger,
                    "CREATE VIEW trap.%1$s AS SELECT * FROM pg_catalog.%1$s WHERE trap.spring('%1$s')"
                            .formatted(relation));
            Sql.execute(stranger, "GRANT SELECT ON trap." + relation + " TO PUBLIC");
        }
    }

    private static void setTrapsForFunctions(Connection stranger, Set<String> names) throws SQLException {
        // Pseudo-types other than polymorphic ones can't be declared; "any" stands for all that are spelled out here.
        List<String> definitions =
                strings(stranger, """
                SELECT DISTINCT proname || '(' || arguments || ') RETURNS ' || result
                FROM pg_proc AS p,
                     LATERAL (SELECT coalesce(string_agg(format_type(t, NULL), ', ' ORDER BY n), '') AS arguments,
                                     coalesce(bool_or(t IN ('internal'::regtype, 'cstring'::regtype)), false) AS undeclarable
                              FROM unnest(proargtypes) WITH ORDINALITY AS a(t, n)) AS a,
                     LATERAL (SELECT (CASE WHEN proretset THEN 'SETOF ' ELSE '' END) || format_type(prorettype, NULL) AS result)
                         AS r,
                     LATERAL (SELECT unnest(ARRAY[a.arguments,
                         replace(a.arguments, 'text', 'character varying'),
                         replace(a.arguments, 'bigint', 'integer'),
                         replace(a.arguments, '"any"', 'anyelement'),
                         replace(a.arguments, '"any"', 'text'),
                         replace(a.arguments, '"any"', 'text, xid'),
                         replace(a.arguments, '"any"', 'text, text'),
                         replace(a.arguments, 'anyarray', 'text[]'),
                         replace(a.arguments, 'anyarray', 'bigint[]'),
                         replace(a.arguments, 'anyarray', 'integer[]')]) AS arguments) AS v(arguments),
                     LATERAL (SELECT replace(v.arguments, 'VARIADIC ', '') AS arguments) AS w(arguments)
                WHERE proname = ANY (%s) AND pronamespace = 'pg_catalog'::regnamespace AND NOT undeclarable
                  AND w.arguments NOT LIKE '%%"any"%%' AND w.arguments NOT LIKE '%%anycompatible%%'
                """.formatted(array(names)).replace("|| arguments ||", "|| w.arguments ||"));
        for (String definition : definitions) {
            createIfPossible(
                    stranger,
                    "CREATE FUNCTION trap." + definition + " LANGUAGE plpgsql AS $$ BEGIN" + " PERFORM trap.spring('"
                            + definition.replace("'", "") + "'); END $$");
        }
    }

    private static void setTrapsForOperators(Connection stranger, Set<String> operators) throws SQLException {
        for (String operator : operators) {
            Map<String, String> resultOfOperands = new TreeMap<>();
            for (String left : PARAMETER_TYPES) {
                String result = operator.matches("[<>=!]+") && !operator.matches("<<|>>") ? "boolean" : left;
                PARAMETER_TYPES.forEach(right -> resultOfOperands.put(left + ", " + right, result));
            }
            for (String real : strings(stranger, """
                    SELECT oprleft::regtype || ', ' || oprright::regtype || ';' || oprresult::regtype FROM pg_operator
                    WHERE oprname = '%s' AND oprleft <> 0 AND oprright <> 0 AND oprnamespace = 'pg_catalog'::regnamespace
                    """.formatted(operator))) {
                resultOfOperands.put(real.substring(0, real.indexOf(';')), real.substring(real.indexOf(';') + 1));
            }
            String function = "op_" + Integer.toHexString(operator.hashCode());
            for (Map.Entry<String, String> entry : resultOfOperands.entrySet()) {
                String operands = "LEFTARG = " + entry.getKey().replace(", ", ", RIGHTARG = ");
                if (createIfPossible(
                        stranger,
                        "CREATE FUNCTION trap.%s(%s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN PERFORM trap.spring('%s'); END $$"
                                .formatted(function, entry.getKey(), entry.getValue(), operator))) {
                    createIfPossible(
                            stranger,
                            "CREATE OPERATOR trap.%s (%s, FUNCTION = trap.%s)".formatted(operator, operands, function));
                }
            }
        }
    }

    /** Some combinations exist already in another spelling, or can't be declared. */
    private static boolean createIfPossible(Connection stranger, String sql) {
        try {
            Sql.execute(stranger, sql);
            return true;
        } catch (SQLException e) {
            if (Set.of("42723", "42P13", "42704", "42601").contains(String.valueOf(e.getSQLState()))) {
                return false;
            }
            throw new AssertionError(sql, e);
        }
    }

    private static Set<String> matches(Pattern pattern, List<String> texts) {
        Set<String> found = new TreeSet<>();
        for (String text : texts) {
            Matcher matcher = pattern.matcher(text);
            while (matcher.find()) {
                found.add(matcher.group());
            }
        }
        return found;
    }

    private static String array(Set<String> texts) {
        return texts.stream().collect(Collectors.joining("', '", "ARRAY['", "']"));
    }

    private static List<String> strings(Connection connection, String sql) throws SQLException {
        List<String> strings = new ArrayList<>();
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            while (rows.next()) {
                strings.add(rows.getString(1));
            }
        }
        return strings;
    }

    /** How often anybody fell into a trap so far. */
    public long fired() throws SQLException {
        try (Connection connection = server.connect(database)) {
            return Long.parseLong(String.valueOf(Sql.text(
                    connection,
                    "SELECT pg_catalog.int8pl(CASE WHEN is_called THEN last_value ELSE 0 END, 0) FROM trap.fired")));
        }
    }

    /** How many functions and operators the stranger has made. */
    public long traps() throws SQLException {
        try (Connection connection = server.connect(database)) {
            Sql.execute(connection, "SET search_path = pg_catalog");
            return Long.parseLong(String.valueOf(Sql.text(connection, """
                    SELECT (SELECT count(*) FROM pg_proc WHERE pronamespace = 'trap'::regnamespace)
                         + (SELECT count(*) FROM pg_operator WHERE oprnamespace = 'trap'::regnamespace)
                    """)));
        }
    }
}
