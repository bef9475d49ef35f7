package dev.pgleader.example.service;

import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The names in an expression of Prometheus' language; whether it makes sense is for promtool to say. */
record PrometheusExpression(String text) {

    private static final Pattern LABEL_LIST =
            Pattern.compile("\\b(by|without|on|ignoring|group_left|group_right)\\s*\\(([^)]*)\\)");
    private static final Pattern SUM = Pattern.compile("\\bby\\s*\\(([^)]*)\\)");
    private static final Pattern SELECTOR = Pattern.compile("\\{([^}]*)}");
    private static final Pattern SELECTOR_LABEL = Pattern.compile("([a-zA-Z_]\\w*)\\s*(=|!)");
    private static final Pattern NAME = Pattern.compile("(?<![\\w.$])([a-zA-Z_:][\\w:]*)(?!\\s*\\()\\b(?!\\s*\\()");
    private static final Set<String> WORDS = Set.of("and", "or", "unless", "bool", "offset");

    private String withoutStrings() {
        return text.replaceAll("\"[^\"]*\"", "").replaceAll("\\[[^]]*]", "");
    }

    Set<String> metrics() {
        String bare = SELECTOR.matcher(LABEL_LIST.matcher(withoutStrings()).replaceAll(" "))
                .replaceAll(" ");
        return NAME.matcher(bare)
                .results()
                .map(found -> found.group(1))
                .filter(name -> !WORDS.contains(name))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    Set<String> labels() {
        String bare = withoutStrings();
        Stream<String> selected = SELECTOR.matcher(bare)
                .results()
                .flatMap(selector -> SELECTOR_LABEL.matcher(selector.group(1)).results())
                .map(found -> found.group(1));
        Stream<String> listed = LABEL_LIST
                .matcher(bare)
                .results()
                .flatMap(list -> Arrays.stream(list.group(2).split(",", -1)))
                .map(String::strip);
        return Stream.concat(selected, listed).collect(Collectors.toCollection(TreeSet::new));
    }

    /** The labels of each {@code by (...)}. */
    List<Set<String>> sums() {
        return SUM.matcher(withoutStrings())
                .results()
                .map(sum -> Stream.of(sum.group(1).split(",", -1))
                        .map(String::strip)
                        .collect(Collectors.<String, Set<String>>toCollection(TreeSet::new)))
                .toList();
    }

    /** The names of all samples in what an application shows. */
    static Set<String> metricsOf(String exposition) {
        return names(exposition, Pattern.compile("(?m)^([a-zA-Z_:][\\w:]*)[{ ]"));
    }

    /** The names of the labels of an application's samples of these metrics. */
    static Set<String> labelsOf(String exposition, Set<String> metrics) {
        String samples = exposition
                .lines()
                .filter(line -> metrics.contains(line.split("[{ ]", 2)[0]))
                .collect(Collectors.joining("\n"));
        return names(samples, Pattern.compile("[{,]([a-zA-Z_]\\w*)=\""));
    }

    private static Set<String> names(String text, Pattern pattern) {
        Set<String> names = new TreeSet<>();
        Matcher found = pattern.matcher(text);
        while (found.find()) {
            names.add(found.group(1));
        }
        return names;
    }
}
