package dev.pgleader.example;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** Options of the form {@code --name value}. */
public final class CommandLine {

    private CommandLine() {}

    /**
     * The values by option.
     *
     * @param usage added to what is wrong
     * @throws IllegalArgumentException if there is another option, or one without a value
     */
    public static Map<String, String> parse(Set<String> options, String usage, String... args) {
        Map<String, String> values = new HashMap<>();
        for (int i = 0; i < args.length; i += 2) {
            if (!options.contains(args[i])) {
                throw new IllegalArgumentException("Unknown option " + args[i] + "; " + usage);
            }
            if (i + 1 == args.length) {
                throw new IllegalArgumentException("The option " + args[i] + " needs a value; " + usage);
            }
            values.put(args[i], args[i + 1]);
        }
        return values;
    }
}
